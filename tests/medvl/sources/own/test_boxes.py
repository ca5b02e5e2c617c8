import pytest

from medvl.errors import DataError
from medvl.sources.own.boxes import box_from_corners, read_box


@pytest.mark.parametrize("value", [[1, 2, 11, 22], (1, 2, 11, 22), "1 2 11 22", "[1, 2, 11, 22]", "1;2;11;22"])
def test_four_numbers_are_a_box(value):
    assert read_box(value, "xyxy", "row 1") == (1, 2, 11, 22)


def test_a_size_may_stand_for_the_second_corner():
    assert read_box([1, 2, 10.5, 20], "xywh", "row 1") == (1, 2, 11.5, 22)


@pytest.mark.parametrize("value", [None, "", "  ", []])
def test_nothing_is_no_box(value):
    assert read_box(value, "xyxy", "row 1") is None


@pytest.mark.parametrize("value", [[1, 2, 3], "1 2 3 x", 7, [1, 2, 3, None], {"x": 1}, [10**400, 2, 3, 4]])
def test_what_is_no_box_is_refused(value):
    with pytest.raises(DataError, match="row 9: expected a box of four numbers"):
        read_box(value, "xyxy", "row 9")


@pytest.mark.parametrize("value", [[5, 5, 5, 9], [5, 9, 9, 5], [0, 0, float("nan"), 1], [0, 0, float("inf"), 1]])
def test_a_box_without_an_area_is_refused(value):
    with pytest.raises(DataError, match="row 9: expected a box with an area"):
        read_box(value, "xyxy", "row 9")


def test_rounding_is_cut_and_more_is_refused():
    assert box_from_corners((-0.4, 0, 40.6, 30), (40, 30), "row 1") == (0, 0, 40, 30)
    for corners in ((-2, 0, 5, 5), (0, -2, 5, 5), (0, 0, 42, 5), (0, 0, 5, 32)):
        with pytest.raises(DataError, match="row 9: expected a box inside 40 x 30 px"):
            box_from_corners(corners, (40, 30), "row 9")


def test_a_box_that_rounding_leaves_nothing_of_is_refused():
    with pytest.raises(DataError, match="inside its picture"):
        box_from_corners((40, 0, 41, 5), (40, 30), "row 9")


def test_a_negative_corner_is_refused_where_the_size_is_not_known():
    with pytest.raises(DataError, match="from 0 on"):
        read_box([-5, 0, 5, 5], "xyxy", "row 9")


def test_a_cell_is_held_against_the_size_of_its_picture():
    assert read_box([0, 0, 40.5, 30], "xywh", "row 1", (40, 30)) == (0, 0, 40, 30)
    with pytest.raises(DataError, match="row 9: expected a box inside 40 x 30 px"):
        read_box([0, 0, 60, 30], "xyxy", "row 9", (40, 30))
