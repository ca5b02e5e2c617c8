"""The log-probabilities of the options as arrays."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

Scores = NDArray[np.float64]


def option_scores(scored: pl.DataFrame) -> Scores | None:
    """Option log-probabilities of a table.

    Args:
        scored: Rows with the column `option_logprobs`.

    Returns:
        [n, most options] natural logs over the whole vocabulary, -inf beyond an item's options. None where there are
        no rows, or any row has no scores (generation gives none) or one that is no finite number.
    """
    lengths = scored["option_logprobs"].list.len().fill_null(0).to_numpy()
    if not lengths.size or not lengths.all():
        return None
    flat = scored["option_logprobs"].explode().cast(pl.Float64).to_numpy()
    if not np.isfinite(flat).all():
        return None
    scores = np.full((len(lengths), int(lengths.max())), -np.inf)
    scores[np.arange(scores.shape[1]) < lengths[:, None]] = flat
    return scores


def normalised(scores: Scores) -> Scores:
    """Log-probabilities shared out over the options alone, [..., options]: their exponentials add to 1."""
    shifted = scores - scores.max(axis=-1, keepdims=True)
    logs: Scores = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return logs
