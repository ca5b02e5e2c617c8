"""Adapters are found, refused with a reason, named without a path, and pooled only where a seed alone differs."""

import copy
import json
import subprocess
import sys

import pytest
import yaml

from medvl.errors import ConfigError
from medvl.training.candidates import find_candidates, pool_seeds, unique_labels

CONFIG = {
    "seed": 0,
    "name": "a",
    "model": {"name": "tiny", "path": "builtin:tiny"},
    "data": {"name": "demo", "root": "data/demo", "demo": {"seed": 0, "patients": 12}, "num_workers": 0},
    "benchmark": {"seed": 0},
    "eval": {"batch_size": 32, "val_items": 20, "test_items": 30},
    "debug": {"permute_answers": False},
    "paths": {"run": "/home/me/outputs/a"},
    "lora": {"r": 16},
    "optim": {"lr": 2e-4},
    "trainer": {"max_steps": 2, "progress": True},
    "callbacks": {"checkpoint": {"dirpath": "/home/me/outputs/a/checkpoints"}, "early_stopping": {"patience": 10}},
    "logger": {"csv": {"save_dir": "/home/me/outputs/a"}},
}
RECORDED = ("seed", "model", "data", "benchmark", "eval", "debug")


def changed(**changes):
    """The configuration with dotted keys set: `trainer__max_steps=3`."""
    config = copy.deepcopy(CONFIG)
    for key, value in changes.items():
        *nodes, last = key.split("__")
        node = config
        for name in nodes:
            node = node[name]
        node[last] = value
    return config


@pytest.fixture
def write(tmp_path):
    """Writes a run as train.py does, or its adapter alone."""

    def of(folder_name, run=True, built="b", weights=None, lora=None, **changes):
        config = changed(name=folder_name, **changes)
        folder = tmp_path / folder_name
        adapter = folder / "adapter" if run else folder
        adapter.mkdir(parents=True)
        (adapter / "adapter_config.json").write_text(json.dumps(lora or {"r": 16}))
        (adapter / "adapter_model.safetensors").touch()
        prints = {"base": "w", "benchmark": built, "adapter": weights or f"weights of {folder_name}"}
        record = {"base": "tiny", "fingerprints": prints, "config": {key: config[key] for key in RECORDED}}
        (adapter / "medvl.json").write_text(json.dumps(record))
        if run:
            (folder / "config.yaml").write_text(yaml.safe_dump(config))
            (folder / "run.json").write_text(json.dumps({"status": "finished"}))
        return str(folder)

    return of


def found(*entries, baseline=None, overrides=()):
    return find_candidates(entries, baseline, overrides)


def problems(*entries, **options):
    with pytest.raises(ConfigError) as caught:
        found(*entries, **options)
    return caught.value.problems


def pools(*entries):
    """(labels of each pool, notes)."""
    groups, notes = pool_seeds(found(*entries).runs)
    return [[one.label for one in group] for group in groups.values()], notes


def test_a_run_and_an_adapter_folder_are_found_and_named(write):
    result = found(write("a"), f"{write('b')}/adapter", write("c", run=False), baseline=write("d"))
    assert [one.label for one in result.runs] == ["a", "b", "c"]
    assert [one.adapter.name for one in result.runs] == ["adapter", "adapter", "c"]
    assert [one.is_certain for one in result.runs] == [True, True, False]
    assert (result.baseline.label, result.notes) == ("d", [])


def test_a_link_is_named_by_what_it_points_to(write, tmp_path):
    (tmp_path / "latest").symlink_to(write("a"))
    (one,) = found(str(tmp_path / "latest")).runs
    assert one.label == "a"


def test_every_wrong_entry_is_said_at_once_with_its_reason(write, tmp_path):
    good = write("good")
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "failed").mkdir()
    (tmp_path / "failed" / "run.json").write_text(json.dumps({"status": "failed: no more memory"}))
    (tmp_path / write("bare", run=False) / "medvl.json").unlink()
    (tmp_path / write("cut", run=False) / "adapter_model.safetensors").unlink()
    (tmp_path / write("torn") / "config.yaml").write_text("a: [")
    (tmp_path / write("text") / "config.yaml").write_text("text")
    names = ("absent", "file", "empty", "failed", "bare", "cut", "torn", "text")
    reasons = problems(*(str(tmp_path / name) for name in names), good, f"{good}/adapter")
    expected = {
        "absent": "there is no such folder",
        "file": "it is a file",
        "empty": "neither adapter/ nor adapter_config.json",
        "failed": r"a run without an adapter (failed: no more memory)",
        "bare": "no medvl.json",
        "cut": "adapter_model.safetensors is absent",
        "torn": "config.yaml cannot be read",
        "text": "should hold a mapping, got str",
        "good/adapter": "is the same adapter as",
    }
    assert len(reasons) == len(expected)
    for name, why in expected.items():
        (reason,) = [text for text in reasons if why in text]
        assert reason.startswith("compare: ")
        assert name in reason


def test_a_copy_of_an_adapter_is_no_second_seed(write):
    (reason,) = problems(write("a", weights="same"), write("b", weights="same", seed=1))
    assert "b holds the same weights as" in reason


def test_nothing_is_compared_with_itself(write):
    folder = write("a")
    (reason,) = problems(folder, baseline=f"{folder}/adapter")
    assert reason.startswith("adapter: ")
    assert "it cannot be baseline and candidate" in reason


def test_another_benchmark_is_refused_unless_the_command_line_names_one(write):
    entries = [write("a"), write("b", built="other")]
    (reason,) = problems(*entries, overrides=["split=val", "database=x"])
    assert "was trained on another benchmark (demo, other)" in reason
    assert "say data=..." in reason
    for override in ("data=demo", "data.root=x", "benchmark.seed=1"):
        (note,) = found(*entries, overrides=[override]).notes
        assert note.startswith("b was trained on another benchmark than a")
    (reason,) = problems(entries[0], baseline=entries[1])
    assert reason.startswith("adapter: ")


def test_seeds_of_one_recipe_are_pooled_and_said(write):
    other = {"seed": 1, "paths__run": "/elsewhere/b", "data__root": "/elsewhere/demo"}
    moved = {"callbacks__checkpoint": {"dirpath": "/elsewhere/b/checkpoints"}, "logger": {}, "data__num_workers": 4}
    groups, notes = pools(write("a"), write("c", lora__r=2), write("b", **other, **moved))
    assert groups == [["a", "b"], ["c"]]
    assert notes == ["pooled, one recipe with seeds 0, 1: a, b"]


@pytest.mark.parametrize(
    "change",
    [
        {"lora__r": 8},
        {"optim__lr": 1e-3},
        {"trainer__max_steps": 3},
        {"model__name": "other"},
        {"data__demo": {"seed": 1, "patients": 12}},
        {"benchmark__seed": 1},
        {"debug__permute_answers": True},
        {"eval__val_items": 10},
        {"callbacks__early_stopping": {"patience": 3}},
        {"benchmark": {"seed": 0, "a_later_setting": 1}},
    ],
)
def test_whatever_shapes_the_training_makes_another_recipe(write, change):
    groups, notes = pools(write("a"), write("b", seed=1, **change))
    assert (groups, notes) == ([["a"], ["b"]], [])


def test_the_seed_of_the_demo_is_no_seed_of_the_run(write):
    assert len(pools(write("a"), write("b", data__demo={"seed": 7, "patients": 12}))[0]) == 2


def test_without_the_run_the_files_of_the_adapter_decide_and_the_doubt_is_said(write):
    groups, notes = pools(write("a", run=False), write("b", run=False, seed=1))
    assert groups == [["a", "b"]]
    assert notes[0].endswith("without config.yaml, learning rate, steps and task mix are unseen")
    assert len(pools(write("c", run=False), write("d", run=False, seed=1, lora={"r": 2}))[0]) == 2
    assert len(pools(write("e"), write("f", run=False, seed=1))[0]) == 2


def test_one_seed_twice_is_not_pooled(write):
    groups, notes = pools(write("a"), write("b"), write("c", seed=1))
    assert groups == [["a"], ["b"], ["c"]]
    assert notes == ["not pooled, for seeds are unknown or alike though the recipe seems the same: a, b, c"]


def test_labels_are_unique_and_no_paths(tmp_path):
    names = ["x/0", "y/0", "z/1", "Run", "y/run", "p/q/0", "q/0"]
    labels = unique_labels([tmp_path / name for name in names])
    assert labels == ["x_0", "y_0", "1", f"{tmp_path.name}_Run", "y_run", "q_0", "q_0_2"]


def test_a_label_that_a_number_makes_is_not_given_twice(tmp_path):
    labels = unique_labels([tmp_path / name for name in ("a/r", "b/a/r", "a_r_2", "a_r")])
    assert len(set(labels)) == 4


def test_entries_are_judged_before_torch_is_imported():
    code = "import sys, medvl.training.run_record; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
