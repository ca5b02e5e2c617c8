"""Training options in a new order at each draw, so that a model learns what the answer says, not where it stood."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace

import numpy as np

from medvl.batching.augment import Draw
from medvl.benchmark.item import Item

REFERS = re.compile(
    r"\b(?:all|none|any|both|neither|either|each|one|two) of (?:the|these|those|them)\b"
    r"|\b(?:the|options?|answers?|choices?) (?:above|below)\b"
    r"|\b(?:option|answer|choice|both|only) [A-J]\b"
    r"|\b[A-J] ?(?:and|or|&|,) ?[A-J]\b",
)
"""Words of an option that speaks of the other options; its item keeps its order."""


def is_bound_to_its_order(item: Item) -> bool:
    """True when an option speaks of other options, as "All of the above" and "Both A and B" do."""
    return any(REFERS.search(_lowered(option)) for option in item.options)


def reordered(item: Item, seed: int, draw: Draw) -> Item:
    """Give a train item its options in an order that follows from the seed, the item and the draw.

    Args:
        item: The item.
        seed: Seed of the run.
        draw: Which drawing of the item it is.

    Returns:
        The item with `options` and `answer_index` changed together; `answer` stays. The item itself when an option
        speaks of other options.
    """
    if is_bound_to_its_order(item):
        return item
    name = f"{seed}:options:{item.item_id}:{draw.epoch}:{draw.repeat}"
    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big"))
    order = rng.permutation(len(item.options)).tolist()
    return replace(item, options=tuple(item.options[i] for i in order), answer_index=order.index(item.answer_index))


def _lowered(option: str) -> str:
    """Lower-case but for single capitals, which name options."""
    return " ".join(word if re.fullmatch(r"[^\w]*[A-J][^\w]*", word) else word.lower() for word in option.split())
