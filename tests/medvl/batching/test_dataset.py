import dataclasses

import numpy as np
import pytest
import torch
from mini_items import make_item
from PIL import Image
from torch.utils.data import DataLoader

from medvl.batching.augment import Draw
from medvl.batching.collator import Batch
from medvl.batching.dataset import ItemDataset
from medvl.batching.picture_control import BLANK_GREY, PictureControl
from medvl.errors import DataError
from medvl.imaging.overlay import draw_red_box
from medvl.imaging.reading import pixel_hash, read_picture
from medvl.sources.record import Split, Task

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


def test_the_questions_of_one_picture_read_it_once(root, monkeypatch):
    read = []
    monkeypatch.setattr(
        "medvl.batching.dataset.read_picture",
        lambda path, frame: (read.append(path.name), read_picture(path, frame))[1],
    )
    other = dataclasses.replace(ITEM, question="another")
    boxed = dataclasses.replace(ITEM, bbox_xyxy_px=(10.0, 8.0, 20.0, 18.0))
    wrong = dataclasses.replace(ITEM, sha256_pixels="0" * 64)
    dataset = ItemDataset([ITEM, boxed, other, wrong], root)
    first, _, third = (dataset[index] for index in range(3))
    assert np.array_equal(first.pixels, RGB)  # the box was drawn on a copy
    assert np.array_equal(third.pixels, RGB)
    with pytest.raises(DataError, match="not those"):
        dataset[3]
    assert read == ["a.png"]


def test_it_says_whose_pictures_are_shown(root):
    items = [ITEM, dataclasses.replace(ITEM, item_id="other", group="g9")]
    assert ItemDataset(items, root).shown == items
    assert ItemDataset(items, root, PictureControl.BLANK).shown == items
    assert ItemDataset(items, root, PictureControl.SHUFFLED).shown == items[::-1]
    assert ItemDataset(items, root, PictureControl.TEXT_ONLY).shown is None


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


def changed(items, root, draws=(0,), level="light", seed=0):
    dataset = ItemDataset(items, root, seed=seed, augment=level)
    return [dataset[draw] for draw in draws]


EPOCHS = [Draw(0, epoch) for epoch in range(12)]
BOXED = dataclasses.replace(ITEM, bbox_xyxy_px=(10.0, 8.0, 20.0, 18.0))


@pytest.mark.parametrize("level", ["light", "ultrasound"])
def test_a_training_picture_is_another_one_in_each_epoch_and_repeat(root, level):
    samples = changed([ITEM], root, [*EPOCHS, Draw(0, 0, 1), Draw(0, 0, 2)], level)
    assert len({sample.pixels.tobytes() for sample in samples}) > 12
    assert all(sample.item is ITEM and sample.pixels.shape == RGB.shape for sample in samples)


def test_a_change_depends_on_the_seed_and_not_on_what_was_asked_before(root):
    first, again = changed([ITEM], root, EPOCHS), changed([ITEM], root, EPOCHS[::-1])[::-1]
    assert all(np.array_equal(a.pixels, b.pixels) for a, b in zip(first, again, strict=True))
    other = changed([ITEM], root, EPOCHS, seed=1)
    assert sum(np.array_equal(a.pixels, b.pixels) for a, b in zip(first, other, strict=True)) < 3


def test_an_index_asks_for_the_first_draw(root):
    dataset = ItemDataset([ITEM, BOXED], root, augment="light")
    for index in range(2):
        assert np.array_equal(dataset[index].pixels, dataset[Draw(index, 0, 0)].pixels)


@pytest.mark.parametrize("split", [Split.VAL, Split.TEST])
def test_a_picture_outside_training_is_never_changed(root, split):
    item = dataclasses.replace(BOXED, split=split)
    plain = ItemDataset([item], root)[0].pixels
    for sample in changed([item], root, EPOCHS, "ultrasound"):
        assert np.array_equal(sample.pixels, plain)
        assert sample.shown is item


def test_the_red_line_is_drawn_last_and_moves_with_its_structure(root):
    boxes = set()
    for sample in changed([BOXED], root, EPOCHS, "ultrasound"):
        box = sample.shown.bbox_xyxy_px
        line = (draw_red_box(np.zeros_like(RGB), box) == (255, 0, 0)).all(axis=2)
        assert np.array_equal((sample.pixels == (255, 0, 0)).all(axis=2), line)
        boxes.add(box)
    assert len(boxes) > 4
    assert BOXED.bbox_xyxy_px == (10.0, 8.0, 20.0, 18.0)


def test_questions_on_one_picture_see_one_copy_that_suits_them_all(root):
    asked = dataclasses.replace(ITEM, item_id="fo", task=Task.FO)
    dataset = ItemDataset([ITEM, asked], root, augment="light")
    for epoch in range(12):
        one, other = dataset[Draw(0, epoch)], dataset[Draw(1, epoch)]
        assert np.array_equal(one.pixels, other.pixels)
        assert one.shown.sha256_pixels == other.shown.sha256_pixels
        assert other.item is asked


def test_rows_share_a_picture_only_when_their_pixels_are_equal(root):
    Image.fromarray(GREY[::-1].copy()).save(root / "b.png")
    second = dataclasses.replace(ITEM, picture="b.png", sha256_pixels=pixel_hash(RGB[::-1]))
    kinds = [ITEM, dataclasses.replace(ITEM, task=Task.VC), BOXED, second]
    items = [*kinds, dataclasses.replace(BOXED, bbox_xyxy_px=(12.0, 8.0, 20.0, 18.0))]
    draws = [Draw(index, 3, repeat) for index in range(len(items)) for repeat in (0, 1)]
    samples = changed(items, root, draws)
    rows = Batch(tuple(s.item for s in samples), {}, None, torch.zeros(10), tuple(s.shown for s in samples)).picture_of
    for row, picture in enumerate(rows):
        assert np.array_equal(samples[row].pixels, samples[rows.index(picture)].pixels)
    assert rows == [0, 1, 0, 1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("workers", [1, 2])
def test_loading_processes_change_pictures_alike(root, workers):
    dataset = ItemDataset([ITEM, BOXED], root, augment="ultrasound")
    draws = [Draw(index, epoch) for epoch in range(4) for index in range(2)]
    loader = DataLoader(dataset, batch_size=2, sampler=draws, num_workers=workers, collate_fn=list)
    loaded = [sample for batch in loader for sample in batch]
    assert all(np.array_equal(a.pixels, dataset[draw].pixels) for a, draw in zip(loaded, draws, strict=True))


def test_a_changed_data_root_is_found_before_pictures_are_changed(root):
    Image.fromarray(GREY[::-1]).save(root / "a.png")
    with pytest.raises(DataError, match=r"a\.png: its pixels are not those"):
        changed([ITEM], root)


@pytest.mark.parametrize("control", PictureControl)
def test_picture_controls_and_changes_do_not_mix(root, control):
    with pytest.raises(ValueError, match="never changed ones"):
        ItemDataset([ITEM], root, control, augment="light")


def test_train_options_come_in_an_order_of_the_draw_and_others_stay(root):
    train = ItemDataset([ITEM], root, shuffle_options=True)
    orders = {train[Draw(0, epoch)].item.options for epoch in range(30)}
    assert len(orders) == 6
    assert all(train[Draw(0, epoch)].item.answer == ITEM.answer for epoch in range(5))
    assert train[Draw(0, 3)].item == train[Draw(0, 3)].item
    held_out = dataclasses.replace(ITEM, split=Split.TEST)
    assert ItemDataset([held_out], root, shuffle_options=True)[Draw(0, 3)].item is held_out
