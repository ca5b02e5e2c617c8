"""The content of `comparison.json`: zero-shot against fine-tuned on the same items."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from medvl.errors import DataError
from medvl.evaluation.intervals import accuracy_ci
from medvl.evaluation.metrics import accuracy, chance_level, macro_accuracy
from medvl.evaluation.paired import holm, mcnemar_exact, paired_bootstrap_difference, paired_macro_difference
from medvl.evaluation.scored import cluster_codes, correct_array
from medvl.evaluation.summary import (
    DOMAINS,
    SCHEMA_VERSION,
    TASK_ORDER,
    TIERS,
    check_scored,
    macro_interval,
    task_names,
)


def compare(
    zero_shot: pl.DataFrame,
    fine_tuned: pl.DataFrame,
    *,
    split: str,
    scoring: str,
    fingerprints: dict[str, str],
) -> dict[str, Any]:
    """Compare two models, item by item.

    `p` is McNemar's exact test over items; it ignores that items of one patient are alike. The `ci95` beside it is a
    bootstrap over groups (patients, videos, exams) and does not. `p_holm` is `p` adjusted by Holm for the cells of
    its own table (tasks, box tiers, domains).

    Args:
        zero_shot: Scored table of the base model.
        fine_tuned: Scored table of the adapted model, same items in any order.
        split: Split the items are of.
        scoring: How both models' answers were obtained.
        fingerprints: What the figures were made from, passed through.

    Returns:
        `schema_version`, `split`, `scoring`, `overall`, `tasks`, `box_tiers`, `domains`, `fingerprints`; plain JSON
        types, rates in [0, 1], differences (fine-tuned minus zero-shot) in [-1, 1]. The five tasks of the benchmark,
        the three tiers and the two domains are always there, null where they have no items.

    Raises:
        DataError: No rows, rows of another split or scoring than stated, or two tables of different items.
    """
    for scored in (zero_shot, fine_tuned):
        check_scored(scored, split=split, scoring=scoring)
    before, after = _aligned(zero_shot, fine_tuned)
    tasks = [*TASK_ORDER, *(task for task in task_names(before["task"]) if task not in TASK_ORDER)]
    return {
        "schema_version": SCHEMA_VERSION,
        "split": split,
        "scoring": scoring,
        "overall": _overall(before, after),
        "tasks": _cells(before, after, "task", tasks),
        "box_tiers": _cells(before, after, "tier", TIERS),
        "domains": _cells(before, after, "domain", DOMAINS),
        "fingerprints": dict(fingerprints),
    }


def _aligned(zero_shot: pl.DataFrame, fine_tuned: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    before, after = zero_shot.sort("item_id"), fine_tuned.sort("item_id")
    key = ["item_id", "item_fingerprint"]
    only_before = before.join(after, on=key, how="anti")["item_id"].to_list()
    only_after = after.join(before, on=key, how="anti")["item_id"].to_list()
    if only_before or only_after or before.height != after.height:
        named = ", ".join((only_before + only_after)[:3]) or "an item is listed twice"
        raise DataError(
            f"A comparison needs both models' answers to the same items, but {len(only_before)} of {before.height} "
            f"zero-shot answers and {len(only_after)} of {after.height} fine-tuned answers have no counterpart "
            f"({named}). Evaluate both models on the same benchmark and split."
        )
    return before, after


def _overall(before: pl.DataFrame, after: pl.DataFrame) -> dict[str, Any]:
    clusters = cluster_codes(before)
    right_before, right_after = correct_array(before), correct_array(after)
    counts = ~before["constant_answer"].to_numpy()
    macro = None
    if counts.any():
        estimate, low, high = paired_macro_difference(
            right_before[counts], right_after[counts], before["task"].to_numpy()[counts], clusters[counts]
        )
        macro = {"estimate": estimate, "ci95": [low, high], "p": None}
    return {
        "zero_shot": _arm(before, clusters),
        "fine_tuned": _arm(after, clusters),
        "difference": _difference(right_before, right_after, clusters),
        "macro_difference": macro,
        "n": before.height,
        "n_groups": int(clusters.max()) + 1,
    }


def _arm(scored: pl.DataFrame, clusters: NDArray[np.int64]) -> dict[str, Any]:
    return {
        "accuracy": accuracy(scored),
        "macro_accuracy": macro_accuracy(scored),
        "ci95": list(accuracy_ci(correct_array(scored), clusters)),
        "macro_ci95": macro_interval(scored),
        # Beside the accuracies because a gain may come from replies that became readable, not from better eyes.
        "invalid_rate": float(scored["is_invalid"].sum()) / scored.height,
        "uncommitted_rate": float(scored["is_uncommitted"].sum()) / scored.height,
    }


def _cells(
    before: pl.DataFrame, after: pl.DataFrame, column: str, names: Iterable[str]
) -> dict[str, dict[str, Any] | None]:
    cells = {name: _cell(before.filter(pl.col(column) == name), after.filter(pl.col(column) == name)) for name in names}
    adjusted = holm([None if cell is None else cell["difference"]["p"] for cell in cells.values()])
    for cell, p_holm in zip(cells.values(), adjusted, strict=True):
        if cell is not None:
            cell["difference"]["p_holm"] = p_holm
    return cells


def _cell(before: pl.DataFrame, after: pl.DataFrame) -> dict[str, Any] | None:
    if before.is_empty():
        return None
    clusters = cluster_codes(before)
    right_before, right_after = correct_array(before), correct_array(after)
    return {
        "zero_shot": accuracy(before),
        "fine_tuned": accuracy(after),
        "chance": chance_level(before),
        "n": before.height,
        "n_groups": int(clusters.max()) + 1,
        "ci95_zero_shot": list(accuracy_ci(right_before, clusters)),
        "ci95_fine_tuned": list(accuracy_ci(right_after, clusters)),
        "difference": _difference(right_before, right_after, clusters),
    }


def _difference(before: NDArray[np.float64], after: NDArray[np.float64], clusters: NDArray[np.int64]) -> dict[str, Any]:
    estimate, low, high = paired_bootstrap_difference(before, after, clusters)
    return {"estimate": estimate, "ci95": [low, high], "p": mcnemar_exact(before, after)}
