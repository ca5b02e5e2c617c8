"""An adapter is judged with what it was trained with, unless the command line says otherwise."""

import json

import pytest

from medvl.config.entry import Job
from medvl.config.schema import EvaluateConfig
from medvl.errors import ModelError
from medvl.training.run_record import check_same, model_of, models_of, recorded_config, with_run_record

PRINTS = {"benchmark": "b", "base": "w", "processor": "p", "prompt": "q", "dtype": "float32"}


def _composed(**changes):
    values = {
        "seed": 0,
        "name": "x",
        "model": {"name": "tiny", "path": "builtin:tiny"},
        "data": {"name": "demo", "root": "data/demo", "sources": ["demo"], "num_workers": 0},
        "benchmark": {"seed": 0},
        "eval": {"batch_size": 32},
        "debug": {"overfit_items": None},
        "paths": {"run": "run"},
        "lora": {"r": 8},
    }
    return {**values, **changes}


def _write(folder, model="other", seed=5, weights="a"):
    folder.mkdir()
    (folder / "adapter_config.json").write_text("{}")
    (folder / "adapter_model.safetensors").touch()
    trained = _composed(
        seed=seed,
        model={"name": model, "path": f"/models/{model}"},
        data={"name": "mine", "root": "/data/mine", "sources": ["hc18"], "num_workers": 0},
    )
    record = {"base": model, "fingerprints": {**PRINTS, "adapter": weights}, "config": recorded_config(trained)}
    (folder / "medvl.json").write_text(json.dumps(record))
    return folder


@pytest.fixture
def adapter(tmp_path):
    return _write(tmp_path / "adapter")


@pytest.fixture
def second(tmp_path):
    """An adapter on another base."""
    return _write(tmp_path / "second", model="larger", seed=6, weights="b")


def _job(adapter, overrides, **changes):
    composed = _composed(**{"adapter": None if adapter is None else str(adapter), "split": "test", **changes})
    del composed["lora"]
    return Job(EvaluateConfig.model_validate(composed), composed, overrides)


def test_base_data_and_seed_come_from_the_record(adapter):
    config = with_run_record(_job(adapter, [f"adapter={adapter}"])).config
    assert (config.model.path, config.data.root, config.seed) == ("/models/other", "/data/mine", 5)


def test_a_group_on_the_command_line_wins_whole(adapter):
    config = with_run_record(_job(adapter, ["data=demo"])).config
    assert (config.data.name, config.data.root, config.model.name) == ("demo", "data/demo", "other")


def test_a_single_value_on_the_command_line_changes_the_recorded_node(adapter):
    data = {"name": "demo", "root": "data/demo", "sources": ["demo"], "num_workers": 2}
    config = with_run_record(_job(adapter, ["data.num_workers=2"], data=data)).config
    assert (config.data.name, config.data.num_workers) == ("mine", 2)


def test_zero_shot_needs_no_record(adapter):
    job = _job(adapter, [])
    alone = Job(job.config.model_copy(update={"adapter": None}), job.composed, [])
    assert with_run_record(alone) is alone


def test_the_same_fingerprints_pass(adapter):
    assert check_same(adapter, PRINTS, []) == "a"


@pytest.mark.parametrize("name", list(PRINTS))
def test_each_difference_is_refused_by_name(adapter, name):
    with pytest.raises(ModelError, match=f"{name}: trained with {PRINTS[name]}, now changed"):
        check_same(adapter, {**PRINTS, name: "changed"}, [])


def test_another_benchmark_passes_when_it_was_asked_for(adapter):
    assert check_same(adapter, {**PRINTS, "benchmark": "changed"}, ["data=demo"]) == "a"
    with pytest.raises(ModelError, match="prompt"):
        check_same(adapter, {**PRINTS, "prompt": "changed"}, ["data=demo"])


def test_several_adapters_are_asked_what_the_record_of_the_first_says_each_on_its_own_base(adapter, second):
    job = with_run_record(_job(None, [], compare=[str(second), str(adapter)]))
    assert (job.config.seed, job.config.data.name, job.config.model.name) == (6, "mine", "larger")
    assert model_of(job, adapter).path == "/models/other"
    assert [model.name for model in models_of(job)] == ["larger", "other"]


def test_the_baseline_is_loaded_too_and_each_base_is_named_once(adapter, second, tmp_path):
    third = _write(tmp_path / "third", weights="c")
    job = with_run_record(_job(second, [], compare=[str(adapter), str(third)]))
    assert (job.config.seed, job.config.model.name) == (5, "other")
    assert [model.name for model in models_of(job)] == ["other", "larger"]


def test_a_base_on_the_command_line_is_that_of_all(adapter, second):
    model = {"name": "moved", "path": "/moved"}
    job = with_run_record(_job(None, ["model=moved"], compare=[str(adapter), str(second)], model=model))
    assert [model.path for model in models_of(job)] == ["/moved"]


def test_one_adapter_needs_one_base(adapter):
    job = with_run_record(_job(adapter, []))
    assert models_of(job) == [job.config.model]
