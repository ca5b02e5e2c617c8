import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvl.sources.rle import decode_mask, decode_runs, encode_mask, runs_area, runs_box, union_runs

SIZES = st.tuples(st.integers(1, 12), st.integers(1, 12))


@st.composite
def masks(draw, count=1):
    height, width = draw(SIZES)
    bits = st.lists(st.booleans(), min_size=height * width, max_size=height * width)
    return [np.array(draw(bits), dtype=bool).reshape(height, width) for _ in range(count)]


@given(masks())
def test_encoding_and_decoding_gives_the_mask_back(drawn):
    (mask,) = drawn
    np.testing.assert_array_equal(decode_mask(encode_mask(mask), mask.shape[1], mask.shape[0]), mask)


@given(masks(count=3))
def test_box_and_area_of_a_union_are_those_of_the_drawn_masks(drawn):
    union = np.logical_or.reduce(drawn)
    runs = union_runs([decode_runs(encode_mask(mask), mask.size) for mask in drawn])
    assert runs_area(runs) == union.sum()
    if union.any():
        ys, xs = np.nonzero(union)
        assert runs_box(runs, union.shape[0]) == (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1)


@given(masks(count=2))
def test_a_union_is_written_as_its_mask_is(drawn):
    runs = union_runs([decode_runs(encode_mask(mask), mask.size) for mask in drawn])
    expected = decode_runs(encode_mask(np.logical_or(*drawn)), drawn[0].size)
    np.testing.assert_array_equal(runs, expected)


def test_offsets_count_from_the_end_of_the_run_before_and_pixels_run_down_the_columns():
    # 3 rows: pixel 1 is (x 0, y 1); the second run starts 2 after the first one's end.
    mask = decode_mask("1 1 2 3", width=3, height=3)
    np.testing.assert_array_equal(mask, [[0, 0, 1], [1, 1, 0], [0, 1, 0]])


def test_an_empty_mask_has_an_empty_code():
    assert encode_mask(np.zeros((4, 5), bool)) == ""
    assert not decode_mask("", 5, 4).any()
    assert len(union_runs([])) == 0


def test_runs_that_touch_are_one():
    np.testing.assert_array_equal(union_runs([decode_runs("2 3 0 4", 20)]), [[2, 9]])


@pytest.mark.parametrize(
    "code",
    [
        "1",
        "a b",
        "1.5 2",
        "-1 2",
        "3 0",
        "3 -2",
        "0 21",
        "19 2",
        "0 5 16 1",
        f"0 {2**62} {2**62} {2**62}",
        f"0 {2**70}",
    ],
)
def test_what_is_no_code_of_the_picture_is_refused(code):
    with pytest.raises(ValueError, match="expected"):
        decode_runs(code, 20)
