"""Intervals for rates over items that come in groups (patients, videos, exams).

Items of one patient are alike, so an interval that treats them as independent is too narrow. The bootstrap here draws
whole groups with replacement (Davison & Hinkley, Bootstrap Methods and their Application, 1997, section 3.8) and
takes the percentile interval of the ratio of sums. With few groups (under about ten) percentile intervals are still
somewhat too narrow; the number of groups stands beside every interval for that reason.

Where the groups do not differ at all (one group, or everything right or wrong) a bootstrap would report an interval of
width zero. Such a cell gets the exact binomial interval of its items instead.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from medvl.errors import DataError

Interval = tuple[float, float]

_CHUNK_CELLS = 4_000_000  # weights held at once: 32 MB of int64
_JEFFREYS = 0.5


def exact_ci(successes: int, n: int, *, level: float = 0.95) -> Interval:
    """Clopper-Pearson interval of a share (Biometrika 26:404, 1934).

    Args:
        successes: Number of successes, 0 to `n`.
        n: Number of trials. 0 gives (0, 1): nothing is known.
        level: Coverage, in (0, 1).

    Returns:
        Low and high bound, in [0, 1].
    """
    alpha = 1.0 - level
    low = 0.0 if successes == 0 else float(betaincinv(successes, n - successes + 1, alpha / 2))
    high = 1.0 if successes == n else float(betaincinv(successes + 1, n - successes, 1 - alpha / 2))
    return low, high


def clustered_bootstrap_ci(
    values: ArrayLike, groups: ArrayLike, *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Interval:
    """Percentile interval of the mean of `values` under resampling of whole groups.

    Args:
        values: One number an item, [n], for instance 0 or 1 for wrong or right.
        groups: Group of each item, [n], of any comparable type.
        level: Coverage, in (0, 1).
        resamples: Number of bootstrap draws.
        seed: Seed of the draws. The result depends on neither the order of the items nor the names of the groups.

    Returns:
        Low and high bound; they always enclose the mean. Width zero when all groups have the same mean: use
        `accuracy_ci` for rates, which takes the exact interval there.

    Raises:
        DataError: No items, or `values` and `groups` of different length.
    """
    sums, counts = _sums_and_counts(*_checked(values, groups))
    draws = _resampled_means(sums[:, None], counts[:, None], resamples=resamples, seed=seed)[:, 0]
    return percentile_interval(draws, float(sums.sum() / counts.sum()), level)


def accuracy_ci(
    correct: ArrayLike, groups: ArrayLike, *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Interval:
    """Interval of a share of right answers that never has width zero.

    Args:
        correct: 0 or 1 (or bool) an item, [n].
        groups: Group of each item, [n].
        level: Coverage, in (0, 1).
        resamples: Number of bootstrap draws.
        seed: Seed of the draws.

    Returns:
        Clustered bootstrap interval, or the exact one where the groups do not differ (one group, all right, all
        wrong). (0, 1) without items.
    """
    right = np.asarray(correct, dtype=np.float64)
    if right.size == 0:
        return 0.0, 1.0
    if groups_agree(right, groups):
        return exact_ci(int(right.sum()), right.size, level=level)
    return clustered_bootstrap_ci(right, groups, level=level, resamples=resamples, seed=seed)


def macro_bootstrap_ci(
    values: ArrayLike,
    strata: ArrayLike,
    groups: ArrayLike,
    *,
    support: tuple[float, ...] = (0.0, 1.0),
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """Percentile interval of the unweighted mean over strata (tasks, classes) of the mean of their values.

    Args:
        values: One number an item, [n], each one of `support`.
        strata: Task or class of each item, [n].
        groups: Group of each item, [n].
        support: Values that can occur: (0, 1) for right and wrong, (-1, 0, 1) for paired differences.
        level: Coverage, in (0, 1).
        resamples: Number of bootstrap draws.
        seed: Seed of the draws.

    Returns:
        Low and high bound; they always enclose the estimate and never coincide.

    Raises:
        DataError: No items, or arguments of different length.
    """
    means, draws = bootstrap_means(values, strata, groups, support=support, resamples=resamples, seed=seed)
    return percentile_interval(draws.mean(axis=1), float(means.mean()), level)


def bootstrap_means(
    values: ArrayLike,
    strata: ArrayLike,
    groups: ArrayLike,
    *,
    support: tuple[float, ...] = (0.0, 1.0),
    resamples: int = 2000,
    seed: int = 0,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean of each stratum, in the data and in each draw of groups.

    One draw of groups is shared by all strata, because a patient can feed several of them. A bootstrap cannot say how
    uncertain a stratum is whose groups do not differ, nor what a stratum is worth in a draw that holds none of its
    groups. There its mean is drawn from the Dirichlet posterior of its values under the Jeffreys prior instead.

    Args:
        values: One number an item, [n], each one of `support`.
        strata: Stratum of each item, [n].
        groups: Group of each item, [n].
        support: Values that can occur.
        resamples: Number of bootstrap draws.
        seed: Seed of the draws.

    Returns:
        (means in the data, [strata]; means in each draw, [resamples, strata]); strata in sorted order.

    Raises:
        DataError: No items, or arguments of different length.
    """
    numbers, codes = _checked(values, groups)
    stratum = _checked(values, strata)[1]
    n_strata = int(stratum.max()) + 1
    shape = (int(codes.max()) + 1, n_strata)
    cell = codes * n_strata + stratum
    flat_sums, flat_counts = _sums_and_counts(numbers, cell, shape[0] * shape[1])
    sums, counts = flat_sums.reshape(shape), flat_counts.reshape(shape)
    draws = _resampled_means(sums, counts, resamples=resamples, seed=seed)
    rng = np.random.default_rng([seed, 1])
    for column in range(n_strata):
        mine = stratum == column
        alone = groups_agree(numbers[mine], codes[mine])
        replaced = np.full(resamples, True) if alone else np.isnan(draws[:, column])
        if replaced.any():
            seen = np.array([np.count_nonzero(numbers[mine] == value) for value in support])
            posterior = rng.dirichlet(seen + _JEFFREYS, size=int(replaced.sum()))
            draws[replaced, column] = posterior @ np.array(support)
    return sums.sum(axis=0) / counts.sum(axis=0), draws


def groups_agree(values: ArrayLike, groups: ArrayLike) -> bool:
    """Whether all groups have the same mean, so that resampling them shows no spread. True for a single group."""
    sums, counts = _sums_and_counts(*_checked(values, groups))
    means = sums / counts
    return bool(np.ptp(means) < 1e-12)


def percentile_interval(draws: NDArray[np.float64], estimate: float, level: float = 0.95) -> Interval:
    """Percentile interval of bootstrap draws [resamples], widened where needed to enclose the estimate."""
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return min(float(low), estimate), max(float(high), estimate)


def _checked(values: ArrayLike, groups: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    numbers = np.asarray(values, dtype=np.float64)
    labels = np.asarray(groups)
    if numbers.size == 0 or numbers.shape != labels.shape:
        raise DataError(
            f"An interval needs at least one item and one group an item, got {numbers.size} values "
            f"and {labels.size} groups."
        )
    return numbers, np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _sums_and_counts(
    values: NDArray[np.float64], codes: NDArray[np.int64], n_codes: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    sums: NDArray[np.float64] = np.bincount(codes, weights=values, minlength=n_codes).astype(np.float64)
    return sums, np.bincount(codes, minlength=n_codes).astype(np.float64)


def _resampled_means(
    sums: NDArray[np.float64], counts: NDArray[np.float64], *, resamples: int, seed: int
) -> NDArray[np.float64]:
    """Mean of each stratum in each draw of groups.

    Groups with equal sums and counts are interchangeable, so a draw of G groups is a multinomial draw over the few
    distinct kinds of group. This is exact, fast, and independent of the order of groups.

    Args:
        sums: Sum of values by group and stratum, [groups, strata].
        counts: Number of items by group and stratum, [groups, strata].
        resamples: Number of draws.
        seed: Seed of the draws.

    Returns:
        [resamples, strata]; NaN where a draw holds no item of the stratum.
    """
    n_groups, n_strata = sums.shape
    kinds, how_many = np.unique(np.hstack([sums, counts]), axis=0, return_counts=True)
    rng = np.random.default_rng([seed, 0])
    rows = max(1, _CHUNK_CELLS // len(kinds))
    totals = np.concatenate(
        [
            rng.multinomial(n_groups, how_many / n_groups, size=min(rows, resamples - start)) @ kinds
            for start in range(0, resamples, rows)
        ]
    )
    with np.errstate(invalid="ignore"):
        means: NDArray[np.float64] = totals[:, :n_strata] / totals[:, n_strata:]
    return means
