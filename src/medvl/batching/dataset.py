"""Items as a torch Dataset: pictures are read, changed at random, and red boxes drawn, when an item is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from torch.utils.data import Dataset

from medvl.batching.augment import Draw, draw_seed, moves_together
from medvl.batching.option_order import reordered
from medvl.batching.picture_control import BLANK_GREY, PictureControl, shuffled_partners
from medvl.benchmark.item import Item
from medvl.errors import DataError
from medvl.imaging.augment import Level, augmented, check_installed
from medvl.imaging.overlay import draw_red_box
from medvl.imaging.reading import pixel_hash, read_picture
from medvl.sources.record import Split


@dataclass(frozen=True, slots=True)
class Sample:
    """An item with its picture.

    Attributes:
        item: The item.
        pixels: uint8 [H, W, 3] RGB, red box drawn. None for a question without a picture.
        shown: The item whose picture and box it is; None for the item's own. For a changed picture, the item with the
            moved box and a hash that names the draw as well, so that samples share a picture only with equal pixels.
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
        seed: Seed of shuffled pictures, and of changed ones.
        augment: How pictures of train items are changed at random; None shows them as they are. A change depends on
            the seed, the picture with its box, and the draw, not on who loads it. Pictures of val and test items are
            never changed.
        shuffle_options: Show the options of a train item in a new order at each draw. Those of val and test items never
            move.

    Asking for an item raises a DataError when its picture cannot be read or is no longer the one it was built from.
    An index asks for the first draw of epoch 0.

    Raises:
        ConfigError: A package that the level needs is missing.
    """

    def __init__(
        self,
        items: Sequence[Item],
        root: Path,
        control: PictureControl | None = None,
        seed: int = 0,
        augment: Level | None = None,
        shuffle_options: bool = False,
    ) -> None:
        if augment is not None and control is not None:
            raise ValueError("a picture control asks about pictures as they are, never changed ones")
        if augment is not None:
            check_installed(augment)
        self.items = list(items)
        self._root = root
        self._control = control
        self._seed = seed
        self._level = augment
        self._shuffles = shuffle_options
        self._moves = [None] * len(self.items) if augment is None else moves_together(self.items)
        self._shown = shuffled_partners(self.items, seed) if control is PictureControl.SHUFFLED else self.items
        self._last: tuple[tuple[str, int | None], npt.NDArray[np.uint8], str] | None = None

    @property
    def shown(self) -> list[Item] | None:
        """For each item, the item whose picture is shown, or whose size a blank one has; None without pictures."""
        return None if self._control is PictureControl.TEXT_ONLY else self._shown

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int | Draw) -> Sample:
        draw = index if isinstance(index, Draw) else Draw(index)
        item, shown = self.items[draw.item], self._shown[draw.item]
        if self._shuffles and item.split is Split.TRAIN:
            item = reordered(item, self._seed, draw)
        if self._control is PictureControl.TEXT_ONLY:
            return Sample(item, None)
        if self._control is PictureControl.BLANK:
            return Sample(item, np.full((item.height, item.width, 3), BLANK_GREY, dtype=np.uint8))
        pixels = self._read(shown)
        moves = self._moves[draw.item]
        if self._level is not None and moves is not None:
            seed = draw_seed(self._seed, item, draw)
            pixels, box = augmented(pixels, item.bbox_xyxy_px, level=self._level, moves=moves, seed=seed)
            shown = replace(item, sha256_pixels=f"{item.sha256_pixels}:{seed:016x}", bbox_xyxy_px=box)
        if shown.bbox_xyxy_px is not None:
            pixels = draw_red_box(pixels, shown.bbox_xyxy_px)
        return Sample(item, pixels, shown)

    def _read(self, item: Item) -> npt.NDArray[np.uint8]:
        place = (item.picture, item.frame)
        if self._last is None or self._last[0] != place:  # the questions of one picture are asked for one by one
            pixels = read_picture(self._root / item.picture, item.frame)
            self._last = place, pixels, pixel_hash(pixels)
        _, pixels, found = self._last
        if pixels.shape[:2] != (item.height, item.width):
            raise DataError(
                f"{item.picture}: expected {item.width} x {item.height} px as when the benchmark was built, found "
                f"{pixels.shape[1]} x {pixels.shape[0]}; the data root changed, build the benchmark again"
            )
        if found != item.sha256_pixels:
            raise DataError(
                f"{item.picture}: its pixels are not those that the benchmark was built from (item {item.item_id}); "
                "the data root changed, build the benchmark again"
            )
        return pixels
