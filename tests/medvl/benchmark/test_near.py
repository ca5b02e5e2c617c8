import importlib.util
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvl.benchmark.near import SIGNATURE_BYTES, Signature, near_pairs, signature_of
from medvl.errors import DataError
from medvl.imaging.reading import read_picture
from medvl.sources.record import Split

# The changes that are measured are the changes that are tested.
_PATH = Path(__file__).parents[3] / "benchmarks" / "near_duplicates.py"
_SPEC = importlib.util.spec_from_file_location("near_duplicates", _PATH)
measured = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(measured)


@pytest.fixture(scope="module")
def drawn(demo_root):
    """(patient, pixels) of drawn pictures."""
    paths = sorted((demo_root / "pictures").iterdir())
    return [(path.stem.split("_")[0], read_picture(path)) for path in paths]


@pytest.fixture(scope="module")
def heads(shared_data):
    """(subject, pixels) of real pictures; numbers count anew in each folder."""
    paths = sorted((shared_data / "hc18").glob("t*_set/*HC.png"))
    assert len(paths) == 24
    return [(f"{path.parent.name} {path.stem.split('_')[0]}", read_picture(path)) for path in paths]


def lost(pictures, change):
    """Pictures whose changed copy is not reported with them, and pairs of others."""
    rng = np.random.default_rng(7)
    count = len(pictures)
    changed = [change(pixels, rng) for _, pixels in pictures]
    signatures = [signature_of(pixels) for pixels in [p for _, p in pictures] + changed]
    found = {(i, j - count) for i, j, _ in near_pairs(signatures, side=[0] * count + [1] * count)}
    return set(range(count)) - {i for i, j in found if i == j}, {pair for pair in found if pair[0] != pair[1]}


@pytest.mark.parametrize("change", measured.CHANGES.values(), ids=measured.CHANGES)
def test_a_changed_copy_of_a_drawn_picture_is_found_and_nothing_else(drawn, change):
    missed, others = lost(drawn, change)
    assert len(missed) <= 1
    assert others == set()


REAL = ("JPEG, quality 80", "crop 5 % all sides", "crop 0-5 % each side", "gamma 1.25", "small text")


@pytest.mark.parametrize("name", [*REAL, "all of these at once"])
def test_a_changed_copy_of_a_real_picture_is_found_and_nothing_else(heads, name):
    assert lost(heads, measured.CHANGES[name]) == (set(), set())


def test_a_copy_squeezed_to_a_square_is_found(heads):
    missed, others = lost(heads, lambda pixels, rng: cv2.resize(pixels, (256, 256), interpolation=cv2.INTER_AREA))
    assert (missed, others) == (set(), set())


def test_the_cropped_copy_may_come_first(drawn):
    pixels = [p for _, p in drawn[:6]]
    cropped = [measured.crop(p, left=0.05, bottom=0.05) for p in pixels]
    pairs = near_pairs([signature_of(p) for p in cropped + pixels])
    assert [(i, j) for i, j, _ in pairs] == [(i, i + 6) for i in range(6)]
    assert all(0.8 <= correlation <= 1 for _, _, correlation in pairs)


def test_different_patients_are_not_near(drawn, heads):
    for pictures in (drawn, heads):
        groups = [group for group, _ in pictures]
        assert near_pairs([signature_of(pixels) for _, pixels in pictures], groups, threshold=0.7) == []


def test_the_fan_and_the_writing_that_pictures_share_are_no_likeness(heads):
    shown = []
    for _, pixels in heads:
        middle = measured.under_fan(np.maximum(cv2.resize(pixels[100:440, 150:650], (800, 540)), 12))
        for line in range(9):
            at = (5, 30 + 55 * line)
            cv2.putText(middle, f"MI 1.{line} 18 Hz", at, cv2.FONT_HERSHEY_SIMPLEX, 0.7, (230, 230, 230), 2)
        shown.append(signature_of(middle))
    assert near_pairs(shown, [group for group, _ in heads], threshold=0.6) == []


def test_fans_of_noise_are_not_near():
    rng = np.random.default_rng(0)
    grainy = [np.clip(rng.normal(70, 20, (540, 800, 1)), 0, 255).astype(np.uint8).repeat(3, axis=2) for _ in range(4)]
    weak = [signature_of(measured.under_fan(pixels)) for pixels in grainy]
    assert not any(signature.is_blank for signature in weak)
    assert near_pairs(weak, threshold=0.5) == []


def test_neighbouring_frames_of_a_slow_video_are_near_and_frames_of_two_videos_are_not(drawn):
    rng = np.random.default_rng(0)
    videos = [measured.video(pixels, 9, rng) for _, pixels in drawn[::6]]
    found = {(i, j) for i, j, _ in near_pairs([signature_of(frame) for frames in videos for frame in frames])}
    neighbours = {(9 * v + f, 9 * v + f + 1) for v in range(len(videos)) for f in range(8)}
    assert len(neighbours & found) >= 0.9 * len(neighbours)
    assert not {(i, j) for i, j in found if i // 9 != j // 9}


def test_pairs_of_one_group_or_one_side_are_left_out(drawn):
    same = [signature_of(drawn[0][1])] * 4
    assert [pair[:2] for pair in near_pairs(same, group=["a", "a", "b", "b"])] == [(0, 2), (0, 3), (1, 2), (1, 3)]
    sides = [Split.TEST, Split.TRAIN, Split.TRAIN, Split.TRAIN]
    assert near_pairs(same, ["a", "b", "c", "a"], sides) == [(0, 1, pytest.approx(1)), (0, 2, pytest.approx(1))]


@pytest.mark.parametrize("grey", [0, 7, 255])
def test_flat_pictures_are_near_nothing(drawn, grey):
    flat = signature_of(np.full((50, 70, 3), grey, np.uint8))
    assert flat.is_blank
    assert near_pairs([flat, flat, signature_of(drawn[0][1])]) == []


def test_few_pictures_give_no_pairs(drawn):
    signatures = [signature_of(pixels) for _, pixels in drawn[:2]]
    assert near_pairs([]) == near_pairs(signatures[:1]) == near_pairs(signatures) == []


@pytest.mark.parametrize("as_video", [True, False])
def test_each_of_very_many_alike_pictures_is_paired_but_not_with_all(drawn, as_video):
    count = 600
    frames = measured.still_frames(signature_of(drawn[0][1]), count, np.random.default_rng(0))
    sides = [Split.TRAIN] * (count // 2) + [Split.TEST] * (count // 2)
    pairs = near_pairs(frames, sides if as_video else None, sides)
    assert {place for i, j, _ in pairs for place in (i, j)} == set(range(count))
    assert len(pairs) < 10 * count


def test_a_signature_comes_back_from_its_bytes(drawn):
    signature = signature_of(drawn[0][1])
    stored = signature.to_bytes()
    assert len(stored) == SIGNATURE_BYTES < 5000
    back = Signature.from_bytes(stored)
    np.testing.assert_array_equal(back.codes, signature.codes)
    np.testing.assert_array_equal(back.texture, signature.texture)


@pytest.mark.parametrize("damage", [lambda b: b"", lambda b: b[:-1], lambda b: b"\x00" + b[1:]])
def test_bytes_that_are_no_signature_are_refused(drawn, damage):
    with pytest.raises(DataError, match=r"expected a picture signature of version 1 .* delete the cache"):
        Signature.from_bytes(damage(signature_of(drawn[0][1]).to_bytes()))


@settings(max_examples=30)
@given(st.integers(1, 90), st.integers(1, 90), st.integers(0, 2**32 - 1))
def test_a_picture_of_any_size_is_near_its_copy_or_blank(height, width, seed):
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    signature = signature_of(pixels)
    assert signature.is_blank or near_pairs([signature, signature_of(pixels.copy())]) == [(0, 1, pytest.approx(1))]
