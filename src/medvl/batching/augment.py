"""Which changes of its picture an item allows, and the numbered draws that make them repeatable."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from torch.utils.data import Sampler

from medvl.batching.sampler import TaskMixSampler
from medvl.benchmark.item import Item
from medvl.imaging.augment import Moves
from medvl.sources.record import Split, Task

SIDE = re.compile(
    r"(?:left|right|up|down|upper|lower|top|bottom)(?:wards?|most|side)?|superior|inferior|cranial|caudal|situs"
    r"|(?:dextr|sinistr|levo)[a-z]*|(?:ipsi|contra)lateral|(?:counter|anti)?clockwise|[lr][tva]|[lr]vot",
    re.IGNORECASE,
)
"""A word of a side or a direction; an item that holds one is neither mirrored nor turned."""

FIXED: dict[Task, Moves] = {
    Task.FO: Moves(flip=False, turn=False),
    Task.VC: Moves(crop=False),
    Task.FD: Moves(flip=False),
}
"""Task -> moves that leave its answers right; a task not named allows all. FD: a mirrored chest has its heart on the
wrong side."""


class Draw(NamedTuple):
    """What a sampler asks a dataset for: an item, and which of its random changes.

    Attributes:
        item: Index of the item.
        epoch: Epoch.
        repeat: How often the item was drawn before in this epoch.
    """

    item: int
    epoch: int = 0
    repeat: int = 0


class NumberedDraws(Sampler[Draw]):
    """The indices of a sampler with the epoch and a count of repeats.

    A loading process holds a copy of the dataset and never hears of the epoch, so the index brings it along.
    """

    def __init__(self, sampler: TaskMixSampler) -> None:
        self._sampler = sampler
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that the next iteration gives (Lightning calls this)."""
        self._epoch = epoch
        self._sampler.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[Draw]:
        drawn: Counter[int] = Counter()
        draws = []
        for index in self._sampler:
            draws.append(Draw(index, self._epoch, drawn[index]))
            drawn[index] += 1
        return iter(draws)


def allowed_moves(item: Item) -> Moves | None:
    """Say how the picture of an item may be moved without making its answer wrong.

    Returns:
        None for an item of val or test: its picture is not changed at all.
    """
    if item.split is not Split.TRAIN:
        return None
    moves = FIXED.get(item.task, Moves())
    if names_a_side(item):
        moves &= Moves(flip=False, turn=False)
    return moves


def names_a_side(item: Item) -> bool:
    """True when the question, an option or a label holds a word of a side, also within `leftLung` or `left_lung`.

    What the dataset called it (`raw_label`) is not asked about.
    """
    texts = (item.question, *item.options, *item.labels)
    return any(SIDE.fullmatch(word) for text in texts for word in re.findall(r"[A-Z]*[a-z]+|[A-Z]+", text))


def moves_together(items: Sequence[Item]) -> list[Moves | None]:
    """Say how the picture of each item may be moved when questions on the same picture and box see one copy of it.

    Returns:
        One entry an item: what all items with its picture and box allow, so that a batch encodes their copy once.
    """
    alike: dict[tuple[object, ...], Moves | None] = {}
    for item in items:
        own, key = allowed_moves(item), _shown_as(item)
        before = alike.get(key, own)
        alike[key] = None if own is None or before is None else before & own
    return [alike[_shown_as(item)] for item in items]


def draw_seed(seed: int, item: Item, draw: Draw) -> int:
    """Seed of the change: the same for all questions on one picture and box, another in each epoch and repeat."""
    name = f"{seed}:augment:{item.sha256_pixels}:{item.bbox_xyxy_px}:{draw.epoch}:{draw.repeat}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")


def _shown_as(item: Item) -> tuple[object, ...]:
    return item.sha256_pixels, item.bbox_xyxy_px
