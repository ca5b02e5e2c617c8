"""Figures of one paired difference, as they stand in `comparison.json`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from medvl.evaluation.paired import holm, mcnemar_exact, mcnemar_mid_p, paired_bootstrap_difference
from medvl.evaluation.power import design_effect, minimum_detectable_difference
from medvl.evaluation.sign_flip import sign_flip_exact


def paired_figures(
    before: NDArray[np.float64], after: NDArray[np.float64], clusters: NDArray[np.int64]
) -> dict[str, Any]:
    """Compare two models on the same items.

    Args:
        before: 0 or 1 an item, [n], at least one item: the first model.
        after: 0 or 1 an item, [n]: the second model.
        clusters: Group of each item, [n].

    Returns:
        `estimate` (second minus first) with `ci95` (bootstrap over groups); `p` and `p_mid` (McNemar over items, exact
        and mid-p) and `p_clustered` (exact sign-flip test over groups); `gained` and `lost` (items that only the
        second, only the first has right); `design_effect` of the difference (None where it cannot be told) and
        `minimum_detectable` (the smallest difference that this many items, groups and disagreements find with 80 %
        power at 5 %; None where there is none).
    """
    estimate, low, high = paired_bootstrap_difference(before, after, clusters)
    differences = after - before
    gained, lost = int((differences > 0).sum()), int((differences < 0).sum())
    effect = design_effect(differences, clusters)
    return {
        "estimate": estimate,
        "ci95": [low, high],
        "p": mcnemar_exact(before, after),
        "p_mid": mcnemar_mid_p(before, after),
        "p_clustered": sign_flip_exact(differences, clusters),
        "gained": gained,
        "lost": lost,
        "design_effect": effect,
        "minimum_detectable": minimum_detectable_difference(
            before.size, (gained + lost) / before.size, design_effect=effect
        ),
    }


def adjust(cells: dict[str, dict[str, Any] | None], *names: str) -> None:
    """Add to the difference of each cell its p-values adjusted by Holm for the cells of the table, as `<name>_holm`.

    Args:
        cells: Name -> cell with `difference`, None where absent. Changed in place.
        names: p-values to adjust, each on its own.
    """
    present = [figures["difference"] for figures in cells.values() if figures is not None]
    for name in names:
        for difference, adjusted in zip(present, holm([d[name] for d in present]), strict=True):
            difference[f"{name}_holm"] = adjusted
