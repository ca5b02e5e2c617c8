"""Labelled grids of pictures for looking at data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

CAPTION_SHARE = 0.12
"""Height of a caption of one line over the cell's side."""
LINE_SHARE = 0.06
"""Height of each line of a longer one."""

BACKGROUND = (32, 32, 32)
INK = (240, 240, 240)


def contact_sheet(
    pictures: Sequence[npt.NDArray[np.uint8]], captions: Sequence[str], columns: int, cell_px: int
) -> npt.NDArray[np.uint8]:
    """Lay pictures out in rows, each fitted into a square cell above its caption.

    Args:
        pictures: uint8 [H, W, 3] each, RGB, any sizes, at least one.
        captions: One each, of one line or several; each line is cut to the cell's width.
        columns: Pictures in a row, at least 1.
        cell_px: Side of a cell in pixels.

    Returns:
        uint8 [rows * (cell_px + caption), columns * cell_px, 3]; the longest caption sets the height of all.

    Raises:
        ValueError: No pictures, no columns, or another number of captions than of pictures.
    """
    if not pictures or len(pictures) != len(captions) or columns < 1:
        raise ValueError(
            f"expected pictures with one caption each and at least 1 column, "
            f"got {len(pictures)} picture(s), {len(captions)} caption(s), {columns} column(s)"
        )
    line_px = max(12, round((CAPTION_SHARE if max(c.count("\n") for c in captions) == 0 else LINE_SHARE) * cell_px))
    caption_px = line_px * (1 + max(caption.count("\n") for caption in captions))
    rows = -(-len(pictures) // columns)
    sheet = Image.new("RGB", (columns * cell_px, rows * (cell_px + caption_px)), BACKGROUND)
    pen = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(size=round(line_px * 0.75))
    for place, (pixels, caption) in enumerate(zip(pictures, captions, strict=True)):
        left, top = place % columns * cell_px, place // columns * (cell_px + caption_px)
        picture = Image.fromarray(pixels)
        scale = cell_px / max(picture.size)
        size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
        corner = (left + (cell_px - size[0]) // 2, top + (cell_px - size[1]) // 2)
        sheet.paste(picture.resize(size, Image.Resampling.LANCZOS), corner)
        for number, line in enumerate(caption.splitlines()):
            pen.text((left + 2, top + cell_px + number * line_px), _fit(line, font, cell_px - 4), fill=INK, font=font)
    return np.array(sheet)


def _fit(caption: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width_px: int) -> str:
    while caption and font.getlength(caption) > width_px:
        caption = caption[:-1]
    return caption
