"""Answers are written whole, and read back as they were."""

import json

import polars as pl
import pytest

from medvl.answering.prediction import Prediction, Scoring, frame_to_predictions
from medvl.errors import StorageError
from medvl.evaluation.files import read_details
from medvl.training.results import metrics_of, write_answers, write_comparison, write_details


def _answers(items, letter):
    return [
        Prediction(
            item_id=item.item_id,
            item_fingerprint=item.fingerprint(),
            answer=item.answer_letter if letter == "right" else letter,
            option_logprobs=tuple([-2.0] * len(item.options)),
            outside_mass=0.1,
            raw_text="",
            rule="argmax",
            scoring=Scoring.LETTER,
            latency_s=0.01,
        )
        for item in items
    ]


@pytest.fixture
def items(demo_data):
    from medvl.sources.record import Split

    return demo_data.items(Split.TRAIN)


def test_predictions_and_metrics_are_read_back_as_written(items, tmp_path):
    answers = _answers(items, "right")
    metrics = metrics_of(items, answers, {"base": "x"})
    write_answers(tmp_path / "run", answers, metrics)
    assert frame_to_predictions(pl.read_parquet(tmp_path / "run" / "predictions.parquet")) == answers
    assert json.loads((tmp_path / "run" / "metrics.json").read_text()) == metrics
    assert metrics["overall"]["accuracy"] == 1.0


def test_details_stand_beside_the_metrics_of_the_same_answers(items, tmp_path):
    answers = _answers(items, "A")
    metrics = metrics_of(items, answers, {"base": "x"})
    write_details(tmp_path, items, answers, metrics)
    details = read_details(tmp_path / "details.json")
    assert {key: details[key] for key in ("split", "scoring", "fingerprints")} == {
        key: metrics[key] for key in ("split", "scoring", "fingerprints")
    }
    assert {task: part["counts"]["right"] / part["counts"]["n"] for task, part in details["tasks"].items()} == {
        task: cell["accuracy"] for task, cell in metrics["tasks"].items()
    }


def test_a_comparison_holds_both_models(items, tmp_path):
    write_comparison(tmp_path, items, _answers(items, "A"), _answers(items, "right"), {})
    comparison = json.loads((tmp_path / "comparison.json").read_text())
    always_a = sum(item.answer_letter == "A" for item in items) / len(items)
    assert comparison["overall"]["zero_shot"]["accuracy"] == pytest.approx(always_a)
    assert comparison["overall"]["fine_tuned"]["accuracy"] == 1.0


def test_a_place_that_cannot_be_written_is_named(items, tmp_path):
    (tmp_path / "run").write_text("a file in the way")
    with pytest.raises(StorageError, match="run"):
        write_answers(tmp_path / "run", _answers(items, "A"), {})
