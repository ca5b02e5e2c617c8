import re

import pytest

from medvl.errors import DataError
from medvl.evaluation.logged import METRIC_NAME_PATTERN, logged_metrics
from medvl.evaluation.summary import summarise


@pytest.fixture
def metrics(thirty):
    return summarise(thirty["after"], split="test", scoring="letter", fingerprints={})


@pytest.mark.parametrize("stage", ["val", "test"])
def test_names_are_the_documented_ones_and_absent_figures_are_left_out(metrics, stage):
    logged = logged_metrics(metrics, stage)
    assert set(logged) == {
        f"{stage}/{name}"
        for name in (
            *("macro_accuracy", "accuracy", "invalid_rate"),
            *("task/PI/accuracy", "task/VC/accuracy", "task/VG/accuracy"),
            *("tier/small/accuracy", "tier/medium/accuracy", "domain/clinical/accuracy", "domain/phantom/accuracy"),
        )
    }
    assert logged[f"{stage}/accuracy"] == pytest.approx(0.8)
    assert logged[f"{stage}/tier/small/accuracy"] == pytest.approx(0.6)
    assert all(type(value) is float for value in logged.values())


def test_loss_is_logged_where_option_scores_give_one(build):
    scored = build.scored([("A", {}, {"probabilities": [0.5, 0.25, 0.125, 0.125]})])
    metrics = summarise(scored, split="test", scoring="letter", fingerprints={})
    assert logged_metrics(metrics, "val")["val/loss"] == pytest.approx(0.6931, abs=1e-4)


def test_every_logged_name_fits_the_pattern(metrics):
    assert all(re.match(METRIC_NAME_PATTERN, name) for name in logged_metrics(metrics, "val"))


@pytest.mark.parametrize(
    "name", ["accuracy", "val/f1", "train/loss", "val/task/PI", "val/tier/tiny/accuracy", "val/accuracy/x"]
)
def test_other_names_do_not_fit_the_pattern(name):
    assert not re.match(METRIC_NAME_PATTERN, name)


def test_another_stage_is_refused(metrics):
    with pytest.raises(DataError, match="val and test, got 'train'"):
        logged_metrics(metrics, "train")
