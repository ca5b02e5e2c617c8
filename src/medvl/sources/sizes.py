"""Sizes of pictures while a source is scanned, when broken pictures are not yet its business."""

from __future__ import annotations

from pathlib import Path

from medvl.errors import DataError
from medvl.imaging.reading import picture_size


def size_if_readable(path: Path) -> tuple[int, int] | None:
    """Width and height in pixels, from the header.

    Returns:
        (width, height), or None where the picture is absent or broken: the build reads every picture, and refuses or
        lists such ones as the user wants it.
    """
    try:
        return picture_size(path)
    except DataError:
        return None
