"""The run folder says what was asked for and how the run ended."""

import json
import os

import pytest

from medvl.errors import ConfigError, DataError, StorageError
from medvl.training.run_folder import RunFolder, hyperparameters, point_latest


def _record(run):
    return json.loads((run.path / "run.json").read_text())


def test_a_finished_run_says_so(tmp_path):
    run = RunFolder(tmp_path / "run", {"a": 1}, ["a=1"], seed=3)
    assert _record(run)["status"] == "running"
    with run.recording():
        run.update(steps=7)
    record = _record(run)
    assert (record["status"], record["steps"], record["seed"], record["overrides"]) == ("finished", 7, 3, ["a=1"])
    assert record["peak_memory_gib"] > 0
    assert record["ended"] >= record["started"]


@pytest.mark.parametrize(
    ("error", "status"),
    [(KeyboardInterrupt(), "interrupted"), (DataError("no picture\nat all"), "failed: no picture")],
)
def test_a_run_that_ends_early_says_why(tmp_path, error, status):
    run = RunFolder(tmp_path / "run", {}, [], seed=0)
    with pytest.raises(type(error)), run.recording():
        raise error
    assert _record(run)["status"] == status


@pytest.mark.parametrize(
    ("composed", "said"),
    [
        ({"trainer": {}, "eval": {"reuse_answers": True}}, "there was no checkpoint yet"),
        ({"eval": {"reuse_answers": True}}, "answers given so far are kept, the same command goes on"),
    ],
)
def test_an_interrupted_run_says_what_is_left_of_it(tmp_path, composed, said):
    run = RunFolder(tmp_path / "run", composed, [], seed=0)
    with pytest.raises(KeyboardInterrupt, match=said), run.recording():
        raise KeyboardInterrupt


def test_two_runs_never_share_a_folder(tmp_path):
    RunFolder(tmp_path / "run", {}, [], seed=0)
    with pytest.raises(ConfigError, match="already holds a run"):
        RunFolder(tmp_path / "run", {}, [], seed=0)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_place_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="cannot write"):
        RunFolder(tmp_path / "run", {}, [], seed=0)


def test_a_file_in_the_way_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"):
        RunFolder(tmp_path / "file" / "run", {}, [], seed=0)


def test_latest_follows_the_newest_run(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        point_latest(tmp_path, tmp_path / name)
        assert (tmp_path / "latest").resolve() == tmp_path / name
    assert os.readlink(tmp_path / "latest") == "two"


def test_a_real_folder_called_latest_is_not_replaced(tmp_path):
    (tmp_path / "latest" / "mine").mkdir(parents=True)
    (tmp_path / "run").mkdir()
    with pytest.raises(StorageError, match="latest"):
        point_latest(tmp_path, tmp_path / "run")
    assert (tmp_path / "latest" / "mine").is_dir()


def test_what_loggers_get_names_no_place():
    composed = {
        "seed": 0,
        "lora": {"r": 8},
        "task_mix": {},
        "optim": {"lr": 0.1},
        "benchmark": {},
        "trainer": {"max_steps": 3, "extra": {"default_root_dir": "/secret"}},
        "model": {"name": "tiny", "path": "/secret/model"},
        "data": {"name": "demo", "root": "/secret/data", "batch_size": 4},
        "paths": {"run": "/secret/run"},
    }
    assert "/secret" not in json.dumps(hyperparameters(composed))
