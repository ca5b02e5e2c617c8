"""The scored table: every item beside its prediction, the one input of all metrics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from medvl.answering.prediction import PREDICTION_SCHEMA
from medvl.benchmark.item import ITEM_SCHEMA, LETTERS, frame_to_items
from medvl.errors import DataError

UNCOMMITTED_ABOVE = 0.5
"""Outside mass above which an answer counts as uncommitted: most of the belief lies on no option."""

_NAMED_IDS = 3
_LETTER_TO_INDEX = {letter: index for index, letter in enumerate(LETTERS)}
_MASS_TOLERANCE = 1e-3  # probabilities summed in fp32 end slightly above 1


def score_predictions(items: pl.DataFrame, predictions: pl.DataFrame) -> pl.DataFrame:
    """Join items with their predictions and mark each answer.

    Args:
        items: Rows of `items.parquet` (columns of `ITEM_SCHEMA`), one or several tasks.
        predictions: Rows of `predictions.parquet` (columns of `PREDICTION_SCHEMA`), exactly one an item, any order.

    Returns:
        One row an item in the order of `items`. All item columns (`answer` is the right option text) and all
        prediction columns, with the prediction's `answer` called `predicted_letter`, and
        `answer_letter` (right letter), `predicted_text` (option text of the answer, null when invalid),
        `is_invalid` (no answer), `is_uncommitted` (outside mass above .5; False where it is not known),
        `is_correct` (the right letter, and not uncommitted), `chance` (1 / number of options).

    Raises:
        DataError: A column is absent; an item is listed twice, has no prediction or several; a prediction is of an
            unknown item, of another version of its item, or holds values that cannot be.
    """
    _require_columns(items, ITEM_SCHEMA, "items table")
    _require_columns(predictions, PREDICTION_SCHEMA, "predictions table")
    _check_one_to_one(items, predictions)
    answers = predictions.select(list(PREDICTION_SCHEMA)).rename({"answer": "predicted_letter"})
    joined = items.select(list(ITEM_SCHEMA)).join(answers, on="item_id", how="left", maintain_order="left")
    _check_fingerprints(items, joined)
    predicted_index = pl.col("predicted_letter").replace_strict(_LETTER_TO_INDEX, default=-1, return_dtype=pl.Int64)
    scored = joined.with_columns(
        pl.when(pl.col("predicted_letter").is_not_null()).then(predicted_index).alias("_predicted_index"),
        pl.col("answer_index").replace_strict(list(range(len(LETTERS))), list(LETTERS)).alias("answer_letter"),
        pl.col("predicted_letter").is_null().alias("is_invalid"),
        (pl.col("outside_mass") > UNCOMMITTED_ABOVE).fill_null(False).alias("is_uncommitted"),
        (1.0 / pl.col("options").list.len()).alias("chance"),
    )
    _check_values(scored)
    is_right = (pl.col("_predicted_index") == pl.col("answer_index")).fill_null(False)
    return scored.with_columns(
        pl.col("options").list.get(pl.col("_predicted_index"), null_on_oob=True).alias("predicted_text"),
        (is_right & ~pl.col("is_uncommitted")).alias("is_correct"),
    ).drop("_predicted_index")


def cluster_codes(scored: pl.DataFrame) -> NDArray[np.int64]:
    """Number the groups of a table.

    A group id is unique within its source only (two datasets both have a patient 1), so the pair counts.

    Args:
        scored: Table with the columns `source` and `group`.

    Returns:
        One code a row, [n] int64, equal for rows of the same source and group, counted from 0.
    """
    pairs = scored.select(pl.concat_str(["source", "group"], separator="\x1f").rank("dense"))
    return pairs.to_series().to_numpy().astype(np.int64) - 1


def correct_array(scored: pl.DataFrame) -> NDArray[np.float64]:
    """`is_correct` of a scored table as 0.0 or 1.0, [n] float64."""
    return scored["is_correct"].cast(pl.Float64).to_numpy()


def _require_columns(frame: pl.DataFrame, expected: dict[str, object], name: str) -> None:
    absent = [column for column in expected if column not in frame.columns]
    if absent:
        raise DataError(
            f"The {name} lacks the column(s) {', '.join(absent)}. "
            "It was written by another version: build or answer it again."
        )


def _some(ids: Sequence[str]) -> str:
    more = "" if len(ids) <= _NAMED_IDS else f" and {len(ids) - _NAMED_IDS} more"
    return ", ".join(ids[:_NAMED_IDS]) + more


def _check_one_to_one(items: pl.DataFrame, predictions: pl.DataFrame) -> None:
    def repeated(frame: pl.DataFrame) -> list[str]:
        return frame.filter(pl.col("item_id").is_duplicated())["item_id"].unique(maintain_order=True).to_list()

    missing = items.join(predictions, on="item_id", how="anti")["item_id"].to_list()
    foreign = predictions.join(items, on="item_id", how="anti")["item_id"].to_list()
    found = {
        "item(s) are listed more than once in the items table": repeated(items),
        "item(s) have no prediction": missing,
        "item(s) have more than one prediction": repeated(predictions),
        "prediction(s) are of an item that is not among the items": foreign,
    }
    problems = [f"{len(ids)} {what} ({_some(ids)})" for what, ids in found.items() if ids]
    if problems:
        raise DataError(
            f"Expected exactly one prediction for each of {items.height} items, got {predictions.height} predictions: "
            + "; ".join(problems)
            + ". Score the predictions against the benchmark and split they were made on, or answer the items again."
        )


def _check_fingerprints(items: pl.DataFrame, joined: pl.DataFrame) -> None:
    try:
        current = [item.fingerprint() for item in frame_to_items(items)]
    except ValueError as error:  # an unknown task, domain or split
        raise DataError(f"The items table holds a value this version does not know: {error}.") from error
    stored = joined["item_fingerprint"].to_list()
    stale = [i for i, now, then in zip(joined["item_id"].to_list(), current, stored, strict=True) if now != then]
    if stale:
        raise DataError(
            f"{len(stale)} of {items.height} predictions were made on another version of their item (picture, box, "
            f"question or options differ): {_some(stale)}. Answer these items again."
        )


def _check_values(scored: pl.DataFrame) -> None:
    options = pl.col("options").list.len()
    scores = pl.col("option_logprobs")
    wrong = {
        "an answer that is not the letter of an option": (pl.col("_predicted_index") < 0)
        | (pl.col("_predicted_index") >= options),
        "a number of option scores that is neither 0 nor the number of options": (scores.list.len() != 0)
        & (scores.list.len() != options),
        "an option log-probability that is no finite number or above 0": scores.list.eval(
            ~pl.element().is_finite() | pl.element().is_null() | (pl.element() > _MASS_TOLERANCE)
        ).list.any(),
        "an outside mass that is not in [0, 1]": ~pl.col("outside_mass").is_between(
            -_MASS_TOLERANCE, 1 + _MASS_TOLERANCE
        )
        | pl.col("outside_mass").is_nan(),
    }
    for what, condition in wrong.items():
        ids = scored.filter(condition)["item_id"].to_list()
        if ids:
            raise DataError(f"{len(ids)} prediction(s) have {what}: {_some(ids)}. Answer these items again.")
