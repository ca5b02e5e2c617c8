"""Exact test of a paired difference that respects groups.

If two models are equally good, exchanging their answers within a patient changes nothing but the sign of that
patient's difference. The sign-flip (randomisation) test counts in how many of the 2^groups equally likely sign patterns
the sum of differences is at least as far from zero as the one seen (Fisher 1935; Winkler et al. 2014,
doi:10.1016/j.neuroimage.2014.01.060, for exchange in whole blocks). With one item a group it is McNemar's exact test.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

_TOLERANCE = 1e-9


def sign_flip_exact(differences: ArrayLike, groups: ArrayLike) -> float:
    """Two-sided sign-flip test over groups, by counting all sign patterns.

    Args:
        differences: A whole number an item, [n]: second minus first model, -1, 0 or 1 for one answer each.
        groups: Group of each item, [n].

    Returns:
        p-value in [0, 1]. 1 where no group has a difference, which includes no items.
    """
    sums = np.abs(np.rint(_group_sums(differences, groups))).astype(np.int64)
    observed = abs(int(np.rint(np.asarray(differences, dtype=np.float64).sum())))
    total = int(sums.sum())
    if total == 0:
        return 1.0
    # The sum over a sign pattern is 2 U - total, where U sums the groups whose sign is kept.
    pmf = np.ones(1)
    for size, count in zip(*np.unique(sums[sums > 0], return_counts=True), strict=True):
        grown = np.zeros(len(pmf) + size * count)
        for kept, weight in enumerate(_binomial_half(int(count))):
            grown[kept * size : kept * size + len(pmf)] += weight * pmf
        pmf = grown
    extreme = np.abs(2 * np.arange(total + 1) - total) >= observed
    return min(1.0, float(pmf[extreme].sum()))


def sign_flip_sampled(
    contributions: ArrayLike, groups: ArrayLike, *, flips: int = 10_000, seed: int = 0
) -> float | None:
    """Two-sided sign-flip test over groups for contributions that are no whole numbers, by drawing sign patterns.

    Args:
        contributions: What each item adds to the estimate, [n].
        groups: Group of each item, [n].
        flips: Number of patterns drawn.
        seed: Seed of the draws.

    Returns:
        p-value in (0, 1], never below 1 / (flips + 1): the data count as one pattern (Phipson & Smyth 2010,
        doi:10.2202/1544-6115.1585). None without items.
    """
    if not np.size(contributions):
        return None
    sums = _group_sums(contributions, groups)
    sums = np.sort(np.abs(sums[np.abs(sums) > _TOLERANCE]))
    observed = abs(float(np.asarray(contributions, dtype=np.float64).sum())) - _TOLERANCE
    rng = np.random.default_rng(seed)
    reached = 0
    rows = max(1, 4_000_000 // max(1, sums.size))
    for start in range(0, flips, rows):
        signs = rng.integers(0, 2, (min(rows, flips - start), sums.size), dtype=np.int8)
        reached += int(np.count_nonzero(np.abs(2 * (signs @ sums) - sums.sum()) >= observed))
    return (1 + reached) / (1 + flips)


def _group_sums(values: ArrayLike, groups: ArrayLike) -> NDArray[np.float64]:
    numbers = np.asarray(values, dtype=np.float64)
    codes = np.unique(np.asarray(groups), return_inverse=True)[1]
    return np.bincount(codes, weights=numbers, minlength=1).astype(np.float64)


def _binomial_half(n: int) -> NDArray[np.float64]:
    """Probability of 0, 1, ..., n heads in n tosses of a fair coin."""
    k = np.arange(n + 1)
    logs: NDArray[np.float64] = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) - n * np.log(2.0)
    return np.exp(logs)
