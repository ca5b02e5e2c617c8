"""Labelled grids of pictures for looking at data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

CAPTION_SHARE = 0.12
"""Height of the caption line over the cell's side."""

BACKGROUND = (32, 32, 32)
INK = (240, 240, 240)


def contact_sheet(
    pictures: Sequence[npt.NDArray[np.uint8]], captions: Sequence[str], columns: int, cell_px: int
) -> npt.NDArray[np.uint8]:
    """Lay pictures out in rows, each fitted into a square cell above its caption.

    Args:
        pictures: uint8 [H, W, 3] each, RGB, any sizes, at least one.
        captions: One each; cut to the cell's width.
        columns: Pictures in a row, at least 1.
        cell_px: Side of a cell in pixels.

    Returns:
        uint8 [rows * (cell_px + caption), columns * cell_px, 3].

    Raises:
        ValueError: No pictures, no columns, or another number of captions than of pictures.
    """
    if not pictures or len(pictures) != len(captions) or columns < 1:
        raise ValueError(
            f"expected pictures with one caption each and at least 1 column, "
            f"got {len(pictures)} picture(s), {len(captions)} caption(s), {columns} column(s)"
        )
    caption_px = max(12, round(CAPTION_SHARE * cell_px))
    rows = -(-len(pictures) // columns)
    sheet = Image.new("RGB", (columns * cell_px, rows * (cell_px + caption_px)), BACKGROUND)
    pen = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(size=round(caption_px * 0.75))
    for place, (pixels, caption) in enumerate(zip(pictures, captions, strict=True)):
        left, top = place % columns * cell_px, place // columns * (cell_px + caption_px)
        picture = Image.fromarray(pixels)
        scale = cell_px / max(picture.size)
        size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
        corner = (left + (cell_px - size[0]) // 2, top + (cell_px - size[1]) // 2)
        sheet.paste(picture.resize(size, Image.Resampling.LANCZOS), corner)
        pen.text((left + 2, top + cell_px), _fit(caption, font, cell_px - 4), fill=INK, font=font)
    return np.array(sheet)


def _fit(caption: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width_px: int) -> str:
    while caption and font.getlength(caption) > width_px:
        caption = caption[:-1]
    return caption
