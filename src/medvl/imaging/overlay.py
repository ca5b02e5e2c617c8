"""The red rectangle of visual grounding questions."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from medvl.errors import DataError

RED = (255, 0, 0)


def draw_red_box(
    pixels: npt.NDArray[np.uint8],
    bbox_xyxy_px: tuple[float, float, float, float],
    *,
    width_share: float = 0.0145,
    min_width_px: int = 2,
) -> npt.NDArray[np.uint8]:
    """Draw a red rectangle around a box, on a copy.

    The line lies just outside the box, so that a small structure is not covered; on a side where the picture ends
    first it moves inwards and keeps its width. The width follows the picture's shorter side: with the default it is
    about 1.4 pixels after a resize to 96 pixels on that side and 4.9 after one to 336.

    Args:
        pixels: uint8 [H, W, 3], RGB.
        bbox_xyxy_px: Half-open box in pixels, origin top left; fractions are widened to whole pixels, parts outside
            the picture are cut off.
        width_share: Line width over the picture's shorter side, in (0, 1].
        min_width_px: Least line width in pixels.

    Returns:
        uint8 [H, W, 3]. Pixels off the line are unchanged.

    Raises:
        DataError: The box is empty, not finite, or wholly outside the picture.
    """
    height, width = pixels.shape[:2]
    if not all(math.isfinite(edge) for edge in bbox_xyxy_px):
        raise DataError(f"expected a box of finite numbers, found {bbox_xyxy_px}. Correct the annotation.")
    x0, y0 = max(0, math.floor(bbox_xyxy_px[0])), max(0, math.floor(bbox_xyxy_px[1]))
    x1, y1 = min(width, math.ceil(bbox_xyxy_px[2])), min(height, math.ceil(bbox_xyxy_px[3]))
    if x0 >= x1 or y0 >= y1:
        raise DataError(
            f"expected a box (x0, y0, x1, y1) that covers part of a {width} x {height} px picture, "
            f"found {bbox_xyxy_px}. Correct the annotation."
        )
    line_px = max(min_width_px, round(width_share * min(height, width)))
    left, top = max(0, x0 - line_px), max(0, y0 - line_px)
    right, bottom = min(width, x1 + line_px), min(height, y1 + line_px)
    drawn = pixels.copy()
    drawn[top : top + line_px, left:right] = RED
    drawn[max(0, bottom - line_px) : bottom, left:right] = RED
    drawn[top:bottom, left : left + line_px] = RED
    drawn[top:bottom, max(0, right - line_px) : right] = RED
    return drawn
