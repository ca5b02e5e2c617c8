"""Mask files and the boxes that enclose what they mark."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import cv2
import numpy as np
import numpy.typing as npt

from medvl.errors import DataError
from medvl.imaging.reading import decode_image, over_black

BoolMask = npt.NDArray[np.bool_]
Box = tuple[int, int, int, int]

LABEL_LEVELS = 31
"""Masks whose brightest level is no higher hold class numbers (0, 1, 2, ...), not shades of grey."""


def read_mask(path: Path, value: int | None = None) -> BoolMask:
    """Read which pixels a mask file marks.

    The level of a pixel is its grey value as stored (1-bit: 0 or 255; colour: luma as Pillow's mode L gives it,
    transparent parts black; palette: the grey shown when all colours used are greys, else the palette index, which is
    how label files are coded).

    With `value`, pixels of exactly that level are marked. Without it, masks of class numbers (brightest level at most
    `LABEL_LEVELS`) mark every level above 0; all others mark levels of at least half the brightest one, so that the
    soft rim of an anti-aliased mask and stray levels such as the 1 of {0, 1, 255} do not widen the structure.

    Args:
        path: Mask file in any format that `read_picture` reads.
        value: Level of the structure, or None.

    Returns:
        bool [H, W]. May be empty, see `check_mask`.

    Raises:
        DataError: The file is absent, damaged or no picture.
    """
    levels = _levels(path, by_index=value is not None)
    if value is not None:
        return np.asarray(levels == value)
    brightest = levels.max()
    if brightest <= LABEL_LEVELS:
        return np.asarray(levels > 0)
    return np.asarray(levels >= brightest / 2 - 0.5)


def check_mask(mask: BoolMask, picture_shape: tuple[int, ...], where: str) -> None:
    """Refuse a mask that marks nothing or is not of its picture's size.

    Args:
        mask: bool [H, W].
        picture_shape: (H, W) or (H, W, C) of the picture.
        where: What to name in the message.

    Raises:
        DataError: The mask is empty or of another size.
    """
    height, width = picture_shape[:2]
    if mask.shape != (height, width):
        raise DataError(
            f"{where}: expected a mask of its picture's size {width} x {height} px, "
            f"found {mask.shape[1]} x {mask.shape[0]} px. Use the mask that belongs to this picture, not a resized one."
        )
    if not mask.any():
        raise DataError(
            f"{where}: expected a mask that marks a structure, found no marked pixel. "
            "Check the mask's grey level or remove the annotation."
        )


def mask_boxes(
    mask: BoolMask,
    *,
    is_outline: bool,
    per: Literal["structure", "component"] = "structure",
    min_area_share: float = 0.001,
) -> list[Box]:
    """Enclosing boxes of what a mask marks.

    Args:
        mask: bool [H, W].
        is_outline: Only the border is drawn (Record's MaskFile); it is filled first. A filled mask filled again is
            itself, so True is safe for both.
        per: `structure` for one box around everything marked, `component` for one per 8-connected part. Parts that lie
            in a hole of another part belong to it.
        min_area_share: Parts whose area, holes included, is below this share of the picture are dropped
            (`component` only).

    Returns:
        Half-open (x0, y0, x1, y1) in pixels, origin top left, top to bottom, then left to right. The drawn pixels of an
        outline belong to the box. Empty when nothing is marked or left.
    """
    filled = fill_outline(mask) if is_outline else mask
    if per == "structure":
        if not filled.any():
            return []
        x, y, width, height = cv2.boundingRect(filled.astype(np.uint8))
        return [(x, y, x + width, y + height)]
    least_px = min_area_share * mask.size
    _, _, stats, _ = cv2.connectedComponentsWithStats(_without_holes(filled), connectivity=8)
    boxes = [(int(x), int(y), int(x + w), int(y + h)) for x, y, w, h, area in stats[1:] if area >= least_px]
    return sorted(boxes, key=lambda box: (box[1], box[0], box[3], box[2]))


def fill_outline(mask: BoolMask) -> BoolMask:
    """Fill what drawn outlines enclose.

    Outlines that the picture's border cuts are closed along the border, on the side to which they are hollow. Cut
    outlines that are straight lines stay lines.

    Args:
        mask: bool [H, W].

    Returns:
        bool [H, W], the marked pixels and everything enclosed.
    """
    filled = _without_holes(mask).astype(bool)
    _, parts = cv2.connectedComponents(mask.astype(np.uint8), connectivity=8)
    at_border = np.unique(np.concatenate([parts[0], parts[-1], parts[:, 0], parts[:, -1]]))
    cut = [part for part in (parts == number for number in at_border if number) if not _encloses(part, filled)]
    return filled | _hollow_sides(mask, cut) if cut else filled


def _without_holes(mask: BoolMask) -> npt.NDArray[np.uint8]:
    """Everything that the outside cannot reach in 4-connected steps; uint8 0/1, [H, W]."""
    free = np.pad(~mask, 1, constant_values=True).astype(np.uint8)
    _, areas = cv2.connectedComponents(free, connectivity=4)
    return np.asarray(areas[1:-1, 1:-1] != areas[0, 0], dtype=np.uint8)


def _encloses(part: BoolMask, filled: BoolMask) -> bool:
    """Whether filling added pixels next to this part, or the part is solid: then there is nothing left to close."""
    around = cv2.dilate(part.astype(np.uint8), np.ones((3, 3), np.uint8)).astype(bool)
    solid = cv2.erode(np.pad(part, 1).astype(np.uint8), np.ones((9, 9), np.uint8)).any()
    return bool((around & filled & ~part).any() or solid)


def _hull(part: BoolMask) -> BoolMask:
    """Pixels strictly inside the convex hull of the part's pixel centres.

    cv2.fillConvexPoly rounds the edges outwards, which puts pixels of the wrong side into the hull of a flat arc.
    """
    corners = cv2.convexHull(cv2.findNonZero(part.astype(np.uint8)))[:, 0].astype(np.int64)
    ys, xs = np.ogrid[: part.shape[0], : part.shape[1]]
    edges = np.roll(corners, -1, axis=0) - corners
    inside = np.ones(part.shape, dtype=bool)
    # cv2.convexHull turns one way round; its inside has a positive cross product throughout.
    for (x, y), (dx, dy) in zip(corners, edges, strict=True):
        inside &= dx * (ys - y) - dy * (xs - x) > 0
    return inside


def _hollow_sides(mask: BoolMask, cut: list[BoolMask]) -> BoolMask:
    """The areas between cut outlines and the border that lie on the outlines' hollow side.

    The convex hull of an arc lies on its hollow side. Arcs too flat to enclose a pixel take the hull of all arcs. Of
    the areas that an arc's hull meets, the one covered by the largest share is taken.
    """
    _, areas = cv2.connectedComponents((~mask).astype(np.uint8), connectivity=4)
    together = _hull(np.logical_or.reduce(cut)) & ~mask
    hulls = [own if own.any() else together for own in (_hull(part) & ~mask for part in cut)]
    votes = np.bincount(np.concatenate([areas[hull] for hull in hulls]), minlength=areas.max() + 1)
    sizes = np.bincount(areas.ravel())
    chosen = {
        int(max(np.unique(areas[hull]), key=lambda area: votes[area] / sizes[area])) for hull in hulls if hull.any()
    }
    return np.asarray(np.isin(areas, list(chosen)))


def _levels(path: Path, *, by_index: bool) -> npt.NDArray[np.float64]:
    image = decode_image(path)
    if image.mode == "P" and by_index:
        colours = np.array(image.convert("RGB")).reshape(-1, 3)
        if (colours != colours[:, :1]).any():
            return np.asarray(image, dtype=np.float64)
    if not image.mode.startswith(("I", "F")):
        image = over_black(image).convert("L")
    return np.asarray(image, dtype=np.float64)
