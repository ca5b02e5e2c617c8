import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from medvl.errors import DataError
from medvl.imaging.overlay import draw_red_box


@st.composite
def pictures_with_boxes(draw):
    height, width = draw(st.integers(1, 60)), draw(st.integers(1, 60))
    x0, y0 = draw(st.integers(0, width - 1)), draw(st.integers(0, height - 1))
    x1, y1 = draw(st.integers(x0 + 1, width)), draw(st.integers(y0 + 1, height))
    return np.full((height, width, 3), 90, np.uint8), (x0, y0, x1, y1), draw(st.integers(1, 5))


def changed(pixels: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    return (pixels != drawn).any(axis=2)


@given(pictures_with_boxes())
def test_the_line_is_red_lies_at_the_box_and_changes_nothing_else(case):
    pixels, (x0, y0, x1, y1), line = case
    before = pixels.copy()
    drawn = draw_red_box(pixels, (x0, y0, x1, y1), min_width_px=line)
    red = changed(pixels, drawn)
    assert np.array_equal(pixels, before)
    assert red.any()
    assert (drawn[red] == (255, 0, 0)).all()
    near = np.zeros_like(red)
    near[max(0, y0 - line) : y1 + line, max(0, x0 - line) : x1 + line] = True
    assert not (red & ~near).any()
    core = red[y0 + line : max(0, y1 - line), x0 + line : max(0, x1 - line)]
    assert not core.any()


@given(pictures_with_boxes())
def test_a_box_with_room_on_every_side_keeps_its_inside(case):
    pixels, (x0, y0, x1, y1), line = case
    padded = np.pad(pixels, ((line, line), (line, line), (0, 0)), constant_values=90)
    box = (x0 + line, y0 + line, x1 + line, y1 + line)
    red = changed(padded, draw_red_box(padded, box, min_width_px=line))
    assert not red[box[1] : box[3], box[0] : box[2]].any()
    outside = (x1 - x0 + 2 * line) * (y1 - y0 + 2 * line) - (x1 - x0) * (y1 - y0)
    assert red.sum() == outside


@given(pictures_with_boxes())
def test_every_side_of_the_line_is_as_wide_as_asked_or_as_the_picture_allows(case):
    pixels, box, line = case
    red = changed(pixels, draw_red_box(pixels, box, min_width_px=line))
    rows, columns = np.flatnonzero(red.any(axis=1)), np.flatnonzero(red.any(axis=0))
    assert red[rows[0] : rows[0] + line, columns[0] : columns[-1] + 1].all()
    assert red[max(0, rows[-1] + 1 - line) : rows[-1] + 1, columns[0] : columns[-1] + 1].all()
    assert red[rows[0] : rows[-1] + 1, columns[0] : columns[0] + line].all()
    assert red[rows[0] : rows[-1] + 1, max(0, columns[-1] + 1 - line) : columns[-1] + 1].all()


@pytest.mark.parametrize(("height", "width"), [(540, 800), (96, 96), (661, 959), (1024, 768), (224, 224)])
def test_the_line_is_more_than_a_pixel_wide_after_a_resize_to_96_on_the_shorter_side(height, width):
    pixels = np.full((height, width, 3), 90, np.uint8)
    drawn = draw_red_box(pixels, (width // 4, height // 4, width // 2, height // 2))
    line_px = changed(pixels, drawn)[: height // 4 + 1, width // 3].sum()
    assert 1.2 <= line_px * 96 / min(height, width) <= 2.0
    scale = 96 / min(height, width)
    size = (round(width * scale), round(height * scale))
    small = np.array(Image.fromarray(drawn).resize(size, Image.Resampling.BICUBIC)).astype(int)
    column = small[:, size[0] // 3]
    assert (column[:, 0] - column[:, 1]).max() >= 160


def test_fractions_widen_and_parts_outside_are_cut_off():
    pixels = np.zeros((50, 60, 3), np.uint8)
    assert np.array_equal(draw_red_box(pixels, (10.7, 9.2, 20.1, 30.0)), draw_red_box(pixels, (10, 9, 21, 30)))
    assert np.array_equal(draw_red_box(pixels, (-5, -2, 20, 99)), draw_red_box(pixels, (0, 0, 20, 50)))


@pytest.mark.parametrize(
    "box", [(5, 5, 5, 9), (9, 5, 5, 9), (60, 0, 70, 9), (-9, 0, 0, 9), (float("nan"), 0, 5, 5), (0, 0, float("inf"), 5)]
)
def test_a_box_that_shows_nothing_is_refused(box):
    with pytest.raises(DataError, match="expected a box"):
        draw_red_box(np.zeros((50, 60, 3), np.uint8), box)
