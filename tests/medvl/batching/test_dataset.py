import dataclasses

import numpy as np
import pytest
from mini_items import make_item
from PIL import Image

from medvl.batching.dataset import ItemDataset
from medvl.batching.picture_control import BLANK_GREY, PictureControl
from medvl.errors import DataError
from medvl.imaging.reading import pixel_hash

GREY = np.random.default_rng(0).integers(0, 255, (30, 40), dtype=np.uint8)
RGB = np.repeat(GREY[..., None], 3, axis=2)


@pytest.fixture
def root(tmp_path):
    Image.fromarray(GREY).save(tmp_path / "a.png")
    return tmp_path


ITEM = make_item(picture="a.png", sha256_pixels=pixel_hash(RGB))


def test_a_sample_is_the_picture_as_it_is_read(root):
    dataset = ItemDataset([ITEM], root)
    assert len(dataset) == 1
    assert np.array_equal(dataset[0].pixels, RGB)
    assert dataset[0].item is ITEM


def test_the_red_box_is_drawn_around_its_structure(root):
    boxed = dataclasses.replace(ITEM, bbox_xyxy_px=(10.0, 8.0, 20.0, 18.0))
    pixels = ItemDataset([ITEM, boxed], root)[1].pixels
    red = (pixels == (255, 0, 0)).all(axis=2)
    ys, xs = np.nonzero(red)
    assert (xs.min(), ys.min(), xs.max(), ys.max()) == (8, 6, 21, 19)
    assert np.array_equal(pixels[~red], RGB[~red])
    assert np.array_equal(pixels[8:18, 10:20], RGB[8:18, 10:20])


def test_a_picture_of_another_size_is_refused(root):
    Image.fromarray(GREY[:, :39]).save(root / "a.png")
    with pytest.raises(DataError, match=r"a\.png: expected 40 x 30 px .* found 39 x 30; .* build the benchmark again"):
        ItemDataset([ITEM], root)[0]


def test_another_picture_of_the_same_size_is_refused(root):
    Image.fromarray(GREY[::-1]).save(root / "a.png")
    with pytest.raises(DataError, match=r"a\.png: its pixels are not those .* build the benchmark again"):
        ItemDataset([ITEM], root)[0]


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>", None], ids=["empty", "page", "cut"])
def test_a_broken_file_is_refused_by_name(root, content):
    path = root / "a.png"
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * 0.6)] if content is None else content)
    with pytest.raises(DataError, match=r"a\.png"):
        ItemDataset([ITEM], root)[0]


def test_an_absent_file_is_refused_by_name(root):
    with pytest.raises(DataError, match=r"gone\.png"):
        ItemDataset([dataclasses.replace(ITEM, picture="gone.png")], root)[0]


def test_grey_palette_and_alpha_copies_of_a_frame_give_the_same_sample(root):
    for mode in ("L", "P", "RGBA", "LA"):
        Image.fromarray(GREY).convert(mode).save(root / "a.png")
        assert np.array_equal(ItemDataset([ITEM], root)[0].pixels, RGB)


def test_a_blank_picture_has_the_size_of_its_own_and_no_box(root):
    boxed = dataclasses.replace(ITEM, bbox_xyxy_px=(10.0, 8.0, 20.0, 18.0))
    pixels = ItemDataset([boxed], root, PictureControl.BLANK)[0].pixels
    assert pixels.shape == RGB.shape
    assert np.unique(pixels).tolist() == [BLANK_GREY]


def test_a_text_only_question_has_no_picture_and_needs_no_file(tmp_path):
    sample = ItemDataset([ITEM], tmp_path, PictureControl.TEXT_ONLY)[0]
    assert sample.pixels is None
    assert sample.item is ITEM


def test_shuffled_pictures_come_with_the_box_of_their_own_item(root):
    other = 255 - GREY
    Image.fromarray(other).save(root / "b.png")
    partner = dataclasses.replace(
        ITEM,
        item_id="other",
        group="else",
        picture="b.png",
        sha256_pixels=pixel_hash(np.repeat(other[..., None], 3, axis=2)),
        bbox_xyxy_px=(10.0, 8.0, 20.0, 18.0),
    )
    sample = ItemDataset([ITEM, partner], root, PictureControl.SHUFFLED)[0]
    plain = ItemDataset([ITEM, partner], root)
    assert sample.item is ITEM
    assert sample.shown is partner
    assert np.array_equal(sample.pixels, plain[1].pixels)
