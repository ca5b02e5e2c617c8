"""Draws training items by the plan of a task mix, in a new seeded order each epoch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
from torch.utils.data import Sampler

from medvl.batching.task_mix import plan_epoch
from medvl.benchmark.item import Item
from medvl.config.schema import TaskMixConfig


class TaskMixSampler(Sampler[int]):
    """Draws item indices by the plan of a task mix, in a new seeded order each epoch.

    Items of one picture stand together, so that a batch encodes it once; the pictures are shuffled. Within a task the
    items come round-robin through seeded permutations, so that over the epochs each is seen equally
    often, whether a task is drawn more or less often than it has items.

    Args:
        items: Train items.
        mix: Weights, temperature, caps.
        seed: Seed of the run.
    """

    def __init__(self, items: Sequence[Item], mix: TaskMixConfig, seed: int) -> None:
        self._pictures = [(item.source, item.picture, item.frame) for item in items]
        self._by_task: dict[str, list[int]] = {}
        for index, item in enumerate(items):
            self._by_task.setdefault(item.task.value, []).append(index)
        self._plan = plan_epoch({t: len(v) for t, v in sorted(self._by_task.items())}, mix)
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose order the next iteration gives (Lightning calls this)."""
        self._epoch = epoch

    def __len__(self) -> int:
        return sum(self._plan.values())

    def __iter__(self) -> Iterator[int]:
        drawn = [index for task, n in self._plan.items() for index in self._draw(task, n)]
        rng = _rng(self._seed, "order", self._epoch)
        by_picture: dict[tuple[object, ...], list[int]] = {}
        for index in drawn:
            by_picture.setdefault(self._pictures[index], []).append(index)
        pictures = list(by_picture.values())
        return iter([index for i in rng.permutation(len(pictures)) for index in pictures[i]])

    def _draw(self, task: str, n: int) -> list[int]:
        members = self._by_task[task]
        start = self._epoch * n
        chosen = []
        for position in range(start, start + n):
            if position == start or position % len(members) == 0:
                order = _rng(self._seed, task, position // len(members)).permutation(len(members))
            chosen.append(members[order[position % len(members)]])
        return chosen


def _rng(seed: int, *names: object) -> np.random.Generator:
    digest = hashlib.sha256(":".join(map(str, (seed, *names))).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))
