"""The content of `comparison.json`: zero-shot against fine-tuned on the same items.

| key | content |
|---|---|
| `overall` | `zero_shot` and `fine_tuned` (see below), `difference`, `macro_difference`, `n`, `n_groups`, levels |
| `tasks`, `box_tiers`, `box_terciles`, `domains`, `sources`, `devices`, `operators`, `centres` | name -> cell |
| `domain_gap` | phantom minus clinical: `zero_shot`, `fine_tuned` (see `domain_gap`), `change` between them |

A model under `overall` has `accuracy`, `macro_accuracy`, their `ci95` and `macro_ci95`, `invalid_rate`,
`uncommitted_rate`. A cell has `zero_shot` and `fine_tuned` (accuracies) with `ci95_...`, `invalid_rate_...` and
`uncommitted_rate_...` of each, the levels `chance`, `always_a` and `majority` (`overall` has `macro_...` of each too),
`n`, `n_groups` and `difference` (see `difference`). In a cell `p_holm` and `p_clustered_holm` are `p` and `p_clustered`
adjusted by Holm for the cells of the table. `macro_difference` has `p_clustered` only: McNemar's test knows no macro
figure. Devices, operators and centres are those named in the items' `meta`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from medvl.errors import DataError
from medvl.evaluation.box_size import TERCILES, tercile_names
from medvl.evaluation.cells import META_TABLES, known, with_meta
from medvl.evaluation.difference import adjust, paired_figures
from medvl.evaluation.domain_gap import domain_gap, gap_of
from medvl.evaluation.intervals import accuracy_ci
from medvl.evaluation.metrics import (
    accuracy,
    always_a_level,
    chance_level,
    macro_accuracy,
    macro_of,
    majority_level,
)
from medvl.evaluation.paired import paired_macro_difference
from medvl.evaluation.scored import cluster_codes, correct_array
from medvl.evaluation.sign_flip import sign_flip_sampled
from medvl.evaluation.summary import (
    DOMAINS,
    SCHEMA_VERSION,
    TASK_ORDER,
    TIERS,
    check_scored,
    macro_interval,
    task_names,
)

_ARMS = ("zero_shot", "fine_tuned")


def compare(
    zero_shot: pl.DataFrame,
    fine_tuned: pl.DataFrame,
    *,
    split: str,
    scoring: str,
    fingerprints: dict[str, str],
) -> dict[str, Any]:
    """Compare two models, item by item.

    `p` is McNemar's exact test over items; it ignores that items of one patient are alike. `p_clustered` and `ci95`
    beside it flip and resample whole groups (patients, videos, exams) and do not.

    Args:
        zero_shot: Scored table of the base model.
        fine_tuned: Scored table of the adapted model, same items in any order.
        split: Split the items are of.
        scoring: How both models' answers were obtained.
        fingerprints: What the figures were made from, passed through.

    Returns:
        See the module: plain JSON types, rates in [0, 1], differences (fine-tuned minus zero-shot) in [-1, 1]. The
        five tasks of the benchmark, the tiers, the terciles and the two domains are always there, null where they have
        no items.

    Raises:
        DataError: No rows, rows of another split or scoring than stated, or two tables of different items.
    """
    for scored in (zero_shot, fine_tuned):
        check_scored(scored, split=split, scoring=scoring)
    before, after = (with_meta(scored) for scored in aligned(zero_shot, fine_tuned))
    before, after = (scored.with_columns(tercile_names(scored).alias("tercile")) for scored in (before, after))
    tasks = [*TASK_ORDER, *(task for task in task_names(before["task"]) if task not in TASK_ORDER)]
    return {
        "schema_version": SCHEMA_VERSION,
        "split": split,
        "scoring": scoring,
        "overall": _overall(before, after),
        "tasks": _cells(before, after, "task", tasks),
        "box_tiers": _cells(before, after, "tier", TIERS),
        "box_terciles": _cells(before, after, "tercile", TERCILES),
        "domains": _cells(before, after, "domain", DOMAINS),
        "domain_gap": _domain_gap(before, after),
        "sources": _cells(before, after, "source", known(before["source"])),
        **{table: _cells(before, after, field, known(before[field])) for table, field in META_TABLES.items()},
        "fingerprints": dict(fingerprints),
    }


def aligned(
    zero_shot: pl.DataFrame, fine_tuned: pl.DataFrame, names: tuple[str, str] = ("zero-shot", "fine-tuned")
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Bring two models' tables into one order of items.

    Args:
        zero_shot: Scored table of the first model.
        fine_tuned: Scored table of the second model.
        names: What the two are called in the message.

    Returns:
        The tables, sorted by item.

    Raises:
        DataError: They are not of the same items.
    """
    before, after = zero_shot.sort("item_id"), fine_tuned.sort("item_id")
    key = ["item_id", "item_fingerprint"]
    only_before = before.join(after, on=key, how="anti")["item_id"].to_list()
    only_after = after.join(before, on=key, how="anti")["item_id"].to_list()
    if only_before or only_after or before.height != after.height:
        named = ", ".join((only_before + only_after)[:3]) or "an item is listed twice"
        raise DataError(
            f"A comparison needs both models' answers to the same items, but {len(only_before)} of {before.height} "
            f"{names[0]} answers and {len(only_after)} of {after.height} {names[1]} answers have no counterpart "
            f"({named}). Evaluate both models on the same benchmark and split."
        )
    return before, after


def _overall(before: pl.DataFrame, after: pl.DataFrame) -> dict[str, Any]:
    clusters = cluster_codes(before)
    return {
        "zero_shot": _arm(before, clusters),
        "fine_tuned": _arm(after, clusters),
        "difference": paired_figures(correct_array(before), correct_array(after), clusters),
        "macro_difference": _macro_difference(before, after),
        "n": before.height,
        "n_groups": int(clusters.max()) + 1,
        **_levels(before),
        "macro_chance": macro_of(chance_level, before),
        "macro_always_a": macro_of(always_a_level, before),
        "macro_majority": macro_of(majority_level, before),
    }


def _macro_difference(before: pl.DataFrame, after: pl.DataFrame) -> dict[str, Any] | None:
    counts = ~before["constant_answer"].to_numpy()
    if not counts.any():
        return None
    a, b = correct_array(before)[counts], correct_array(after)[counts]
    tasks, clusters = before["task"].to_numpy()[counts], cluster_codes(before)[counts]
    estimate, low, high = paired_macro_difference(a, b, tasks, clusters)
    _, task, sizes = np.unique(tasks, return_inverse=True, return_counts=True)
    p = sign_flip_sampled((b - a) / (sizes[task] * len(sizes)), clusters)
    return {"estimate": estimate, "ci95": [low, high], "p": None, "p_clustered": p}


def _arm(scored: pl.DataFrame, clusters: NDArray[np.int64]) -> dict[str, Any]:
    return {
        "accuracy": accuracy(scored),
        "macro_accuracy": macro_accuracy(scored),
        "ci95": list(accuracy_ci(correct_array(scored), clusters)),
        "macro_ci95": macro_interval(scored),
        # Beside the accuracies because a gain may come from replies that became readable, not from better eyes.
        **_not_answered(scored),
    }


def _not_answered(scored: pl.DataFrame) -> dict[str, float]:
    return {f"{word}_rate": float(scored[f"is_{word}"].sum()) / scored.height for word in ("invalid", "uncommitted")}


def _levels(scored: pl.DataFrame) -> dict[str, float | None]:
    return {"chance": chance_level(scored), "always_a": always_a_level(scored), "majority": majority_level(scored)}


def _domain_gap(before: pl.DataFrame, after: pl.DataFrame) -> dict[str, Any] | None:
    first, second = domain_gap(before), domain_gap(after)
    if first is None or second is None:
        return None
    kept = before["domain"].is_in(DOMAINS)
    change = (correct_array(after) - correct_array(before))[kept.to_numpy()]
    return {"zero_shot": first, "fine_tuned": second} | {
        "change": gap_of(before.filter(kept), change, support=(-1.0, 0.0, 1.0))
    }


def _cells(
    before: pl.DataFrame, after: pl.DataFrame, column: str, names: Iterable[str]
) -> dict[str, dict[str, Any] | None]:
    cells = {name: _cell(before.filter(pl.col(column) == name), after.filter(pl.col(column) == name)) for name in names}
    adjust(cells, "p", "p_clustered")
    return cells


def _cell(before: pl.DataFrame, after: pl.DataFrame) -> dict[str, Any] | None:
    if before.is_empty():
        return None
    clusters = cluster_codes(before)
    right_before, right_after = correct_array(before), correct_array(after)
    figures = {
        "zero_shot": accuracy(before),
        "fine_tuned": accuracy(after),
        **_levels(before),
        "n": before.height,
        "n_groups": int(clusters.max()) + 1,
        "ci95_zero_shot": list(accuracy_ci(right_before, clusters)),
        "ci95_fine_tuned": list(accuracy_ci(right_after, clusters)),
        "difference": paired_figures(right_before, right_after, clusters),
    }
    for arm, scored in zip(_ARMS, (before, after), strict=True):
        figures |= {f"{name}_{arm}": rate for name, rate in _not_answered(scored).items()}
    return figures
