"""The content of `metrics.json`: everything one model's answers to one split say."""

from __future__ import annotations

from typing import Any

import polars as pl

from medvl.errors import DataError
from medvl.evaluation.intervals import accuracy_ci, macro_bootstrap_ci
from medvl.evaluation.metrics import (
    accuracy,
    always_a_level,
    balanced_accuracy,
    calibration,
    chance_level,
    letter_histogram,
    macro_accuracy,
    macro_rows,
    majority_level,
    negative_log_likelihood,
    per_class_recall,
)
from medvl.evaluation.scored import cluster_codes, correct_array

SCHEMA_VERSION = 1
TASK_ORDER = ("PI", "VC", "FO", "CD", "VG")
"""Order of tasks in files and tables; further tasks follow by name."""
TIERS = ("small", "medium", "large")
DOMAINS = ("clinical", "phantom")


def summarise(scored: pl.DataFrame, *, split: str, scoring: str, fingerprints: dict[str, str]) -> dict[str, Any]:
    """Reduce a scored table to the content of `metrics.json`.

    Args:
        scored: Result of `score_predictions` for one model, at least one row.
        split: Split the items are of.
        scoring: How the answers were obtained.
        fingerprints: What the figures were made from (benchmark, weights, prompt, ...), passed through.

    Returns:
        `schema_version`, `split`, `scoring`, `overall`, `tasks`, `tiers`, `domains`, `sources`, `classes`, `letters`,
        `fingerprints`; plain JSON types, rates in [0, 1], null for what is absent. A cell holds `accuracy`, `ci95`,
        `n`, `n_groups`, `chance`, `always_a`, `majority`, `balanced_accuracy` (null for a cell of several tasks),
        `invalid_rate`, `uncommitted_rate`, `constant_answer_items` (a count). `overall` adds `macro_accuracy`,
        `macro_ci95`, `loss` (nats) and `calibration`.

    Raises:
        DataError: No rows, or rows of another split or scoring than stated.
    """
    check_scored(scored, split=split, scoring=scoring)
    tasks = task_names(scored["task"])
    sources = sorted(scored["source"].unique())
    return {
        "schema_version": SCHEMA_VERSION,
        "split": split,
        "scoring": scoring,
        "overall": _overall(scored),
        "tasks": {task: _cell(scored.filter(pl.col("task") == task)) for task in tasks},
        "tiers": {tier: _cell(scored.filter(pl.col("tier") == tier)) for tier in TIERS},
        "domains": {domain: _cell(scored.filter(pl.col("domain") == domain)) for domain in DOMAINS},
        "sources": {source: _cell(scored.filter(pl.col("source") == source)) for source in sources},
        "classes": {task: per_class_recall(scored.filter(pl.col("task") == task)) for task in tasks},
        "letters": letter_histogram(scored),
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
    cell = _cell(scored)
    assert cell is not None  # check_scored has refused an empty table
    return cell | {
        "macro_accuracy": macro_accuracy(scored),
        "macro_ci95": macro_interval(scored),
        "loss": negative_log_likelihood(scored),
        "calibration": calibration(scored),
    }


def _cell(rows: pl.DataFrame) -> dict[str, Any] | None:
    if rows.is_empty():
        return None
    clusters = cluster_codes(rows)
    return {
        "accuracy": accuracy(rows),
        "ci95": list(accuracy_ci(correct_array(rows), clusters)),
        "n": rows.height,
        "n_groups": int(clusters.max()) + 1,
        "chance": chance_level(rows),
        "always_a": always_a_level(rows),
        "majority": majority_level(rows),
        "balanced_accuracy": balanced_accuracy(rows) if rows["task"].n_unique() == 1 else None,
        "invalid_rate": float(rows["is_invalid"].sum()) / rows.height,
        "uncommitted_rate": float(rows["is_uncommitted"].sum()) / rows.height,
        "constant_answer_items": int(rows["constant_answer"].sum()),
    }
