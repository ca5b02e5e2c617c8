"""Does a model answer by position? Letters, and answers that are always the same.

The right letter is uniform by construction, so a model without a preference has the same recall for every letter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from medvl.benchmark.item import LETTERS
from medvl.evaluation.letter_prior import calibration_priors, held_out_corrected
from medvl.evaluation.metrics import letter_histogram

ONE_ANSWER_FROM = 0.95
"""Share of items from which a model counts as giving one answer whatever it is asked."""


def letter_bias(scored: pl.DataFrame) -> dict[str, Any] | None:
    """Figures on the preference for letters.

    Args:
        scored: Rows of one task. Recalls of tasks are not mixed: they differ in how hard they are.

    Returns:
        None without rows; else `gold` and `predicted` (see `letter_histogram`), `recall` (right letter -> share of its
        items answered right), `recall_std` (see `recall_std`), `prior` (number of options -> probability of each
        letter whatever the question, from these very items without their right answers) and
        `prior_corrected_accuracy` (accuracy after the prior, estimated from all other items, is divided out). The
        last two are None unless every item has option scores.
    """
    if scored.is_empty():
        return None
    recalls = letter_recalls(scored)
    priors = calibration_priors(scored)
    named = None
    if priors is not None:
        named = {str(k): dict(zip(LETTERS[:k], map(float, prior), strict=True)) for k, prior in priors.items()}
    return letter_histogram(scored) | {
        "recall": recalls,
        "recall_std": recall_std(recalls),
        "prior": named,
        "prior_corrected_accuracy": held_out_corrected(scored),
    }


def letter_recalls(scored: pl.DataFrame) -> dict[str, float]:
    """Right letter -> share of its items answered right, letters in order; invalid and uncommitted are wrong."""
    table = scored.group_by("answer_letter").agg(pl.col("is_correct").mean()).sort("answer_letter")
    return {str(letter): float(recall) for letter, recall in table.iter_rows()}


def recall_std(recalls: dict[str, float]) -> float | None:
    """Standard deviation of the recalls of the letters, 0 without a preference.

    It is RStd of Zheng et al. 2024 (arXiv:2309.03882) as a share, not in per cent; the divisor is the number of
    letters. None for fewer than two letters.
    """
    return float(np.std(list(recalls.values()))) if len(recalls) > 1 else None


def top_letter(scored: pl.DataFrame) -> dict[str, Any] | None:
    """The letter given most often, and whether it is all the model says.

    Returns:
        None when nothing was answered; else `letter` (ties: the first), its `share` of all items, invalid ones
        included, and `one_letter`: True from a share of 95 %. It is None where the right answers themselves hardly vary
        (one letter has 95 % of them): a good model gives one answer there too. Uncommitted answers have a letter too.
    """
    return _top(scored, given="predicted_letter", right="answer_letter", key="letter")


def top_answer(scored: pl.DataFrame) -> dict[str, Any] | None:
    """The answer text given most often in one task: `answer`, `share`, `one_answer`, as in `top_letter`."""
    return _top(scored, given="predicted_text", right="answer", key="answer")


def _top(scored: pl.DataFrame, *, given: str, right: str, key: str) -> dict[str, Any] | None:
    counts = scored[given].drop_nulls().value_counts().sort(["count", given], descending=[True, False])
    if counts.is_empty():
        return None
    value, count = counts.row(0)
    share = count / scored.height
    gold_share = int(scored[right].value_counts()["count"].max()) / scored.height  # type: ignore[arg-type]
    flag = None if gold_share >= ONE_ANSWER_FROM else share >= ONE_ANSWER_FROM
    return {key: value, "share": share, f"one_{key}": flag}
