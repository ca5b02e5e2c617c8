"""How grey of any depth becomes 8 bits."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from medvl.errors import DataError
from medvl.imaging.notes import Note

GREY_DEPTHS_BITS = (8, 10, 12, 14, 16)
"""Depths that grey data in a 16-bit container is taken to have."""


def grey_to_8_bits(grey: npt.NDArray[np.generic], path: Path) -> npt.NDArray[np.uint8]:
    """Scale deep grey to 8 bits.

    Whole numbers in 0..65535: data that is 8-bit grey written wider (every value a multiple of 257, or of 256) gets its
    8-bit values back; else the full scale is the smallest depth of `GREY_DEPTHS_BITS` that holds the brightest pixel,
    so 12-bit data in a 16-bit container is not black and the brightest pixel is at least a quarter of white. Other
    data (floats, signed or 32-bit numbers beyond that range) is stretched from its minimum to its maximum.

    Args:
        grey: [H, W], any integer or float type.
        path: Named in messages.

    Returns:
        uint8 [H, W]; `grey` itself when it is that already.

    Raises:
        DataError: Values that are not finite.
    """
    if grey.dtype == np.uint8:
        return np.asarray(grey, dtype=np.uint8)
    if is_stretched(grey):
        values = grey.astype(np.float64)
        if not np.isfinite(values).all():
            raise DataError(
                f"{path}: expected finite grey values, found NaN or infinite ones. Export the picture again."
            )
        values -= values.min()
        span = float(values.max())
        values *= 255.0 / span if span else 0.0
        return np.asarray(np.rint(values), dtype=np.uint8)
    # The rule looks at the values that occur, so it is worked out once for each of them, not once a pixel.
    occurs = np.zeros(65536, dtype=np.bool_)
    occurs[grey] = True
    values_found = np.flatnonzero(occurs)
    shown = np.zeros(65536, dtype=np.uint8)
    shown[values_found] = _whole_to_8_bits(values_found)
    return np.asarray(shown[grey])


def is_stretched(grey: npt.NDArray[np.generic]) -> bool:
    """Whether `grey_to_8_bits` stretches this data between its extremes."""
    if grey.dtype.kind == "f":
        return True
    return bool(grey.dtype != np.uint16 and (int(grey.min()) < 0 or int(grey.max()) > 65535))


def grey_notes(grey: npt.NDArray[np.generic]) -> set[Note]:
    """What `grey_to_8_bits` does to this data."""
    if grey.dtype == np.uint8:
        return {Note.GREY}
    return {Note.GREY, Note.STRETCHED if is_stretched(grey) else Note.DEEP}


def grey_to_rgb(grey: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """uint8 [H, W] as uint8 [H, W, 3] with equal channels."""
    return np.asarray(cv2.cvtColor(grey, cv2.COLOR_GRAY2RGB), dtype=np.uint8)


def depth_of(brightest: int) -> int:
    """Smallest of `GREY_DEPTHS_BITS` that holds a value in 0..65535."""
    return next(bits for bits in GREY_DEPTHS_BITS if brightest < 2**bits)


def _whole_to_8_bits(values: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    for step in (257, 256):
        if not (values % step).any():
            return np.asarray(values // step, dtype=np.uint8)
    return np.asarray(np.rint(values * (255.0 / (2 ** depth_of(int(values.max())) - 1))), dtype=np.uint8)
