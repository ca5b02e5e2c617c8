"""Items as a torch Dataset: pictures are read, and red boxes drawn, when an item is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from torch.utils.data import Dataset

from medvl.batching.picture_control import BLANK_GREY, PictureControl, shuffled_partners
from medvl.benchmark.item import Item
from medvl.errors import DataError
from medvl.imaging.overlay import draw_red_box
from medvl.imaging.reading import pixel_hash, read_picture


@dataclass(frozen=True, slots=True)
class Sample:
    """An item with its picture.

    Attributes:
        item: The item.
        pixels: uint8 [H, W, 3] RGB, red box drawn. None for a question without a picture.
        shown: The item whose picture and box it is; None for the item's own.
    """

    item: Item
    pixels: npt.NDArray[np.uint8] | None
    shown: Item | None = None


class ItemDataset(Dataset[Sample]):
    """Items with their pictures.

    Args:
        items: Items, in order.
        root: Data root that their picture paths are relative to.
        control: What stands in the place of the pictures; None shows them.
        seed: Seed of shuffled pictures.

    Asking for an item raises a DataError when its picture cannot be read or is no longer the one it was built from.
    """

    def __init__(self, items: Sequence[Item], root: Path, control: PictureControl | None = None, seed: int = 0) -> None:
        self.items = list(items)
        self._root = root
        self._control = control
        self._shown = shuffled_partners(self.items, seed) if control is PictureControl.SHUFFLED else self.items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Sample:
        item, shown = self.items[index], self._shown[index]
        if self._control is PictureControl.TEXT_ONLY:
            return Sample(item, None)
        if self._control is PictureControl.BLANK:
            return Sample(item, np.full((item.height, item.width, 3), BLANK_GREY, dtype=np.uint8))
        return Sample(item, self._picture(shown), shown)

    def _picture(self, item: Item) -> npt.NDArray[np.uint8]:
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
        return pixels
