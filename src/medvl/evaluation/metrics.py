"""Single figures over a scored table (see `scored.score_predictions`).

Each function takes the rows it is about and returns None where there are none: an absent figure is never a zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from medvl.benchmark.item import LETTERS
from medvl.evaluation.intervals import accuracy_ci
from medvl.evaluation.scored import cluster_codes, correct_array


def accuracy(scored: pl.DataFrame) -> float | None:
    """Share of right answers, in [0, 1]. Invalid and uncommitted answers are wrong."""
    return _mean(scored["is_correct"])


def macro_rows(scored: pl.DataFrame) -> pl.DataFrame:
    """Rows that macro figures are made of: those of sources with more than one answer for the task."""
    return scored.filter(~pl.col("constant_answer"))


def macro_accuracy(scored: pl.DataFrame) -> float | None:
    """Unweighted mean over the tasks present of their accuracy, in [0, 1], items of constant answer left out."""
    per_task = macro_rows(scored).group_by("task").agg(pl.col("is_correct").mean())
    return _mean(per_task.sort("task")["is_correct"])


def chance_level(scored: pl.DataFrame) -> float | None:
    """Expected accuracy of a uniform guess: mean of 1 / number of options, in (0, 1]."""
    return _mean(scored["chance"])


def always_a_level(scored: pl.DataFrame) -> float | None:
    """Accuracy of a model that always answers A, in [0, 1]."""
    return _mean(scored["answer_index"] == 0)


def majority_level(scored: pl.DataFrame) -> float | None:
    """Accuracy of always giving each task's most frequent right answer, in (0, 1].

    The most frequent answer is taken from these very rows, so it is what a model could reach at best without a look
    at the picture. Several tasks are weighted by their number of items.
    """
    if scored.is_empty():
        return None
    most = scored.group_by("task", "answer").len().group_by("task").agg(pl.col("len").max())
    return float(most["len"].sum()) / scored.height


def per_class_recall(scored: pl.DataFrame) -> dict[str, dict[str, Any]]:
    """Recall of each right answer text.

    Args:
        scored: Rows of one task.

    Returns:
        Answer text, sorted -> `n` (items with that answer), `recall` (share of them answered right, in [0, 1]) and
        `ci95` (low, high).
    """
    table = {}
    for (answer,), rows in sorted(scored.group_by("answer"), key=lambda pair: str(pair[0][0])):
        interval = accuracy_ci(correct_array(rows), cluster_codes(rows))
        table[str(answer)] = {"n": rows.height, "recall": accuracy(rows), "ci95": list(interval)}
    return table


def balanced_accuracy(scored: pl.DataFrame) -> float | None:
    """Unweighted mean over right answer texts of their recall, in [0, 1]; meant for the rows of one task."""
    return _mean(scored.group_by("answer").agg(pl.col("is_correct").mean()).sort("answer")["is_correct"])


def letter_histogram(scored: pl.DataFrame) -> dict[str, dict[str, int]]:
    """Count right and predicted letters, which shows a model that prefers a position.

    Returns:
        `gold` -> letter -> count, and `predicted` -> letter or `invalid` -> count, for all letters that are options
        of some item. Letters of uncommitted answers are counted.
    """
    longest = 0 if scored.is_empty() else int(scored["options"].list.len().max())  # type: ignore[arg-type]
    letters = LETTERS[:longest]
    gold = dict(scored["answer_letter"].value_counts().iter_rows())
    predicted = dict(scored["predicted_letter"].drop_nulls().value_counts().iter_rows())
    return {
        "gold": {letter: gold.get(letter, 0) for letter in letters},
        "predicted": {letter: predicted.get(letter, 0) for letter in letters}
        | {"invalid": int(scored["is_invalid"].sum())},
    }


def negative_log_likelihood(scored: pl.DataFrame) -> float | None:
    """Mean of -log p(right letter) over the whole vocabulary, in nats; None unless every item has option scores."""
    scores = _option_scores(scored)
    if scores is None:
        return None
    return float(-scores[np.arange(len(scores)), scored["answer_index"].to_numpy()].mean())


def calibration(scored: pl.DataFrame, *, bins: int = 10) -> dict[str, Any] | None:
    """How far stated confidence is from accuracy, over probabilities renormalised to the options.

    The answer here is the option with the highest probability, and the mass outside the options is divided out, so an
    uncommitted answer can be right here while it counts as wrong in `accuracy`.

    Args:
        scored: Scored rows.
        bins: Number of confidence bins.

    Returns:
        None unless every item has option scores; else `n`, `mean_confidence`,
        `ece` (expected calibration error with equal-width bins, Guo et al. 2017, arXiv:1706.04599),
        `adaptive_ece` (with bins of equal mass, Nixon et al. 2019, arXiv:1904.01685; items of equal confidence stay
        in one bin), `brier` (mean over items of the summed squared error over options, in [0, 2]), and `bins`: for
        each non-empty equal-width bin `confidence`, `accuracy`, `n`.
    """
    scores = _option_scores(scored)
    if scores is None:
        return None
    probabilities = np.exp(scores - scores.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    gold = scored["answer_index"].to_numpy()
    confidence = probabilities.max(axis=1)
    right = (probabilities.argmax(axis=1) == gold).astype(np.float64)
    target = np.zeros_like(probabilities)
    target[np.arange(len(gold)), gold] = 1.0
    inner = np.linspace(0.0, 1.0, bins + 1)[1:-1]
    width_table = _reliability(confidence, right, inner)
    mass_table = _reliability(confidence, right, np.quantile(confidence, inner))
    return {
        "n": len(gold),
        "mean_confidence": float(confidence.mean()),
        "ece": _expected_error(width_table),
        "adaptive_ece": _expected_error(mass_table),
        "brier": float(((probabilities - target) ** 2).sum(axis=1).mean()),
        "bins": width_table,
    }


def _mean(values: pl.Series) -> float | None:
    return None if values.is_empty() else float(values.cast(pl.Float64).mean())  # type: ignore[arg-type]


def _option_scores(scored: pl.DataFrame) -> NDArray[np.float64] | None:
    """Option log-probabilities, [n, most options] float64, -inf beyond an item's options; None if any item has none."""
    rows = scored["option_logprobs"].to_list()
    if not rows or not all(rows):
        return None
    scores = np.full((len(rows), max(map(len, rows))), -np.inf)
    for i, row in enumerate(rows):
        scores[i, : len(row)] = row
    return scores


def _reliability(
    confidence: NDArray[np.float64], right: NDArray[np.float64], inner_edges: NDArray[np.float64]
) -> list[dict[str, Any]]:
    which = np.searchsorted(inner_edges, confidence, side="left")
    return [
        {"confidence": float(confidence[mine].mean()), "accuracy": float(right[mine].mean()), "n": int(mine.sum())}
        for mine in (which == b for b in np.unique(which))
    ]


def _expected_error(table: list[dict[str, Any]]) -> float:
    total = sum(row["n"] for row in table)
    return float(sum(row["n"] * abs(row["accuracy"] - row["confidence"]) for row in table) / total)
