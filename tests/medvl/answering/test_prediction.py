import io
import subprocess
import sys

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from medvl.answering.prediction import (
    PREDICTION_SCHEMA,
    Prediction,
    Scoring,
    frame_to_predictions,
    predictions_to_frame,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
PREDICTIONS = st.builds(
    Prediction,
    item_id=TEXT,
    item_fingerprint=TEXT,
    answer=st.none() | st.sampled_from("ABCDEFGHIJ"),
    option_logprobs=st.lists(st.floats(-1e4, 0) | st.just(float("-inf")), max_size=10).map(tuple),
    outside_mass=st.none() | st.floats(0, 1),
    raw_text=TEXT,
    rule=TEXT,
    scoring=st.sampled_from(Scoring),
    latency_s=st.floats(0, 1e4),
)


@given(st.lists(PREDICTIONS, max_size=5))
def test_predictions_come_back_from_a_parquet_file_as_they_were(predictions):
    file = io.BytesIO()
    predictions_to_frame(predictions).write_parquet(file)
    file.seek(0)
    assert frame_to_predictions(pl.read_parquet(file)) == predictions


def test_a_table_without_rows_has_the_columns():
    frame = predictions_to_frame([])
    assert dict(frame.schema) == {name: pl.Schema({name: kind})[name] for name, kind in PREDICTION_SCHEMA.items()}
    assert frame_to_predictions(frame) == []


def test_reading_predictions_imports_no_torch():
    code = "import sys, medvl.answering.prediction; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
