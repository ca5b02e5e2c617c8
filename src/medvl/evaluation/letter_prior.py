"""Preference for option letters, estimated and divided out (PriDe; Zheng et al. 2024, arXiv:2309.03882).

A model's probability of a letter is taken as its belief in the option times a prior of the letter. Averaged over
orders of the options the belief is the same for every letter, so that what is left is the prior. No right answer is
used. Two sources of orders: all rotations of one item, or a calibration set whose options were shuffled item by item
(as medvl's are), where the average over items does what rotation does within one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from medvl.errors import DataError
from medvl.evaluation.option_scores import Scores, normalised, option_scores

_EQUAL = 1e-9  # nats


def prior_from_rotations(logprobs: ArrayLike) -> Scores | None:
    """Prior of the letters from items asked in every rotation of their options.

    Args:
        logprobs: [items, rotations, options] natural logs in the order of the letters; they need not be normalised.

    Returns:
        [options] probabilities: mean over items of the softmax of the mean log-probability over rotations. None
        without items or with a score that is no finite number.
    """
    scores = np.asarray(logprobs, dtype=np.float64)
    if not scores.size or not np.isfinite(scores).all():
        return None
    prior: Scores = np.exp(normalised(normalised(scores).mean(axis=1))).mean(axis=0)
    return prior


def prior_from_calibration_set(logprobs: ArrayLike) -> Scores | None:
    """Prior of the letters from items whose options were shuffled, asked once each.

    Args:
        logprobs: [items, options] natural logs in the order of the letters; they need not be normalised.

    Returns:
        [options] probabilities: softmax of the mean log-probability over items. None as in `prior_from_rotations`.
    """
    scores = np.asarray(logprobs, dtype=np.float64)
    return prior_from_rotations(scores[None]) if scores.size else None


def divide_out(logprobs: ArrayLike, prior: ArrayLike) -> Scores:
    """Divide the prior of the letters out of option scores.

    Args:
        logprobs: [..., options] natural logs in the order of the letters.
        prior: [options] probabilities above 0.

    Returns:
        [..., options] natural logs, normalised over the options.
    """
    return normalised(np.asarray(logprobs, dtype=np.float64) - np.log(np.asarray(prior, dtype=np.float64)))


def calibration_priors(scored: pl.DataFrame) -> dict[int, Scores] | None:
    """Prior of the letters for each number of options, from a table of items asked once each.

    Args:
        scored: Rows with `options` and `option_logprobs`, for instance of the val split.

    Returns:
        Number of options -> [options] probabilities; None unless every item has option scores.
    """
    parts = _by_option_count(scored)
    if parts is None:
        return None
    return {k: np.exp(normalised(normalised(scores).mean(axis=0))) for k, (_, scores) in parts.items()}


def prior_corrected_accuracy(scored: pl.DataFrame, priors: Mapping[int, ArrayLike]) -> float | None:
    """Accuracy after a prior of the letters is divided out.

    Args:
        scored: Scored rows.
        priors: Number of options -> [options] probabilities, from other items (see `calibration_priors`).

    Returns:
        Share of right answers, in [0, 1]; uncommitted answers are wrong. None unless every item has option scores.

    Raises:
        DataError: No prior for the number of options of an item.
    """
    parts = _by_option_count(scored)
    if parts is None:
        return None
    absent = sorted(set(parts) - set(priors))
    if absent:
        raise DataError(
            f"There is no letter prior for items with {', '.join(map(str, absent))} options, only for "
            f"{', '.join(map(str, sorted(priors))) or 'none'}. Estimate it on items with as many options."
        )
    return _accuracy(scored, {k: (rows, divide_out(scores, priors[k])) for k, (rows, scores) in parts.items()})


def held_out_corrected(scored: pl.DataFrame) -> float | None:
    """`prior_corrected_accuracy` where each item's prior is estimated from all other items with as many options.

    Returns:
        Share of right answers, in [0, 1]. None unless every item has option scores and a fellow.
    """
    parts = _by_option_count(scored)
    if parts is None or any(len(rows) == 1 for rows, _ in parts.values()):
        return None
    corrected = {}
    for k, (rows, scores) in parts.items():
        logs = normalised(scores)
        # The norm of each prior shifts all letters of an item alike, and only their order counts.
        corrected[k] = rows, logs - (logs.sum(axis=0) - logs) / (len(logs) - 1)
    return _accuracy(scored, corrected)


def hits(scores: Scores, gold: NDArray[np.int64]) -> Scores:
    """Whether the highest score is that of the right option.

    Once a prior is divided out, a model without any belief of its own has equal scores. Their order is rounding error,
    so m equally high options count 1 / m each.

    Args:
        scores: [n, options] natural logs.
        gold: Index of the right option, [n].

    Returns:
        [n], in [0, 1].
    """
    best = scores >= scores.max(axis=1, keepdims=True) - _EQUAL
    share: Scores = best[np.arange(len(gold)), gold] / best.sum(axis=1)
    return share


def _by_option_count(scored: pl.DataFrame) -> dict[int, tuple[NDArray[np.int64], Scores]] | None:
    """Number of options -> (row numbers, their scores [rows, options])."""
    scores = option_scores(scored)
    if scores is None:
        return None
    lengths = np.isfinite(scores).sum(axis=1)
    return {int(k): (np.flatnonzero(lengths == k), scores[lengths == k, :k]) for k in np.unique(lengths)}


def _accuracy(scored: pl.DataFrame, corrected: Mapping[int, tuple[NDArray[np.int64], Scores]]) -> float:
    gold, firm = scored["answer_index"].to_numpy(), ~scored["is_uncommitted"].to_numpy()
    right = [hits(scores, gold[rows]) * firm[rows] for rows, scores in corrected.values()]
    return float(np.concatenate(right).mean())
