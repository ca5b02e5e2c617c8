"""Asking without the picture that belongs to the question: does the model look, or does the text give it away?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from enum import StrEnum

import numpy as np

from medvl.benchmark.item import Item

BLANK_GREY = 128
"""Grey level of a blank picture: black could pass for the dark surroundings of an ultrasound picture."""


class PictureControl(StrEnum):
    """What stands in the place of the picture."""

    TEXT_ONLY = "text_only"
    """No picture in the turn at all."""
    BLANK = "blank"
    """A mid-grey picture of the same size, without a red box."""
    SHUFFLED = "shuffled"
    """The picture, and red box, of another item of the same task, of another group where there is one."""


def shuffled_partners(items: Sequence[Item], seed: int) -> list[Item]:
    """Choose for every item the item whose picture it is asked with.

    Within a task the items are laid out group by group, groups in random order, and each takes the picture of the item
    that stands further on by the size of the largest group. So nobody meets a picture of the own group unless one
    group holds more than half of the task.

    Args:
        items: Items of one split, any order.
        seed: Seed of the order.

    Returns:
        One partner an item, in order. Within a task every item is partner once. An item that is alone in its task is
        its own partner.
    """
    rng = np.random.default_rng(seed)
    of_task: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for index, item in enumerate(items):
        of_task[item.task][f"{item.source}\n{item.group}"].append(index)
    partners = list(items)
    for _, groups in sorted(of_task.items()):
        names = sorted(groups)
        order = [index for i in rng.permutation(len(names)) for index in groups[names[i]]]
        shift = min(max(map(len, groups.values())), len(order) - 1)
        for place, index in enumerate(order):
            partners[index] = items[order[(place + shift) % len(order)]]
    return partners
