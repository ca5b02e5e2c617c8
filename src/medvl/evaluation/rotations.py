"""The same items asked in every rotation of their options: is the answer about the picture or about the letter?

Rotation r of k options shows option (p + r) mod k at position p, so that over the k rotations every option stands once
at every letter. Rotation 0 is the order of the benchmark.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from scipy.special import logsumexp

from medvl.benchmark.item import LETTERS
from medvl.errors import DataError
from medvl.evaluation.letter_bias import letter_recalls, recall_std
from medvl.evaluation.letter_prior import hits, prior_from_rotations
from medvl.evaluation.option_scores import Scores, normalised, option_scores
from medvl.evaluation.variants import agreement

_LEAST = 1e-12  # a prior of rounding error only may come out as 0 or below


def rotation_figures(rows: pl.DataFrame) -> dict[str, Any] | None:
    """Reduce answers to all rotations of some items.

    Args:
        rows: Rows of a table of `variants.score_variants`, of one wording, in any order; every rotation of each item,
            but for items whose options keep their order: those are left aside.

    Returns:
        None where no item was rotated. Else the figures of `variants.agreement`, `all_right` being called
        `circular_accuracy` (CircularEval of MMBench, Liu et al. 2024, arXiv:2307.06281), and

        - `recall`: number of options -> right letter -> share answered right. Every item stands once at each letter,
          so the recalls differ by the model's preference only;
        - `recall_std`: their spread (see `letter_bias.recall_std`), of several numbers of options the mean over items;
        - `prior`: number of options -> letter -> probability;
        - `averaged_accuracy`: of the option with the highest mean probability over rotations;
        - `prior_corrected_accuracy`: of rotation 0 after the prior of the other items is divided out; None where an
          item has no fellow with as many options.

        The last three are made from scores: they are None unless every answer has them, and it is rotation 0 that says
        whether an item counts as uncommitted.

    Raises:
        DataError: An item lacks a rotation or has one twice.
    """
    turned = rows.filter(pl.len().over("item_id") > 1).sort("item_id", "rotation")
    figures = agreement(turned)
    if figures is None:
        return None
    _check_complete(turned)
    figures["circular_accuracy"] = figures.pop("all_right")
    figures["circular_ci95"] = figures.pop("all_right_ci95")
    by_count = {k: turned.filter(pl.col("options").list.len() == k) for k in _option_counts(turned)}
    recalls = {k: letter_recalls(part) for k, part in by_count.items()}
    spreads = [recall_std(recalls[k]) or 0.0 for k in by_count]
    n_items = [part.height / k for k, part in by_count.items()]
    return figures | {
        "recall": {str(k): recall for k, recall in recalls.items()},
        "recall_std": float(np.average(spreads, weights=n_items)),
        **_from_scores(by_count),
    }


def _from_scores(by_count: dict[int, pl.DataFrame]) -> dict[str, Any]:
    absent = {"prior": None, "averaged_accuracy": None, "prior_corrected_accuracy": None}
    parts = [_Scored(k, rows, scores) for k, rows in by_count.items() if (scores := option_scores(rows)) is not None]
    if len(parts) < len(by_count):
        return absent
    corrected = [part.corrected for part in parts]
    return {
        "prior": {str(part.k): dict(zip(LETTERS, part.prior.tolist(), strict=False)) for part in parts},
        "averaged_accuracy": float(np.concatenate([part.averaged for part in parts]).mean()),
        "prior_corrected_accuracy": (
            None
            if any(values is None for values in corrected)
            else float(np.concatenate([values for values in corrected if values is not None]).mean())
        ),
    }


class _Scored:
    """What option scores say of items with the same number of options k; arrays are [items] unless said otherwise."""

    def __init__(self, k: int, rows: pl.DataFrame, scores: Scores) -> None:
        self.k = k
        n = rows.height // k
        logs = normalised(scores.reshape(n, k, k))  # [items, rotations, positions]
        first = rows.filter(pl.col("rotation") == 0)
        gold, firm = first["answer_index"].to_numpy(), ~first["is_uncommitted"].to_numpy()
        by_option = np.empty_like(logs)  # [items, rotations, options]
        for rotation in range(k):
            by_option[:, rotation, (np.arange(k) + rotation) % k] = logs[:, rotation]
        self.averaged: Scores = hits(logsumexp(by_option, axis=1), gold) * firm
        prior = prior_from_rotations(logs)
        assert prior is not None  # option_scores has refused scores that are no numbers
        self.prior = prior  # [options]
        self.corrected: Scores | None = None
        if n > 1:
            own = np.exp(normalised(logs.mean(axis=1)))
            others = np.maximum((n * prior - own) / (n - 1), _LEAST)
            self.corrected = hits(logs[:, 0] - np.log(others), gold) * firm


def _option_counts(rows: pl.DataFrame) -> list[int]:
    return [int(k) for k in rows["options"].list.len().unique().sort()]


def _check_complete(rows: pl.DataFrame) -> None:
    n_options = pl.col("options").list.len().first().cast(pl.Int64)
    per_item = rows.group_by("item_id", maintain_order=True).agg("rotation", n_options)
    for item_id, found, count in per_item.iter_rows():
        if found != list(range(count)):
            raise DataError(
                f"Item {item_id} needs each of the rotations 0 to {count - 1} once, got "
                f"{', '.join(map(str, found))}. Answer its rotations again."
            )
