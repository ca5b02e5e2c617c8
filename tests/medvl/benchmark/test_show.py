import numpy as np
import pytest
from mini_items import make_item

from medvl.benchmark.show import caption, choose_items, item_sheet
from medvl.errors import DataError
from medvl.sources.record import Split, Task


def test_chosen_items_fit_and_lie_on_different_pictures_first(demo_items):
    chosen = choose_items(demo_items, 12, task="VG")
    assert {item.task for item in chosen} == {Task.VG}
    pictures = [item.picture for item in chosen]
    assert len(set(pictures)) == min(12, len({i.picture for i in demo_items if i.task is Task.VG}))
    assert {i.split for i in choose_items(demo_items, 5, split="test")} == {Split.TEST}


def test_the_choice_follows_the_seed(demo_items):
    assert choose_items(demo_items, 6, seed=1) == choose_items(demo_items, 6, seed=1)
    assert choose_items(demo_items, 6, seed=1) != choose_items(demo_items, 6, seed=2)


def test_nothing_that_fits_is_said_with_what_there_is(demo_items):
    with pytest.raises(DataError, match=r"no item has task=XX; there are task: CD, FO, PI, VC, VG"):
        choose_items(demo_items, 3, task="XX")


def test_a_caption_marks_the_right_answer():
    item = make_item(number=1)
    assert caption(item).splitlines()[2:] == ["A. head", "[B. abdomen]", "C. femur"]


def test_the_sheet_shows_red_boxes_also_after_the_picture_was_made_small(demo_items, demo_root):
    chosen = choose_items(demo_items, 6, task="VG", tier="small")
    for side in (None, 96):
        sheet = item_sheet(chosen, demo_root, columns=3, cell_px=200, side_px=side).astype(int)
        red = (sheet[..., 0] > 120) & (sheet[..., 0] - sheet[..., 1] > 60)
        rows = np.array_split(red, 2, axis=0)
        cells = [cell for row in rows for cell in np.array_split(row, 3, axis=1)]
        assert all(cell.sum() > 20 for cell in cells[: len(chosen)])
