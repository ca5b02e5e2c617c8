"""Training on answers that belong to other questions: what a model still learns then is not from the pictures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from medvl.benchmark.item import Item


def permute_answers(items: Sequence[Item], seed: int) -> list[Item]:
    """Give every item the answer position of another one of the same task and number of options.

    Args:
        items: Training items.
        seed: Seed of the permutation.

    Returns:
        The items in order, `answer` and `answer_index` changed; how often each position is right stays as it was.
    """
    rng = np.random.default_rng(seed)
    alike: dict[tuple[str, int], list[int]] = defaultdict(list)
    for index, item in enumerate(items):
        alike[item.task, len(item.options)].append(index)
    permuted = list(items)
    for _, indices in sorted(alike.items()):
        for index, other in zip(indices, rng.permutation(indices), strict=True):
            position = items[other].answer_index
            permuted[index] = replace(items[index], answer_index=position, answer=items[index].options[position])
    return permuted
