"""Does a model know what it knows? Confidence against truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from medvl.evaluation.option_scores import normalised, option_scores
from medvl.evaluation.scored import correct_array

_COVERAGES = tuple(tenth / 10 for tenth in range(1, 11))


def calibration(scored: pl.DataFrame, *, bins: int = 10) -> dict[str, Any] | None:
    """How far stated confidence is from accuracy, over probabilities renormalised to the options.

    The answer here is the option with the highest probability, and the mass outside the options is divided out, so an
    uncommitted answer can be right here while it counts as wrong in `accuracy`.

    Args:
        scored: Scored rows.
        bins: Number of confidence bins.

    Returns:
        None unless every item has option scores; else `n`, `mean_confidence`,
        `ece` (expected calibration error with equal-width bins, Guo et al. 2017, arXiv:1706.04599),
        `adaptive_ece` (with bins of equal mass, Nixon et al. 2019, arXiv:1904.01685; items of equal confidence stay
        in one bin), `brier` (mean over items of the summed squared error over options, in [0, 2]), and the reliability
        tables `bins` (equal width) and `adaptive_bins` (equal mass): for each bin that is not empty `confidence`
        (mean), `accuracy`, `n`.
    """
    scores = option_scores(scored)
    if scores is None:
        return None
    probabilities = np.exp(normalised(scores))
    gold = scored["answer_index"].to_numpy()
    confidence = probabilities.max(axis=1)
    right = (probabilities.argmax(axis=1) == gold).astype(np.float64)
    target = np.zeros_like(probabilities)
    target[np.arange(len(gold)), gold] = 1.0
    inner = np.linspace(0.0, 1.0, bins + 1)[1:-1]
    width_table = _reliability(confidence, right, inner)
    mass_table = _reliability(confidence, right, np.quantile(confidence, inner))
    return {
        "n": len(gold),
        "mean_confidence": float(confidence.mean()),
        "ece": _expected_error(width_table),
        "adaptive_ece": _expected_error(mass_table),
        "brier": float(((probabilities - target) ** 2).sum(axis=1).mean()),
        "bins": width_table,
        "adaptive_bins": mass_table,
    }


def selective_risk(scored: pl.DataFrame) -> dict[str, Any] | None:
    """How wrong a model is when it answers only where it is most confident.

    Confidence is the highest probability after renormalising to the options. Right and wrong are those of `accuracy`:
    invalid and uncommitted answers are wrong, so the risk at full coverage is 1 - accuracy.

    Args:
        scored: Scored rows.

    Returns:
        None unless every item has option scores; else `n`, `aurc` (area under the risk-coverage curve: mean risk over
        the coverages 1/n, 2/n, ..., 1; Geifman et al. 2019, arXiv:1805.08206), `excess_aurc` (minus that of the same
        answers in the best order, so 0 is a perfect ranking whatever the accuracy), and `curve`: for the coverages
        .1, .2, ..., 1 `coverage`, `risk` (share of wrong answers among the most confident ones) and
        `least_confidence` (the confidence from which they are answered).
    """
    scores = option_scores(scored)
    if scores is None:
        return None
    confidence = np.exp(normalised(scores)).max(axis=1)
    wrong = 1.0 - correct_array(scored)
    risk = risk_by_coverage(confidence, wrong)
    n = len(risk)
    best = risk_by_coverage(-wrong, wrong)
    ranked = -np.sort(-confidence)
    answered = [int(np.ceil(coverage * n - 1e-9)) for coverage in _COVERAGES]
    return {
        "n": n,
        "aurc": float(risk.mean()),
        "excess_aurc": max(0.0, float(risk.mean() - best.mean())),
        "curve": [
            {"coverage": coverage, "risk": float(risk[count - 1]), "least_confidence": float(ranked[count - 1])}
            for coverage, count in zip(_COVERAGES, answered, strict=True)
        ],
    }


def risk_by_coverage(confidence: NDArray[np.float64], wrong: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of wrong answers among the 1, 2, ..., n most confident ones.

    Equal confidences have no order. Their expected share over all orders is taken, so that the result does not depend
    on the order of rows.

    Args:
        confidence: One number an item, [n], at least one item.
        wrong: 0 or 1 an item, [n].

    Returns:
        Risk at coverage 1/n, 2/n, ..., 1, [n], in [0, 1].
    """
    order = np.argsort(-confidence, kind="stable")
    _, tie, size = np.unique(-confidence[order], return_inverse=True, return_counts=True)
    share = np.bincount(tie, weights=wrong[order]) / size
    risk: NDArray[np.float64] = np.cumsum(share[tie]) / np.arange(1, len(order) + 1)
    return np.clip(risk, 0.0, 1.0)


def _reliability(
    confidence: NDArray[np.float64], right: NDArray[np.float64], inner_edges: NDArray[np.float64]
) -> list[dict[str, Any]]:
    which = np.searchsorted(inner_edges, confidence, side="left")
    return [
        {"confidence": float(confidence[mine].mean()), "accuracy": float(right[mine].mean()), "n": int(mine.sum())}
        for mine in (which == b for b in np.unique(which))
    ]


def _expected_error(table: list[dict[str, Any]]) -> float:
    total = sum(row["n"] for row in table)
    return float(sum(row["n"] * abs(row["accuracy"] - row["confidence"]) for row in table) / total)
