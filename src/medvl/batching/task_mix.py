"""How often each task is seen: weights, temperature and caps, as whole numbers of items an epoch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from medvl.benchmark.item import Item
from medvl.config.schema import TaskMixConfig
from medvl.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Exposure:
    """How often one task will be seen.

    Attributes:
        task: Task.
        items: Items of it in the train split.
        pictures: Distinct pictures of those items.
        drawn: Items drawn in one epoch.
        share: `drawn` over all items drawn, in [0, 1].
        times_per_item: How often an item is seen in one epoch, on average.
    """

    task: str
    items: int
    pictures: int
    drawn: int
    share: float
    times_per_item: float


def plan_epoch(counts: dict[str, int], mix: TaskMixConfig) -> dict[str, int]:
    """Items drawn from each task in one epoch.

    The epoch is as long as the tasks together (each at most its cap, those with weight 0 left out). Shares are
    proportional to weight * items^(1/temperature); a task at its cap gives the rest to the others.

    Args:
        counts: Task -> items in the train split.
        mix: Weights, temperature, caps.

    Returns:
        Task -> items drawn. Tasks with nothing to draw are absent.

    Raises:
        ConfigError: Nothing is left to train on.
    """
    weight = {task: float(mix.weights.get(task, 1.0)) for task, n in counts.items() if n}  # type: ignore[call-overload]
    live = [task for task in counts if weight.get(task, 0.0) > 0]
    if not live:
        held = ", ".join(f"{n} {task}" for task, n in counts.items()) or "no items"
        raise ConfigError(
            [f"task_mix.weights leave nothing to train on: the train split holds {held}, all of weight 0"]
        )
    cap = {task: int(mix.caps.get(task, 10**12)) for task in live}  # type: ignore[call-overload]
    total = sum(min(counts[task], cap[task]) for task in live)
    # Logarithms against the strongest task: small temperatures are large powers. No share falls to exactly 0.
    logs = {task: math.log(weight[task]) + math.log(counts[task]) / mix.temperature for task in live}
    strongest = max(logs.values())
    pull = {task: math.exp(max(logs[task] - strongest, -600.0)) for task in live}
    drawn: dict[str, int] = {}
    open_tasks, left = list(live), total
    while open_tasks:
        mass = sum(pull[task] for task in open_tasks)
        full = [task for task in open_tasks if left * pull[task] / mass >= cap[task]]
        if not full:
            drawn.update(_whole({task: left * pull[task] / mass for task in open_tasks}, left))
            break
        for task in full:
            drawn[task] = cap[task]
            left -= cap[task]
        open_tasks = [task for task in open_tasks if task not in full]
    return {task: drawn[task] for task in live if drawn.get(task)}


def exposures(items: Sequence[Item], mix: TaskMixConfig) -> list[Exposure]:
    """The table of how often each task will be seen."""
    counts = Counter(item.task.value for item in items)
    plan = plan_epoch(dict(sorted(counts.items())), mix)
    total = sum(plan.values())
    return [
        Exposure(
            task,
            counts[task],
            len({(i.source, i.picture, i.frame) for i in items if i.task == task}),
            plan.get(task, 0),
            plan.get(task, 0) / total,
            plan.get(task, 0) / counts[task],
        )
        for task in sorted(counts)
    ]


def _whole(shares: dict[str, float], total: int) -> dict[str, int]:
    """Round to whole numbers that sum to `total`, largest remainders first."""
    whole = {task: int(share) for task, share in shares.items()}
    rest = sorted(shares, key=lambda task: (whole[task] - shares[task], task))
    for task in rest[: total - sum(whole.values())]:
        whole[task] += 1
    return whole
