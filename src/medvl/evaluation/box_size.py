"""Accuracy against the size of the red box.

The size is the area of the box over the area of the picture. The tiers of the benchmark cut it at fixed thresholds,
which may leave a tier nearly empty; terciles and the curve cut it at quantiles of the items at hand, so that every part
holds as many items. Quantiles are interpolated linearly; boxes of equal size always fall in one part (the lower one at
a cut), so that parts can differ in number where many boxes are of one size.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from medvl.evaluation.cells import FEW_ITEMS, cell

TERCILES = ("lowest", "middle", "highest")

_MOST_BINS = 10


def tercile_names(scored: pl.DataFrame) -> pl.Series:
    """Tercile of each row by box size, null without a box, [n]; the cuts are those of the rows given."""
    return _part_of(scored, len(TERCILES)).replace_strict(dict(enumerate(TERCILES)), return_dtype=pl.String)


def terciles(scored: pl.DataFrame) -> dict[str, dict[str, Any] | None]:
    """Cut the rows with a box in three by its size.

    Returns:
        Tercile -> cell of its rows with `area_share` (lowest and highest in it) and `median_area_share`; None where it
        is empty.
    """
    names = tercile_names(scored)
    return {name: _sized(scored.filter(names == name)) for name in TERCILES}


def area_curve(scored: pl.DataFrame) -> list[dict[str, Any]] | None:
    """Accuracy in bins of box size, from small to large.

    Args:
        scored: Scored rows; those without a box are left out.

    Returns:
        None without boxes; else a cell a bin (its `ci95` resamples groups, like that of any cell) with `area_share`
        (lowest and highest in it) and `median_area_share`. Bins hold equal numbers of items: ten, or as many as give
        each 30 items, at least one.
    """
    n = scored["area_share"].count()
    if n == 0:
        return None
    parts = _part_of(scored, min(_MOST_BINS, max(1, n // FEW_ITEMS)))
    bins = [_sized(scored.filter(parts == part)) for part in sorted(parts.drop_nulls().unique())]
    return [figures for figures in bins if figures is not None]


def _part_of(scored: pl.DataFrame, n_parts: int) -> pl.Series:
    area = scored["area_share"].drop_nulls().to_numpy()
    cuts = np.quantile(area, np.arange(1, n_parts) / n_parts) if area.size else np.array([])
    part = np.searchsorted(cuts, scored["area_share"].fill_null(0.0).to_numpy(), side="left")
    return pl.Series("part", part, dtype=pl.Int64).set(scored["area_share"].is_null(), None)


def _sized(rows: pl.DataFrame) -> dict[str, Any] | None:
    figures = cell(rows)
    if figures is None:
        return None
    area = rows["area_share"]
    return figures | {
        "area_share": [float(area.min()), float(area.max())],  # type: ignore[arg-type]
        "median_area_share": float(area.median()),  # type: ignore[arg-type]
    }
