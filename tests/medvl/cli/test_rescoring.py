"""Earlier answers are scored against the configured benchmark and written to a run folder of their own."""

from io import StringIO

import pytest
from rich.console import Console
from written_run import write_answers, write_record

from medvl.cli.rescoring import score_again
from medvl.errors import DataError
from medvl.evaluation.files import read_metrics
from medvl.sources.record import Split
from medvl.training.run_folder import RunFolder


def new_run(tmp_path):
    return RunFolder(tmp_path / "new", {}, [], seed=0)


@pytest.fixture
def answered(demo_data, tmp_path):
    """The configuration of a benchmark, its test items, and a file with answers to them."""
    items = demo_data.items(Split.TEST)
    write_answers(write_record(tmp_path / "old"), items=items)
    config = demo_data._config.model_copy(update={"predictions": str(tmp_path / "old" / "predictions.parquet")})
    return config, items


def test_the_figures_are_those_of_the_answers(answered, tmp_path):
    config, items = answered
    run, console = new_run(tmp_path), Console(file=StringIO(), width=80)
    macro = score_again(config, run, console)
    found = read_metrics(run.path / "metrics.json")
    assert found["overall"]["macro_accuracy"] == macro
    assert found["overall"]["n"] == len(items)
    assert found["tasks"] == read_metrics(tmp_path / "old" / "metrics.json")["tasks"]
    assert (run.path / "details.json").is_file()
    assert {"answered_by", "predictions_sha256"} <= set(run.record)
    assert run.record["fingerprints"] == found["fingerprints"]
    assert "test split, letter scoring" in console.file.getvalue()


def test_answers_to_other_questions_are_refused(answered, tmp_path):
    config, _ = answered
    run = write_answers(write_record(tmp_path / "other"))
    config = config.model_copy(update={"predictions": str(run / "predictions.parquet")})
    with pytest.raises(DataError, match="are to other questions"):
        score_again(config, new_run(tmp_path), Console(file=StringIO()))
