"""A smaller set of items that keeps the mix of tasks."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence

from medvl.benchmark.item import Item


def stratified_subset(items: Sequence[Item], limit: int | None, seed: int) -> list[Item]:
    """At most `limit` items, spread evenly over tasks, chosen by seed; all of them when `limit` is None.

    Args:
        items: Items.
        limit: Most items returned. A task with few items gives its share to the others.
        seed: Which items are chosen does not depend on their order.

    Returns:
        Items in their original order.
    """
    if limit is None or limit >= len(items):
        return list(items)
    by_task: dict[str, list[Item]] = defaultdict(list)
    for item in sorted(items, key=lambda i: hashlib.sha256(f"{seed}:{i.item_id}".encode()).hexdigest()):
        by_task[item.task.value].append(item)
    chosen: set[str] = set()
    depth = 0
    while len(chosen) < limit:
        for task in sorted(by_task):
            if depth < len(by_task[task]) and len(chosen) < limit:
                chosen.add(by_task[task][depth].item_id)
        depth += 1
    return [item for item in items if item.item_id in chosen]
