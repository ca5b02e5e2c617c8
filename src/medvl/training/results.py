"""Writes what an evaluation found: predictions, metrics and details of each model, and their comparison."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medvl.answering.prediction import Prediction, predictions_to_frame
from medvl.benchmark.item import Item, items_to_frame
from medvl.errors import StorageError
from medvl.evaluation.comparison import compare
from medvl.evaluation.details import details_of
from medvl.evaluation.files import write_json
from medvl.evaluation.scored import score_predictions
from medvl.evaluation.summary import summarise


def write_answers(folder: Path, predictions: Sequence[Prediction], metrics: dict[str, Any]) -> None:
    """Write `predictions.parquet` and `metrics.json` of one model."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / ".predictions.parquet"
        predictions_to_frame(predictions).write_parquet(temporary)
        temporary.replace(folder / "predictions.parquet")
    except OSError as error:
        raise StorageError(f"cannot write the predictions to {folder}: {os.strerror(error.errno or 0)}") from error
    write_json(folder / "metrics.json", metrics)


def write_details(
    folder: Path, items: Sequence[Item], predictions: Sequence[Prediction], metrics: dict[str, Any]
) -> None:
    """Write `details.json` beside the `metrics.json` of the same answers."""
    scored = score_predictions(items_to_frame(items), predictions_to_frame(predictions))
    words = {key: metrics[key] for key in ("split", "scoring", "fingerprints")}
    write_json(folder / "details.json", details_of(scored, **words))


def write_comparison(
    folder: Path,
    items: Sequence[Item],
    zero_shot: Sequence[Prediction],
    fine_tuned: Sequence[Prediction],
    fingerprints: dict[str, str],
) -> dict[str, Any]:
    """Write `comparison.json` of two models on the same items; returns it."""
    frame = items_to_frame(items)
    comparison = compare(
        score_predictions(frame, predictions_to_frame(zero_shot)),
        score_predictions(frame, predictions_to_frame(fine_tuned)),
        split=items[0].split,
        scoring=fine_tuned[0].scoring,
        fingerprints=fingerprints,
    )
    write_json(folder / "comparison.json", comparison)
    return comparison


def metrics_of(
    items: Sequence[Item], predictions: Sequence[Prediction], fingerprints: dict[str, str]
) -> dict[str, Any]:
    """Content of `metrics.json` for some items of one split and their answers."""
    scored = score_predictions(items_to_frame(items), predictions_to_frame(predictions))
    return summarise(scored, split=items[0].split, scoring=predictions[0].scoring, fingerprints=fingerprints)
