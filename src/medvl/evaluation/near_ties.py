"""Answers that rounding could turn: their two likeliest options are as good as equally likely."""

from __future__ import annotations

import numpy as np
import polars as pl

from medvl.evaluation.option_scores import option_scores

NEAR_TIE = 2e-4
"""Nats between two options. In float32 a log-probability is the same within 1e-4 whatever batch, padding or shared
beginning it was computed with, so two options that lie further apart than twice that stay in their order. In half
precision it is the same within some hundredths only: there the count is a lower bound."""


def near_ties(scored: pl.DataFrame, margin: float = NEAR_TIE) -> int | None:
    """Count the answers whose two likeliest options lie less than a margin apart.

    Args:
        scored: Rows with the column `option_logprobs`.
        margin: Nats, above 0.

    Returns:
        A count; None unless every item has option scores.
    """
    scores = option_scores(scored)
    if scores is None:
        return None
    if scores.shape[1] < 2:
        return 0
    best = np.partition(scores, -2, axis=1)[:, -2:]
    return int((best[:, 1] - best[:, 0] < margin).sum())
