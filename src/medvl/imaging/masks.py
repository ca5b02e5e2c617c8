"""Mask files and the boxes that enclose what they mark."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

from medvl.errors import DataError
from medvl.imaging.arrays import read_named_array
from medvl.imaging.formats import Kind, find_kind
from medvl.imaging.reading import decode_image, over_black, read_picture

BoolMask = npt.NDArray[np.bool_]
Box = tuple[int, int, int, int]

LABEL_LEVELS = 31
"""Masks whose brightest level is no higher hold class numbers (0, 1, 2, ...), not shades of grey."""


def read_mask(
    path: Path,
    value: int | None = None,
    *,
    colour: tuple[int, int, int] | None = None,
    frame: int | None = None,
    array: str | None = None,
) -> BoolMask:
    """Read which pixels a mask file marks.

    The level of a pixel is its value as stored (1-bit: 0 or 255; colour: luma as Pillow's mode L gives it, transparent
    parts black; palette: the grey shown when all colours used are greys, else the palette index, which is how label
    files are coded; DICOM and MetaImage: the stored number, neither windowed nor scaled).

    With `value`, pixels of exactly that level are marked, with `colour` those of exactly that colour as `read_picture`
    shows it. Without either, masks of class numbers (brightest level at most `LABEL_LEVELS`) mark every level above 0;
    all others mark levels of at least half the brightest one, so that the soft rim of an anti-aliased mask and stray
    levels such as the 1 of {0, 1, 255} do not widen the structure.

    Args:
        path: Mask file in any format that `read_picture` reads, or with `array` a .npy file.
        value: Level of the structure, or None.
        colour: RGB colour of the structure, or None. Not together with `value`.
        frame: Frame of a multi-frame file, or None.
        array: Name of the array in a file of named arrays (`structures/liver`), or None. Not together with `frame`.

    Returns:
        bool [H, W]. May be empty, see `check_mask`.

    Raises:
        DataError: The file is absent, damaged, no picture, or lacks the frame or array.
        ValueError: Parameters that exclude each other.
    """
    if (value is not None and colour is not None) or (frame is not None and array is not None):
        raise ValueError(f"{path}: expected value or colour, and frame or array, got both")
    if colour is not None:
        shown = read_picture(path, frame) if array is None else read_named_array(path, array)
        if shown.shape[2:] != (3,):
            raise DataError(
                f"{path}: expected an array of RGB colours under {array!r}, found one of shape {shown.shape}. "
                "Use the file as the dataset publishes it."
            )
        red, green, blue = colour
        return np.asarray((shown[..., 0] == red) & (shown[..., 1] == green) & (shown[..., 2] == blue))
    levels = _levels(path, frame, by_index=value is not None) if array is None else _array_levels(path, array)
    if value is not None:
        return np.asarray(levels == value)
    brightest = levels.max()
    if brightest <= LABEL_LEVELS:
        return np.asarray(levels > 0)
    # Whole numbers are compared as such: half of the brightest, rounded down, is at least half of it less one half.
    return np.asarray(levels >= (brightest / 2 - 0.5 if levels.dtype.kind == "f" else brightest // 2))


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
    # Filling what an outline encloses widens no box, so only outlines that the border may cut need it.
    if is_outline and (mask[0].any() or mask[-1].any() or mask[:, 0].any() or mask[:, -1].any()):
        mask = fill_outline(mask)
    marked = np.ascontiguousarray(mask).view(np.uint8)
    if per == "structure":
        return [_half_open(cv2.boundingRect(marked))] if mask.any() else []
    parts, _ = cv2.findContours(marked, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    least_px = min_area_share * mask.size
    boxes = [_half_open(cv2.boundingRect(part)) for part in parts if _pixels_within(part) >= least_px]
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
    filled = _without_holes(mask)
    _, parts = cv2.connectedComponents(mask.astype(np.uint8), connectivity=8)
    at_border = np.unique(np.concatenate([parts[0], parts[-1], parts[:, 0], parts[:, -1]]))
    cut = [part for part in (parts == number for number in at_border if number) if not _encloses(part, filled)]
    return filled | _hollow_sides(mask, cut) if cut else filled


def _half_open(rectangle: tuple[int, int, int, int]) -> Box:
    x, y, width, height = rectangle
    return (x, y, x + width, y + height)


def _pixels_within(contour: npt.NDArray[np.int32]) -> int:
    """Number of pixels on and inside a contour that visits every border pixel.

    Pick's theorem on the pixel centres. It holds for lines too, which a contour walks there and back.
    """
    steps = len(contour) if len(contour) > 1 else 0
    return round(cv2.contourArea(contour) + steps / 2 + 1)


def _without_holes(mask: BoolMask) -> BoolMask:
    """Everything that the outside cannot reach in 4-connected steps, bool [H, W]."""
    outside = 2
    areas = np.pad(mask.view(np.uint8), 1)
    cv2.floodFill(areas, None, (0, 0), outside, flags=4)
    return np.asarray(areas[1:-1, 1:-1] != outside)


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


def _levels(path: Path, frame: int | None, *, by_index: bool) -> npt.NDArray[Any]:
    kind = find_kind(path)
    if kind is Kind.DICOM:
        from medvl.imaging.dicom import read_dicom_values  # see reading on the cost of imports

        return _luma(read_dicom_values(path, frame))
    if kind is Kind.VOLUME:
        from medvl.imaging.volumes import read_volume

        return _luma(read_volume(path, frame)[0])
    if kind is Kind.VIDEO:
        return _luma(read_picture(path, frame))
    image = decode_image(path, frame)
    if image.mode == "P" and by_index:
        colours = np.array(image.convert("RGB")).reshape(-1, 3)
        if (colours != colours[:, :1]).any():
            return np.asarray(image)
    if image.mode.startswith(("I", "F")) or (image.mode == "L" and not image.has_transparency_data):
        return np.asarray(image)
    return np.asarray(over_black(image).convert("L"))


def _array_levels(path: Path, array: str) -> npt.NDArray[Any]:
    levels = read_named_array(path, array)
    return _luma(levels.astype(np.uint8) if levels.dtype == np.bool_ else levels)


def _luma(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if values.ndim == 2:
        return values
    if values.shape[2] == 1:
        return values[:, :, 0]
    return np.asarray(Image.fromarray(np.asarray(values[:, :, :3], dtype=np.uint8)).convert("L"))
