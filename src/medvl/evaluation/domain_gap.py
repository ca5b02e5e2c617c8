"""Phantom against clinical: does what a model can do carry over?"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from medvl.evaluation.intervals import bootstrap_means, percentile_interval
from medvl.evaluation.metrics import chance_level
from medvl.evaluation.scored import cluster_codes, correct_array

PAIR = ("clinical", "phantom")
"""The gap is the second minus the first."""


def domain_gap(scored: pl.DataFrame) -> dict[str, Any] | None:
    """Accuracy on phantom items minus accuracy on clinical ones.

    The two domains seldom hold the same tasks, and tasks differ in difficulty and in number of options. So the gap over
    all items says little without `chance_difference` beside it, and `same_tasks` is the one to cite where it exists.

    Args:
        scored: Scored rows of any domains.

    Returns:
        None unless there are items of both domains; else `estimate` with `ci95` over all items,
        `chance_difference` (phantom minus clinical), `tasks` (each task with items of both -> `estimate`, `ci95`) and
        `same_tasks` (the unweighted mean over these tasks, None without one). All in [-1, 1].
    """
    rows = scored.filter(pl.col("domain").is_in(PAIR))
    gap = gap_of(rows, correct_array(rows))
    if gap is None:
        return None
    clinical, phantom = (chance_level(rows.filter(pl.col("domain") == domain)) for domain in PAIR)
    assert clinical is not None  # both domains have items
    assert phantom is not None
    return {"estimate": gap["estimate"], "ci95": gap["ci95"], "chance_difference": phantom - clinical} | {
        key: gap[key] for key in ("tasks", "same_tasks")
    }


def gap_of(
    rows: pl.DataFrame, values: NDArray[np.float64], *, support: tuple[float, ...] = (0.0, 1.0)
) -> dict[str, Any] | None:
    """Mean of any value on phantom items minus its mean on clinical ones, with clustered intervals.

    Args:
        rows: Rows of the two domains.
        values: One number a row, [n], each one of `support`: right or wrong, or a paired difference.
        support: Values that can occur.

    Returns:
        None unless there are items of both domains; else `estimate`, `ci95`, `tasks`, `same_tasks`.
    """
    domains, tasks = rows["domain"].to_numpy(), rows["task"].to_numpy()
    clusters = cluster_codes(rows)
    if len(np.unique(domains)) < len(PAIR):
        return None
    shared = sorted(set(tasks[domains == PAIR[0]]) & set(tasks[domains == PAIR[1]]))
    per_task = {}
    for task in shared:
        mine = tasks == task
        per_task[str(task)] = _contrast(values[mine], domains[mine], clusters[mine], support)
    same = None
    if shared:
        mine = np.isin(tasks, shared)
        strata = domains[mine] + "\x1f" + tasks[mine]
        same = _contrast(values[mine], strata, clusters[mine], support)
    return _contrast(values, domains, clusters, support) | {"tasks": per_task, "same_tasks": same}


def _contrast(
    values: NDArray[np.float64], strata: ArrayLike, clusters: NDArray[np.int64], support: tuple[float, ...]
) -> dict[str, Any]:
    """Mean of the second half of the sorted strata minus mean of the first half: phantom comes after clinical."""
    means, draws = bootstrap_means(values, strata, clusters, support=support)
    half = len(means) // 2
    weights = np.repeat([-1.0, 1.0], half) / half
    estimate = float(means @ weights)
    return {"estimate": estimate, "ci95": list(percentile_interval(draws @ weights, estimate))}
