"""The content of `metrics.json`: everything one model's answers to one split say.

| key | content |
|---|---|
| `overall` | a cell, the macro figures, `loss` (nats), `near_ties`, `calibration`, `selective_risk` of all items |
| `tasks`, `tiers`, `terciles`, `domains`, `sources`, `devices`, `operators`, `centres` | name -> cell (see `cells`) |
| `area_curve` | accuracy against the size of the red box: cells in bins (see `box_size`) |
| `domain_gap` | phantom minus clinical (see `domain_gap`) |
| `classes`, `confusion` | task -> recall of each right answer; which answer was taken for which (see `confusion`) |
| `letters`, `letter_bias` | letters of all items; task -> recall by letter and its spread (see `letter_bias`) |
| `calibration`, `selective_risk` | task -> see `calibration` |

`macro_accuracy` with `macro_ci95` is the unweighted mean over tasks; `macro_chance`, `macro_always_a` and
`macro_majority` are the same mean of the levels. A task's cell adds `balanced_ci95`. Terciles and the bins of the
curve add `area_share` and `median_area_share`. Devices, operators and centres are those named in the items' `meta`.
`near_ties` counts answers that rounding could turn (see `near_ties`).
Invalid and uncommitted answers are wrong in every accuracy and recall, and have their own rate in every cell. How each
task falls into domains, sources, devices, operators and centres stands in `details.json` (see `details`).
"""

from __future__ import annotations

from typing import Any

import polars as pl

from medvl.errors import DataError
from medvl.evaluation.box_size import area_curve, terciles
from medvl.evaluation.calibration import calibration, selective_risk
from medvl.evaluation.cells import META_TABLES, cell, cells_by, known, with_meta
from medvl.evaluation.confusion import confusion_matrix
from medvl.evaluation.domain_gap import domain_gap
from medvl.evaluation.intervals import macro_bootstrap_ci
from medvl.evaluation.letter_bias import letter_bias
from medvl.evaluation.metrics import (
    always_a_level,
    chance_level,
    letter_histogram,
    macro_accuracy,
    macro_of,
    macro_rows,
    majority_level,
    negative_log_likelihood,
    per_class_recall,
)
from medvl.evaluation.near_ties import near_ties
from medvl.evaluation.scored import cluster_codes, correct_array

SCHEMA_VERSION = 1
TASK_ORDER = ("PI", "VC", "FO", "CD", "VG")
"""Order of tasks in files and tables; further tasks follow by name."""
TIERS = ("small", "medium", "large")
DOMAINS = ("clinical", "phantom")


def summarise(
    scored: pl.DataFrame,
    *,
    split: str,
    scoring: str,
    fingerprints: dict[str, str],
) -> dict[str, Any]:
    """Reduce a scored table to the content of `metrics.json`.

    Args:
        scored: Result of `score_predictions` for one model, at least one row.
        split: Split the items are of.
        scoring: How the answers were obtained.
        fingerprints: What the figures were made from (benchmark, weights, prompt, ...), passed through.

    Returns:
        See the module: plain JSON types, rates in [0, 1], null for what is absent. The tiers, the terciles and the two
        domains are always there; a table of names (tasks, sources, devices, ...) has those that occur.

    Raises:
        DataError: No rows, or rows of another split or scoring than stated.
    """
    check_scored(scored, split=split, scoring=scoring)
    scored = with_meta(scored)
    tasks = task_names(scored["task"])
    by_task = {task: scored.filter(pl.col("task") == task) for task in tasks}
    return {
        "schema_version": SCHEMA_VERSION,
        "split": split,
        "scoring": scoring,
        "overall": _overall(scored),
        "tasks": {task: _task_cell(rows) for task, rows in by_task.items()},
        "tiers": cells_by(scored, "tier", TIERS),
        "terciles": terciles(scored),
        "area_curve": area_curve(scored),
        "domains": cells_by(scored, "domain", DOMAINS),
        "domain_gap": domain_gap(scored),
        "sources": cells_by(scored, "source", known(scored["source"])),
        **{table: cells_by(scored, field, known(scored[field])) for table, field in META_TABLES.items()},
        "classes": {task: per_class_recall(rows) for task, rows in by_task.items()},
        "confusion": {task: confusion_matrix(rows) for task, rows in by_task.items()},
        "letters": letter_histogram(scored),
        "letter_bias": {task: letter_bias(rows) for task, rows in by_task.items()},
        "calibration": {task: calibration(rows) for task, rows in by_task.items()},
        "selective_risk": {task: selective_risk(rows) for task, rows in by_task.items()},
        "fingerprints": dict(fingerprints),
    }


def check_scored(scored: pl.DataFrame, *, split: str, scoring: str) -> None:
    """Refuse a scored table that is empty or not of the stated split and scoring.

    Raises:
        DataError: See above.
    """
    if scored.is_empty():
        raise DataError(f"There are no answered items of the split '{split}' to score. Check the benchmark's card.")
    for column, stated in (("split", split), ("scoring", scoring)):
        others = sorted(set(scored[column].unique()) - {stated})
        if others:
            count = scored.filter(pl.col(column) != stated).height
            raise DataError(
                f"The figures are to be of {column} '{stated}', but {count} of {scored.height} rows are of "
                f"{', '.join(map(repr, others))}. Score each {column} on its own."
            )


def task_names(tasks: pl.Series) -> list[str]:
    """Distinct tasks in the order of files and tables."""
    present = set(tasks.unique())
    return [task for task in TASK_ORDER if task in present] + sorted(present - set(TASK_ORDER))


def macro_interval(scored: pl.DataFrame) -> list[float] | None:
    """Clustered interval of macro accuracy, or None where no task counts for it."""
    rows = macro_rows(scored)
    if rows.is_empty():
        return None
    return list(macro_bootstrap_ci(correct_array(rows), rows["task"].to_numpy(), cluster_codes(rows)))


def _overall(scored: pl.DataFrame) -> dict[str, Any]:
    figures = cell(scored)
    assert figures is not None  # check_scored has refused an empty table
    return figures | {
        "macro_accuracy": macro_accuracy(scored),
        "macro_ci95": macro_interval(scored),
        "macro_chance": macro_of(chance_level, scored),
        "macro_always_a": macro_of(always_a_level, scored),
        "macro_majority": macro_of(majority_level, scored),
        "loss": negative_log_likelihood(scored),
        "near_ties": near_ties(scored),
        "calibration": calibration(scored),
        "selective_risk": selective_risk(scored),
    }


def _task_cell(rows: pl.DataFrame) -> dict[str, Any]:
    figures = cell(rows)
    assert figures is not None  # a task is named because it has rows
    balanced = macro_bootstrap_ci(correct_array(rows), rows["answer"].to_numpy(), cluster_codes(rows))
    return figures | {"balanced_ci95": list(balanced)}
