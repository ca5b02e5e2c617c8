from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from medvl.errors import DataError
from medvl.imaging.grey import GREY_DEPTHS_BITS, depth_of, grey_notes, grey_to_8_bits, grey_to_rgb
from medvl.imaging.notes import Note

PATH = Path("x.png")


def by_pixel(grey: np.ndarray) -> np.ndarray:
    """The rule as its docstring states it, worked out on the whole picture."""
    values = grey.astype(np.float64)
    if grey.dtype.kind == "f" or values.min() < 0 or values.max() > 65535:
        span = values.max() - values.min()
        return np.rint((values - values.min()) * (255 / span if span else 0)).astype(np.uint8)
    for step in (257, 256):
        if not (grey.astype(int) % step).any():
            return (grey.astype(int) // step).astype(np.uint8)
    white = next(2**bits - 1 for bits in GREY_DEPTHS_BITS if values.max() < 2**bits)
    return np.rint(values * (255 / white)).astype(np.uint8)


SHAPES = hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=8)
DTYPES = st.sampled_from([np.uint8, np.uint16, ">u2", np.int16, ">i2", np.int32, np.uint32, np.int64])
STEPS = st.sampled_from([1, 256, 257])


@given(st.data(), DTYPES, STEPS, st.integers(0, 16))
def test_every_type_follows_the_rule(data, dtype, step, shift):
    grey = data.draw(hnp.arrays(dtype, SHAPES)) >> shift
    if step > 1 and grey.dtype.itemsize > 1:
        grey = ((grey.astype(np.int64) % 256) * step).astype(grey.dtype)
    assert np.array_equal(grey_to_8_bits(grey, PATH), by_pixel(grey))


@given(hnp.arrays(np.float32, SHAPES, elements=st.floats(-1e6, 1e6, width=32)))
def test_floats_are_stretched_from_their_least_to_their_greatest(grey):
    shown = grey_to_8_bits(grey, PATH)
    assert np.array_equal(shown, by_pixel(grey))
    if grey.max() > grey.min():
        assert (shown.min(), shown.max()) == (0, 255)


def test_values_that_are_not_finite_are_refused():
    with pytest.raises(DataError, match=r"x\.png.*finite"):
        grey_to_8_bits(np.array([[0, np.inf]]), PATH)


@pytest.mark.parametrize(
    ("grey", "notes"),
    [
        (np.zeros((2, 2), np.uint8), {Note.GREY}),
        (np.zeros((2, 2), np.uint16), {Note.GREY, Note.DEEP}),
        (np.full((2, 2), 65535, np.int32), {Note.GREY, Note.DEEP}),
        (np.full((2, 2), 65536, np.int32), {Note.GREY, Note.STRETCHED}),
        (np.full((2, 2), -1, np.int16), {Note.GREY, Note.STRETCHED}),
        (np.zeros((2, 2), np.float32), {Note.GREY, Note.STRETCHED}),
    ],
)
def test_the_notes_say_which_rule_was_used(grey, notes):
    assert grey_notes(grey) == notes


def test_grey_becomes_three_equal_writable_channels():
    grey = np.arange(6, dtype=np.uint8).reshape(2, 3)
    grey.flags.writeable = False
    rgb = grey_to_rgb(grey)
    assert np.array_equal(rgb, np.repeat(grey[:, :, None], 3, axis=2))
    assert rgb.flags.writeable


@pytest.mark.parametrize(("brightest", "bits"), [(0, 8), (255, 8), (256, 10), (4095, 12), (4096, 14), (65535, 16)])
def test_the_depth_is_the_smallest_that_holds_the_brightest(brightest, bits):
    assert depth_of(brightest) == bits
