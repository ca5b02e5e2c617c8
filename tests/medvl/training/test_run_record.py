"""An adapter is judged with what it was trained with, unless the command line says otherwise."""

import json

import pytest

from medvl.config.entry import Job
from medvl.config.schema import EvaluateConfig
from medvl.errors import ModelError
from medvl.training.run_record import check_same, recorded_config, with_run_record

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


@pytest.fixture
def adapter(tmp_path):
    folder = tmp_path / "adapter"
    folder.mkdir()
    (folder / "adapter_config.json").write_text("{}")
    trained = _composed(
        seed=5,
        model={"name": "other", "path": "/models/other"},
        data={"name": "mine", "root": "/data/mine", "sources": ["hc18"], "num_workers": 0},
    )
    record = {"base": "other", "fingerprints": {**PRINTS, "adapter": "a"}, "config": recorded_config(trained)}
    (folder / "medvl.json").write_text(json.dumps(record))
    return folder


def _job(adapter, overrides, **changes):
    composed = _composed(adapter=str(adapter), split="test", **changes)
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
