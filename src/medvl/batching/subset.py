"""Which items of a benchmark a configuration asks, and a smaller set of items that keeps the mix of tasks."""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Sequence

from medvl.benchmark.item import Item
from medvl.benchmark.store import Benchmark
from medvl.config.schema import EntryConfig
from medvl.errors import DataError
from medvl.sources.record import Split


def asked_items(benchmark: Benchmark, split: Split, config: EntryConfig) -> list[Item]:
    """Items that training sees (train), or that are asked (val and test, within `eval.*_items`).

    Args:
        benchmark: All items.
        split: Side of the benchmark. With `debug.overfit_items` every side is the same few train items.
        config: Configuration of the entry file.

    Raises:
        DataError: The split is empty.
    """
    overfit, ask = config.debug.overfit_items, config.eval
    wanted = split if overfit is None else Split.TRAIN
    items = [item for item in benchmark.items if item.split is wanted]
    if not items:
        counts = {name: entry["splits"] for name, entry in benchmark.card["sources"].items() if entry["found"]}
        raise DataError(f"the {wanted} split of benchmark {config.data.name} is empty; items by source: {counts}")
    if split is Split.TRAIN:
        items = of_few_patients(items, config.data.train_share, config.seed)
    limit = overfit or {Split.TRAIN: None, Split.VAL: ask.val_items, Split.TEST: ask.test_items}[split]
    return stratified_subset(items, limit, config.seed)


def of_few_patients(items: Sequence[Item], share: float, seed: int) -> list[Item]:
    """Items of a share of the groups (patients) of each source, at least one of each.

    Args:
        items: Items.
        share: In (0, 1]; the number of groups is rounded up.
        seed: Which groups are chosen does not depend on their order. A smaller share is part of a larger one.

    Returns:
        Items in their original order.
    """
    groups: dict[str, set[str]] = defaultdict(set)
    for item in items:
        groups[item.source].add(item.group)
    kept = set()
    for source, names in groups.items():
        drawn = sorted(names, key=lambda name: hashlib.sha256(f"{seed}:{source}:{name}".encode()).hexdigest())
        kept |= {(source, name) for name in drawn[: math.ceil(share * len(drawn))]}
    return [item for item in items if (item.source, item.group) in kept]


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
