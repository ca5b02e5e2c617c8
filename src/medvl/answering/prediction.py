"""The prediction: one answer of one model to one item, with its option scores, and its table form.

Imports no torch, so that scoring and reports work on a machine that has none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import polars as pl


class Scoring(StrEnum):
    """How an answer was obtained."""

    LETTER = "letter"
    GENERATION = "generation"
    ENDPOINT = "endpoint"
    LIKELIHOOD_SUM = "likelihood:sum"
    LIKELIHOOD_PER_TOKEN = "likelihood:per_token"
    LIKELIHOOD_RELATIVE = "likelihood:relative"


@dataclass(frozen=True, slots=True)
class Prediction:
    """One answer to one item.

    Attributes:
        item_id: Item that was asked.
        item_fingerprint: `Item.fingerprint()` of it.
        answer: Option letter, or None for an invalid answer. Never a guess.
        option_logprobs: Natural-log probability of every option letter over the whole vocabulary, in option order.
            Empty when the scoring gives none. For likelihood, the log-softmax of the options' scores instead.
        outside_mass: Probability of everything that is not an option letter, in [0, 1]; None when not known.
        raw_text: Generated reply; "" for letter scoring; `OptionLikelihoods.to_json()` for likelihood.
        rule: Name of the parsing rule that fired, or `argmax` for letter scoring and likelihood.
        scoring: How the answer was obtained.
        latency_s: Seconds of wall time spent on the item (its share of a batch).
    """

    item_id: str
    item_fingerprint: str
    answer: str | None
    option_logprobs: tuple[float, ...]
    outside_mass: float | None
    raw_text: str
    rule: str
    scoring: Scoring
    latency_s: float


PREDICTION_SCHEMA: dict[str, Any] = {
    "item_id": pl.String,
    "item_fingerprint": pl.String,
    "answer": pl.String,
    "option_logprobs": pl.List(pl.Float64),
    "outside_mass": pl.Float64,
    "raw_text": pl.String,
    "rule": pl.String,
    "scoring": pl.String,
    "latency_s": pl.Float64,
}
"""Column -> polars type of `predictions.parquet`, in order."""


def predictions_to_frame(predictions: Iterable[Prediction]) -> pl.DataFrame:
    """Put predictions into a table with the columns of `PREDICTION_SCHEMA`, order kept."""
    rows = [{**asdict(p), "option_logprobs": list(p.option_logprobs)} for p in predictions]
    return pl.DataFrame(rows, schema=PREDICTION_SCHEMA)


def frame_to_predictions(frame: pl.DataFrame) -> list[Prediction]:
    """Read predictions back from a table written by `predictions_to_frame`."""
    predictions = []
    for row in frame.iter_rows(named=True):
        row["option_logprobs"] = tuple(row["option_logprobs"])
        row["scoring"] = Scoring(row["scoring"])
        predictions.append(Prediction(**row))
    return predictions
