"""Several runs of one recipe that differ in their seed, as one result.

One fine-tuning run is one draw: another seed gives another accuracy. Two kinds of chance are kept apart here: `sd` is
the spread between seeds on the same items; `ci95` of a difference resamples seeds and groups alike (pigeonhole
bootstrap; Owen 2007, doi:10.1214/07-AOAS122), so that it speaks of a new seed on new patients. With two or three seeds
it is somewhat too narrow; with one on each side it can speak of new patients only. `p_clustered` flips the sign of the
difference of the means over seeds by whole groups: it asks about these very seeds, and is exact where both sides have
as many of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from medvl.errors import DataError
from medvl.evaluation.box_size import TERCILES, tercile_names
from medvl.evaluation.comparison import aligned
from medvl.evaluation.difference import adjust
from medvl.evaluation.intervals import (
    Interval,
    bootstrap_means,
    groups_agree,
    macro_bootstrap_ci,
    percentile_interval,
)
from medvl.evaluation.metrics import accuracy, chance_level, macro_accuracy, macro_rows
from medvl.evaluation.scored import cluster_codes, correct_array
from medvl.evaluation.sign_flip import sign_flip_exact, sign_flip_sampled
from medvl.evaluation.summary import DOMAINS, SCHEMA_VERSION, TASK_ORDER, TIERS, check_scored, task_names

Tables = Sequence[pl.DataFrame]
Seeds = NDArray[np.float64]
"""Right (1) or wrong (0), [seeds, items]."""
Codes = NDArray[np.int64]

_RESAMPLES = 2000
_SUPPORT = (-1.0, 0.0, 1.0)


def spread(values: Sequence[float | None]) -> dict[str, Any] | None:
    """Mean and spread of one figure over seeds.

    Args:
        values: The figure of each seed.

    Returns:
        None without values or with an absent one; else `mean`, `sd` (divisor n - 1; None for one seed), `least`, `most`
        and `values` in the order given.
    """
    present = [value for value in values if value is not None]
    if not present or len(present) < len(values):
        return None
    sd = float(np.std(present, ddof=1)) if len(present) > 1 else None
    return {"mean": float(np.mean(present)), "sd": sd, "least": min(present), "most": max(present), "values": present}


def compare_seeds(
    zero_shot: Tables, fine_tuned: Tables, *, split: str, scoring: str, fingerprints: dict[str, str]
) -> dict[str, Any]:
    """Compare two recipes, each run with one or several seeds, on the same items.

    Args:
        zero_shot: Scored tables of the first recipe, one a seed; a single one for a base model.
        fine_tuned: Scored tables of the second recipe, one a seed.
        split: Split the items are of.
        scoring: How all answers were obtained.
        fingerprints: What the figures were made from, passed through.

    Returns:
        `schema_version`, `split`, `scoring`, `n_seeds` (of each), `overall`, `tasks`, `box_tiers`, `box_terciles`,
        `domains`, `fingerprints`. A cell has `zero_shot` and `fine_tuned` (see `spread`), `invalid_rate_...` and
        `uncommitted_rate_...` of each (means over seeds), `chance`, `n`, `n_groups` and `difference` (`estimate` of the
        means, `ci95`, `p_clustered`, in tables `p_clustered_holm`); null without items. `overall` adds
        `macro_zero_shot`, `macro_fine_tuned` and `macro_difference`.

    Raises:
        DataError: No table on one side, rows of another split or scoring, or tables of different items.
    """
    if not zero_shot or not fine_tuned:
        raise DataError(
            f"A comparison over seeds needs at least one table of answers on each side, got {len(zero_shot)} and "
            f"{len(fine_tuned)}."
        )
    tables = [*zero_shot, *fine_tuned]
    for scored in tables:
        check_scored(scored, split=split, scoring=scoring)
    first = tables[0].sort("item_id")
    first = first.with_columns(tercile_names(first).alias("tercile"))
    others = [aligned(first, table, ("run 1", f"run {i}"))[1] for i, table in enumerate(tables[1:], 2)]
    ordered = [first, *(table.with_columns(first["tercile"]) for table in others)]
    before, after = ordered[: len(zero_shot)], ordered[len(zero_shot) :]
    tasks = [*TASK_ORDER, *(task for task in task_names(first["task"]) if task not in TASK_ORDER)]
    return {
        "schema_version": SCHEMA_VERSION,
        "split": split,
        "scoring": scoring,
        "n_seeds": {"zero_shot": len(before), "fine_tuned": len(after)},
        "overall": _overall(before, after),
        "tasks": _cells(before, after, "task", tasks),
        "box_tiers": _cells(before, after, "tier", TIERS),
        "box_terciles": _cells(before, after, "tercile", TERCILES),
        "domains": _cells(before, after, "domain", DOMAINS),
        "fingerprints": dict(fingerprints),
    }


def _overall(before: Tables, after: Tables) -> dict[str, Any]:
    cell = _cell(before, after)
    assert cell is not None  # check_scored has refused empty tables
    kept = [[macro_rows(table) for table in side] for side in (before, after)]
    return cell | {
        "macro_zero_shot": spread([macro_accuracy(table) for table in before]),
        "macro_fine_tuned": spread([macro_accuracy(table) for table in after]),
        "macro_difference": None if kept[0][0].is_empty() else _difference(*kept, by_task=True),
    }


def _cells(before: Tables, after: Tables, column: str, names: Sequence[str]) -> dict[str, dict[str, Any] | None]:
    def part(tables: Tables, name: str) -> Tables:
        return [table.filter(pl.col(column) == name) for table in tables]

    cells = {name: _cell(part(before, name), part(after, name)) for name in names}
    adjust(cells, "p_clustered")
    return cells


def _cell(before: Tables, after: Tables) -> dict[str, Any] | None:
    rows = before[0]
    if rows.is_empty():
        return None
    figures: dict[str, Any] = {"chance": chance_level(rows), "n": rows.height}
    figures["n_groups"] = int(cluster_codes(rows).max()) + 1
    for arm, tables in (("zero_shot", before), ("fine_tuned", after)):
        figures[arm] = spread([accuracy(table) for table in tables])
        for word in ("invalid", "uncommitted"):
            figures[f"{word}_rate_{arm}"] = float(np.mean([_rate(table, f"is_{word}") for table in tables]))
    return figures | {"difference": _difference(before, after, by_task=False)}


def _rate(table: pl.DataFrame, column: str) -> float:
    return float(table[column].sum()) / table.height


def _difference(before: Tables, after: Tables, *, by_task: bool) -> dict[str, Any]:
    """Mean over the seeds of `after` minus mean over those of `before`: over items, or unweighted over tasks."""
    rows, clusters = before[0], cluster_codes(before[0])
    task = rows["task"].rank("dense").to_numpy().astype(np.int64) - 1 if by_task else np.zeros(rows.height, np.int64)
    first, second = (np.stack([correct_array(table) for table in side]) for side in (before, after))  # [seeds, items]
    estimate_by_task = np.bincount(task, weights=second.mean(axis=0) - first.mean(axis=0)) / np.bincount(task)
    estimate = float(estimate_by_task.mean())
    # A whole number an item, so that all sign patterns can be counted.
    whole = len(first) * second.sum(axis=0) - len(second) * first.sum(axis=0)
    contributions = whole / (np.bincount(task)[task] * len(estimate_by_task) * len(first) * len(second))
    return {
        "estimate": estimate,
        "ci95": list(_interval(first, second, task, clusters, estimate)),
        "p_clustered": sign_flip_sampled(contributions, clusters) if by_task else sign_flip_exact(whole, clusters),
    }


def _interval(first: Seeds, second: Seeds, task: Codes, clusters: Codes, estimate: float) -> Interval:
    """Interval of the difference over new seeds and new groups.

    Where the groups do not differ in some task, resampling them shows no spread, and the runs share what is not known
    about that task. There the hull of the intervals of all pairs of runs is taken.
    """
    pairs = (second[:, None] - first).reshape(-1, len(task))  # [pairs of runs, items]
    n_tasks = int(task.max()) + 1
    pooled = pairs.mean(axis=0)
    if any(groups_agree(pooled[task == t], clusters[task == t]) for t in range(n_tasks)):
        each = [macro_bootstrap_ci(pair, task, clusters, support=_SUPPORT, resamples=_RESAMPLES) for pair in pairs]
        return min(low for low, _ in each), max(high for _, high in each)
    strata = (np.arange(len(pairs))[:, None] * n_tasks + task).ravel()
    _, draws = bootstrap_means(
        pairs.ravel(), strata, np.tile(clusters, len(pairs)), support=_SUPPORT, resamples=_RESAMPLES
    )
    by_pair = draws.reshape(_RESAMPLES, len(second), len(first), n_tasks).mean(axis=3)
    rng = np.random.default_rng(1)
    new_second, new_first = (
        rng.multinomial(n, np.full(n, 1 / n), size=_RESAMPLES) / n for n in (len(second), len(first))
    )
    return percentile_interval(np.einsum("rba,rb,ra->r", by_pair, new_second, new_first), estimate)
