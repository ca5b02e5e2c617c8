from io import BytesIO

import cv2
import numpy as np
import pytest
from PIL import Image

from medvl.benchmark.near import NEAR_CORRELATION, Signature, near_pairs, signature_of
from medvl.errors import DataError


def drawn(seed, size=(320, 240)):
    """A fan with blobs of its own, dark around, as ultrasound pictures are."""
    rng = np.random.default_rng(seed)
    width, height = size
    grey = cv2.resize(
        rng.rayleigh(40, (height // 6, width // 6)).astype(np.float32), size, interpolation=cv2.INTER_CUBIC
    )
    for _ in range(14):
        centre = (int(rng.integers(width)), int(rng.integers(height)))
        axes = (int(rng.integers(10, 60)), int(rng.integers(10, 40)))
        cv2.ellipse(grey, centre, axes, float(rng.uniform(0, 180)), 0, 360, float(rng.uniform(0, 220)), -1)
    fan = np.zeros((height, width), np.uint8)
    cv2.ellipse(fan, (width // 2, -10), (height, height), 0, 35, 145, 255, -1)
    grey[fan == 0] = 0
    return np.repeat(np.clip(grey, 0, 255).astype(np.uint8)[..., None], 3, axis=2)


def as_jpeg(pixels):
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=80)
    return np.asarray(Image.open(buffer))


CHANGES = {
    "the same": lambda p: p,
    "JPEG at quality 80": as_jpeg,
    "brighter": lambda p: np.clip(p * 1.2, 0, 255).astype(np.uint8),
    "darker": lambda p: (p * 0.8).astype(np.uint8),
    "cropped on the left": lambda p: np.ascontiguousarray(p[:, 16:]),
    "cropped all round": lambda p: np.ascontiguousarray(p[6:-6, 8:-8]),
    "smaller": lambda p: cv2.resize(p, None, fx=0.8, fy=0.8, interpolation=cv2.INTER_AREA),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_copy_is_found_among_others(change):
    pictures = [drawn(seed) for seed in range(25)]
    signatures = [signature_of(p) for p in [*pictures, *(CHANGES[change](p) for p in pictures[:10])]]
    found = {(i, j) for i, j, _ in near_pairs(signatures)}
    assert found == {(i, 25 + i) for i in range(10)}


def test_pairs_within_a_group_or_on_one_side_are_left_out():
    pictures = [signature_of(drawn(0)), signature_of(drawn(0)), signature_of(drawn(0))]
    assert near_pairs(pictures, group=["a", "a", "a"]) == []
    pairs = near_pairs(pictures, group=["a", "b", "c"], side=["train", "train", "test"])
    assert {(i, j) for i, j, _ in pairs} == {(0, 2), (1, 2)}
    assert all(correlation >= NEAR_CORRELATION for _, _, correlation in pairs)


def test_blank_pictures_are_like_nothing():
    blank = [signature_of(np.full((50, 60, 3), level, np.uint8)) for level in (0, 0, 128)]
    assert all(signature.is_blank for signature in blank)
    assert near_pairs(blank) == []


def test_a_signature_survives_being_written():
    signature = signature_of(drawn(3))
    back = Signature.from_bytes(signature.to_bytes())
    assert np.array_equal(back.codes, signature.codes)
    assert np.array_equal(back.texture, signature.texture)
    with pytest.raises(DataError, match="signature of version"):
        Signature.from_bytes(signature.to_bytes()[:-1])


def test_real_pictures_of_different_patients_are_not_alike(shared_data):
    from medvl.imaging.reading import read_picture

    paths = sorted((shared_data / "hc18").glob("*_set/*_HC.png"))
    paths = [path for path in paths if "_Annotation" not in path.name]
    signatures = [signature_of(read_picture(path)) for path in paths]
    subjects = [f"{path.parent.name} {path.name.split('_')[0]}" for path in paths]
    assert len(paths) > 15
    assert near_pairs(signatures, group=subjects) == []
