import hashlib

import polars as pl
import pytest
from written_run import ITEMS, PRINTS, write_answers, write_record

from medvl.answering.prediction import PREDICTION_SCHEMA
from medvl.errors import DataError
from medvl.evaluation.answer_table import read_answers
from medvl.evaluation.run_facts import RunFacts


@pytest.fixture
def run(tmp_path):
    return write_answers(write_record(tmp_path / "run"))


def test_answers_come_with_what_is_said_beside_them(run):
    found = read_answers(run / "predictions.parquet")
    assert found.table.height == len(ITEMS)
    assert found.fingerprints == PRINTS
    assert found.facts == RunFacts("tiny", "none", sampled=False, repeats=1)
    assert found.sha256 == hashlib.sha256((run / "predictions.parquet").read_bytes()).hexdigest()
    assert found.notes == []
    assert read_answers(run).table.equals(found.table)


def test_answers_that_lie_alone_are_of_an_unknown_model(run, tmp_path):
    (run / "predictions.parquet").rename(tmp_path / "alone.parquet")
    found = read_answers(tmp_path / "alone.parquet")
    assert (found.fingerprints, found.facts) == ({}, RunFacts())
    assert "which model gave the answers is unknown" in found.notes[0]


@pytest.mark.parametrize(("old", "new"), [('"n": 24', '"n": 23'), ('"scoring": "letter"', '"scoring": "generation"')])
def test_metrics_of_other_answers_are_not_taken_for_theirs(run, old, new):
    beside = run / "metrics.json"
    beside.write_text(beside.read_text().replace(old, new))
    found = read_answers(run)
    assert (found.fingerprints, found.facts) == ({}, RunFacts())
    assert "holds 24 by letter scoring" in found.notes[0]


def test_metrics_of_another_version_still_say_whose_answers_they_are(run):
    beside = run / "metrics.json"
    beside.write_text(beside.read_text().replace('"schema_version": 1', '"schema_version": 99'))
    assert read_answers(run).fingerprints == PRINTS


@pytest.mark.parametrize("text", ["{", "[]", '{"fingerprints": 3}'])
def test_damaged_metrics_leave_the_model_unknown(run, text):
    (run / "metrics.json").write_text(text)
    found = read_answers(run)
    assert found.fingerprints == {}
    assert "cannot be read" in found.notes[0]


def test_a_file_that_is_no_table_of_answers_is_named(tmp_path):
    with pytest.raises(DataError, match=r"There is no file .*nothing\.parquet"):
        read_answers(tmp_path / "nothing.parquet")
    with pytest.raises(DataError, match=r"There is no file .*predictions\.parquet"):
        read_answers(tmp_path)
    (tmp_path / "text.parquet").write_text("no table")
    with pytest.raises(DataError, match=r"text\.parquet is no whole Parquet file"):
        read_answers(tmp_path / "text.parquet")
    pl.DataFrame({"item_id": ["a"]}).write_parquet(tmp_path / "items.parquet")
    with pytest.raises(DataError, match=r"items\.parquet is no table of answers: it lacks the column\(s\) item_fing"):
        read_answers(tmp_path / "items.parquet")


def test_a_file_that_was_cut_short_is_refused(run):
    path = run / "predictions.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="no whole Parquet file"):
        read_answers(run)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (pl.lit("letters").alias("scoring"), "got letters 24"),
        (pl.when(pl.col("item_id") == "PI-0").then(pl.lit("generation")).otherwise("scoring").alias("scoring"), None),
        (pl.lit(None, pl.String).alias("scoring"), "got None 24"),
        (pl.lit("much").alias("outside_mass"), "values of another type"),
    ],
)
def test_values_that_no_answer_has_are_refused(run, change, words):
    path = run / "predictions.parquet"
    pl.read_parquet(path).with_columns(change).write_parquet(path)
    with pytest.raises(DataError, match=words or "one scoring .* got generation 1, letter 23"):
        read_answers(run)


def test_an_empty_table_is_refused(run):
    pl.DataFrame(schema=PREDICTION_SCHEMA).write_parquet(run / "predictions.parquet")
    with pytest.raises(DataError, match="got no rows"):
        read_answers(run)
