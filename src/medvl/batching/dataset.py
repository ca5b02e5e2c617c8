"""Items as a torch Dataset: pictures are read, and red boxes drawn, when an item is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from torch.utils.data import Dataset

from medvl.benchmark.item import Item
from medvl.errors import DataError
from medvl.imaging.overlay import draw_red_box
from medvl.imaging.reading import pixel_hash, read_picture


@dataclass(frozen=True, slots=True)
class Sample:
    """An item with its picture.

    Attributes:
        item: The item.
        pixels: uint8 [H, W, 3] RGB, red box drawn.
    """

    item: Item
    pixels: npt.NDArray[np.uint8]


class ItemDataset(Dataset[Sample]):
    """Items with their pictures.

    Args:
        items: Items, in order.
        root: Data root that their picture paths are relative to.

    Asking for an item raises a DataError when its picture cannot be read or is no longer the one it was built from.
    """

    def __init__(self, items: Sequence[Item], root: Path) -> None:
        self.items = list(items)
        self._root = root

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Sample:
        item = self.items[index]
        pixels = read_picture(self._root / item.picture, item.frame)
        if pixels.shape[:2] != (item.height, item.width):
            raise DataError(
                f"{item.picture}: expected {item.width} x {item.height} px as when the benchmark was built, found "
                f"{pixels.shape[1]} x {pixels.shape[0]}; the data root changed, build the benchmark again"
            )
        if pixel_hash(pixels) != item.sha256_pixels:
            raise DataError(
                f"{item.picture}: its pixels are not those that the benchmark was built from (item {item.item_id}); "
                "the data root changed, build the benchmark again"
            )
        if item.bbox_xyxy_px is not None:
            pixels = draw_red_box(pixels, item.bbox_xyxy_px)
        return Sample(item, pixels)
