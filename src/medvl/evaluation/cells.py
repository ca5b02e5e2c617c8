"""The cell: figures of one set of items, the same whether the set is a task, a box tier, a source or a device."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from medvl.evaluation.intervals import accuracy_ci, groups_agree
from medvl.evaluation.letter_bias import top_answer, top_letter
from medvl.evaluation.metrics import accuracy, always_a_level, balanced_accuracy, chance_level, majority_level
from medvl.evaluation.scored import cluster_codes, correct_array

META_TABLES = {"devices": "device", "operators": "operator", "centres": "centre"}
"""Table of a file -> fact of an item's `meta` that it is made by."""

FEW_ITEMS = 30
"""Below this many items an interval says little."""
FEW_GROUPS = 10
"""Below this many groups a percentile bootstrap over groups is known to be too narrow."""


def cell(rows: pl.DataFrame) -> dict[str, Any] | None:
    """Figures of some scored rows.

    Args:
        rows: Rows of a scored table.

    Returns:
        None without rows; else `accuracy`, `ci95`, `ci_method` (`clustered_bootstrap`, or `exact` where the groups do
        not differ, see `intervals`), `n`, `n_groups`, `is_small` (so few items or groups that the cell is to be read
        with care); the levels `chance`, `always_a`, `majority`;
        `balanced_accuracy` (None for rows of several tasks); `invalid_rate`, `uncommitted_rate`,
        `constant_answer_items` (a count); `top_letter` and, for rows of one task, `top_answer`: what the model says
        most often, with a flag when it says nothing else.
    """
    if rows.is_empty():
        return None
    clusters, right = cluster_codes(rows), correct_array(rows)
    n_groups = int(clusters.max()) + 1
    one_task = rows["task"].n_unique() == 1
    return {
        "accuracy": accuracy(rows),
        "ci95": list(accuracy_ci(right, clusters)),
        "ci_method": "exact" if groups_agree(right, clusters) else "clustered_bootstrap",
        "n": rows.height,
        "n_groups": n_groups,
        "is_small": rows.height < FEW_ITEMS or n_groups < FEW_GROUPS,
        "chance": chance_level(rows),
        "always_a": always_a_level(rows),
        "majority": majority_level(rows),
        "balanced_accuracy": balanced_accuracy(rows) if one_task else None,
        "invalid_rate": float(rows["is_invalid"].sum()) / rows.height,
        "uncommitted_rate": float(rows["is_uncommitted"].sum()) / rows.height,
        "constant_answer_items": int(rows["constant_answer"].sum()),
        "top_letter": top_letter(rows),
        "top_answer": top_answer(rows) if one_task else None,
    }


def cells_by(scored: pl.DataFrame, column: str, names: Iterable[str]) -> dict[str, dict[str, Any] | None]:
    """Name -> cell of the rows with that name in a column; None for a name without rows."""
    return {name: cell(scored.filter(pl.col(column) == name)) for name in names}


def with_meta(scored: pl.DataFrame) -> pl.DataFrame:
    """Put the facts of `META_TABLES` into columns of their own; null where a fact is unknown."""
    facts = [pl.col("meta").struct.field(field).replace("", None).alias(field) for field in META_TABLES.values()]
    return scored.with_columns(facts)


def known(values: pl.Series) -> list[str]:
    """Distinct values of a column, sorted, without null."""
    return sorted(values.drop_nulls().unique())
