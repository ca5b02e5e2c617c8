"""Two models on the same items: is the difference more than luck?

McNemar's exact test treats items as independent and so ignores that the items of one patient are alike; its p-value is
too small where groups are large. The clustered bootstrap interval and the sign-flip test over groups (`sign_flip`),
which always stand beside it, do not share that fault. Read them: a difference that only McNemar's test finds rests on
few patients.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr

from medvl.errors import DataError
from medvl.evaluation.intervals import (
    Interval,
    clustered_bootstrap_ci,
    exact_ci,
    groups_agree,
    macro_bootstrap_ci,
)

Difference = tuple[float, float, float]
"""Estimate, low bound, high bound of a difference of rates, in [-1, 1]."""


def mcnemar_exact(a_correct: ArrayLike, b_correct: ArrayLike) -> float:
    """Two-sided exact McNemar test (Psychometrika 12:153, 1947): a binomial test of the items where the two disagree.

    Args:
        a_correct: 0 or 1 an item, [n].
        b_correct: 0 or 1 an item, [n], same items in the same order.

    Returns:
        p-value in (0, 1]. 1 when the two disagree nowhere, which includes no items.

    Raises:
        DataError: Arguments of different length.
    """
    wins, losses = _wins_losses(_differences(a_correct, b_correct))
    # At 1/2 the binomial is symmetric: both tails are twice one. The cap is for a tie, where they overlap.
    return min(1.0, 2.0 * float(bdtr(min(wins, losses), wins + losses, 0.5)))


def mcnemar_mid_p(a_correct: ArrayLike, b_correct: ArrayLike) -> float:
    """McNemar's mid-p test: the exact one with half the probability of the table that was seen taken off.

    The exact test is conservative; mid-p keeps close to its level without being so (Fagerland, Lydersen & Laake 2013,
    doi:10.1186/1471-2288-13-91).

    Args:
        a_correct: 0 or 1 an item, [n].
        b_correct: 0 or 1 an item, [n], same items in the same order.

    Returns:
        p-value in (0, 1]. 1 when the two disagree nowhere or equally often in both directions.

    Raises:
        DataError: Arguments of different length.
    """
    wins, losses = _wins_losses(_differences(a_correct, b_correct))
    if wins == losses:
        return 1.0
    least, discordant = min(wins, losses), wins + losses
    below = float(bdtr(least - 1, discordant, 0.5)) if least else 0.0
    return below + float(bdtr(least, discordant, 0.5))


def paired_bootstrap_difference(
    a: ArrayLike, b: ArrayLike, groups: ArrayLike, *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Difference:
    """Accuracy of `b` minus accuracy of `a` on the same items, with a clustered interval.

    Args:
        a: 0 or 1 an item, [n]: the first model (zero-shot).
        b: 0 or 1 an item, [n]: the second model (fine-tuned).
        groups: Group of each item, [n].
        level: Coverage, in (0, 1).
        resamples: Number of bootstrap draws.
        seed: Seed of the draws.

    Returns:
        Estimate, low and high bound. Where the groups do not differ (one group, or the two models agree everywhere)
        the bounds come from `exact_difference_ci`, so that they never coincide.

    Raises:
        DataError: No items, or arguments of different length.
    """
    differences = _differences(a, b)
    if groups_agree(differences, groups):
        wins, losses = _wins_losses(differences)
        low, high = exact_difference_ci(wins, losses, differences.size, level=level)
    else:
        low, high = clustered_bootstrap_ci(differences, groups, level=level, resamples=resamples, seed=seed)
    return float(differences.mean()), low, high


def paired_macro_difference(
    a: ArrayLike,
    b: ArrayLike,
    strata: ArrayLike,
    groups: ArrayLike,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Difference:
    """Unweighted mean over tasks of the accuracy difference (`b` minus `a`), with a clustered interval.

    Args:
        a: 0 or 1 an item, [n]: the first model.
        b: 0 or 1 an item, [n]: the second model.
        strata: Task of each item, [n].
        groups: Group of each item, [n].
        level: Coverage, in (0, 1).
        resamples: Number of bootstrap draws.
        seed: Seed of the draws.

    Returns:
        Estimate, low and high bound.

    Raises:
        DataError: No items, or arguments of different length.
    """
    differences = _differences(a, b)
    low, high = macro_bootstrap_ci(
        differences, strata, groups, support=(-1.0, 0.0, 1.0), level=level, resamples=resamples, seed=seed
    )
    task = np.asarray(strata)
    return float(np.mean([differences[task == name].mean() for name in np.unique(task)])), low, high


def exact_difference_ci(wins: int, losses: int, n: int, *, level: float = 0.95) -> Interval:
    """Conservative interval of (wins - losses) / n from two Clopper-Pearson intervals at half the error each.

    Args:
        wins: Items that only the second model has right.
        losses: Items that only the first model has right.
        n: All items.
        level: Coverage, at least, in (0, 1).

    Returns:
        Low and high bound, in [-1, 1].
    """
    each = (1 + level) / 2
    win_low, win_high = exact_ci(wins, n, level=each)
    loss_low, loss_high = exact_ci(losses, n, level=each)
    return win_low - loss_high, win_high - loss_low


def holm(pvalues: Sequence[float | None]) -> list[float | None]:
    """Adjust p-values for their number by Holm's step-down rule (Scand J Stat 6:65, 1979).

    Args:
        pvalues: p-values in any order. None (an absent comparison) stays None and does not count.

    Returns:
        Adjusted p-values in the same order, at most 1.
    """
    present = sorted((p, i) for i, p in enumerate(pvalues) if p is not None)
    adjusted: list[float | None] = [None] * len(pvalues)
    running = 0.0
    for rank, (p, i) in enumerate(present):
        running = max(running, min(1.0, p * (len(present) - rank)))
        adjusted[i] = running
    return adjusted


def _differences(a: ArrayLike, b: ArrayLike) -> NDArray[np.float64]:
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.shape != second.shape:
        raise DataError(f"A paired comparison needs the same items twice, got {first.size} and {second.size} answers.")
    return second - first


def _wins_losses(differences: NDArray[np.float64]) -> tuple[int, int]:
    return int(np.count_nonzero(differences > 0)), int(np.count_nonzero(differences < 0))
