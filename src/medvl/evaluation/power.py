"""How small a difference could a comparison of this size have found?"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri


def design_effect(values: ArrayLike, groups: ArrayLike) -> float | None:
    """How many times the variance of a mean is larger because items come in groups (Kish 1965).

    Args:
        values: One number an item, [n]: right or wrong, or a paired difference.
        groups: Group of each item, [n].

    Returns:
        Variance of the mean estimated from group totals (linearised) over the variance as if items were independent;
        1 with one item a group. None where it cannot be told: a single group, or values that are all equal.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.size == 0 or np.ptp(numbers) == 0:
        return None
    codes = np.unique(np.asarray(groups), return_inverse=True)[1]
    n, n_groups = numbers.size, int(codes.max()) + 1
    if n_groups == 1:
        return None
    totals = np.bincount(codes, weights=numbers - numbers.mean())
    clustered = n_groups / (n_groups - 1) * float((totals**2).sum()) / n**2
    return clustered / (float(numbers.var(ddof=1)) / n)


def minimum_detectable_difference(
    n: int, discordance: float, *, design_effect: float | None = None, alpha: float = 0.05, power: float = 0.8
) -> float | None:
    """Smallest paired difference of accuracies that a comparison finds with the stated power.

    It solves the sample-size formula of McNemar's test (Connor 1987, Biometrics 43:207) for the difference d:
    sqrt(n / design effect) d = z(1 - alpha / 2) sqrt(discordance) + z(power) sqrt(discordance - d^2).

    Args:
        n: Number of items.
        discordance: Share of items that exactly one of the two models has right, in [0, 1].
        design_effect: See `design_effect`. None and values below 1 count as 1: grouping is not trusted to help.
        alpha: Two-sided error of the test.
        power: Probability of finding the difference.

    Returns:
        The difference, in (0, discordance]. None where no difference can be found: no items, no discordance, or so
        few items that even a difference in one direction only would be missed.
    """
    if n <= 0 or discordance <= 0:
        return None
    effective = n / max(1.0, design_effect or 1.0)
    z_alpha, z_power = float(ndtri(1 - alpha / 2)), float(ndtri(power))
    # Both sides squared: (effective + z_power^2) d^2 - 2 linear d + constant = 0, of which the larger root counts.
    linear = z_alpha * math.sqrt(discordance * effective)
    constant = discordance * (z_alpha**2 - z_power**2)
    lead = effective + z_power**2
    inside = linear**2 - lead * constant
    if inside < 0:
        return None
    found = (linear + math.sqrt(inside)) / lead
    return found if found <= discordance else None
