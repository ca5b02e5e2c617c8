"""Single figures over a scored table (see `scored.score_predictions`).

Each function takes the rows it is about and returns None where there are none: an absent figure is never a zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from medvl.benchmark.item import LETTERS
from medvl.evaluation.intervals import accuracy_ci
from medvl.evaluation.option_scores import option_scores
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


def macro_of(level: Callable[[pl.DataFrame], float | None], scored: pl.DataFrame) -> float | None:
    """Unweighted mean over the tasks present of any figure, for instance `chance_level`: what stands beside a macro.

    Items of constant answer are left out, as in `macro_accuracy`.
    """
    figures = [level(rows) for _, rows in sorted(macro_rows(scored).group_by("task"), key=lambda pair: str(pair[0]))]
    present = [figure for figure in figures if figure is not None]
    return float(np.mean(present)) if present else None


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
    scores = option_scores(scored)
    if scores is None:
        return None
    return float(-scores[np.arange(len(scores)), scored["answer_index"].to_numpy()].mean())


def _mean(values: pl.Series) -> float | None:
    return None if values.is_empty() else float(values.cast(pl.Float64).mean())  # type: ignore[arg-type]
