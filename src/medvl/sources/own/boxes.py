"""Boxes of own data, checked."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from medvl.errors import DataError

Box = tuple[float, float, float, float]

ROUNDING_PX = 1.0
"""A box may leave its picture by so much: exports round corners and sizes one by one."""


def box_from_corners(numbers: Sequence[float], size: tuple[float, float] | None, where: str) -> Box:
    """A half-open box inside its picture.

    Args:
        numbers: x0, y0, x1, y1 in pixels.
        size: Width and height of the picture, None where they are not known.
        where: What to name in a message.

    Returns:
        The box, cut to the picture where it leaves it by no more than `ROUNDING_PX`.

    Raises:
        DataError: A number is not finite, the box has no area, or it leaves the picture.
    """
    x0, y0, x1, y1 = numbers
    width, height = map(float, size or (math.inf, math.inf))
    if not all(math.isfinite(number) for number in numbers) or x0 >= x1 or y0 >= y1:
        raise DataError(f"{where}: expected a box with an area, found {_shown(numbers)} (x0, y0, x1, y1). Correct it.")
    edge = ROUNDING_PX
    if x0 < -edge or y0 < -edge or x1 > width + edge or y1 > height + edge:
        within = f"{width:g} x {height:g} px" if size else "its picture, from 0 on"
        raise DataError(
            f"{where}: expected a box inside {within}, found {_shown(numbers)} (x0, y0, x1, y1). "
            "Correct it, or the size it refers to."
        )
    box = (max(x0, 0.0), max(y0, 0.0), min(x1, width), min(y1, height))
    if box[0] >= box[2] or box[1] >= box[3]:
        raise DataError(f"{where}: expected a box inside its picture, found {_shown(numbers)}. Correct it.")
    return box


def read_box(value: object, box_format: str, where: str, size: tuple[float, float] | None = None) -> Box | None:
    """Box of one cell.

    Args:
        value: Four numbers as a list, or as text separated by blanks, commas or semicolons; None or empty for no box.
        box_format: `xyxy` or `xywh`.
        where: What to name in a message.
        size: Width and height of the picture, None where they are not known.

    Raises:
        DataError: It is no box, has no area, or leaves its picture.
    """
    if isinstance(value, str):
        value = [part for part in re.split(r"[\s,;\[\]()]+", value) if part]
    if value is None or (isinstance(value, Sequence) and not value):
        return None
    try:
        if not isinstance(value, Sequence):
            raise TypeError
        x, y, third, fourth = (float(number) for number in value)
    except (TypeError, ValueError, OverflowError):
        raise DataError(
            f"{where}: expected a box of four numbers ({box_format}), found {str(value)[:60]!r}. Correct it."
        ) from None
    corners = (x, y, x + third, y + fourth) if box_format == "xywh" else (x, y, third, fourth)
    return box_from_corners(corners, size, where)


def _shown(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)
