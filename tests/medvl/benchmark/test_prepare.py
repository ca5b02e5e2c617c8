import pytest

from medvl.benchmark.prepare import benchmark_folder, prepare_benchmark, stored_root
from medvl.config.schema import BuildConfig, DataConfig, DemoConfig, PathsConfig
from medvl.errors import ConfigError


def config(tmp_path, **data):
    facts = {"name": "demo", "root": str(tmp_path / "demo"), "sources": ["demo"], "demo": DemoConfig(patients=3)}
    return BuildConfig(data=DataConfig(**{**facts, **data}), paths=PathsConfig(data=str(tmp_path / "data"), run=""))


def test_the_demo_is_drawn_and_built_and_the_second_time_read_back(tmp_path):
    seen = []
    first = prepare_benchmark(config(tmp_path), lambda what, done, total: seen.append(what))
    assert "drawing the demo pictures" in seen
    assert first.folder == benchmark_folder(config(tmp_path))
    seen.clear()
    assert prepare_benchmark(config(tmp_path), lambda what, done, total: seen.append(what)) == first
    assert seen == []


def test_the_data_root_is_noted_beside_the_card_and_not_in_it(tmp_path):
    built = prepare_benchmark(config(tmp_path))
    assert stored_root(built.folder) == tmp_path / "demo"
    assert str(tmp_path) not in (built.folder / "card.json").read_text()
    assert stored_root(tmp_path) is None


def test_an_unknown_source_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="hc_18"):
        prepare_benchmark(config(tmp_path, sources=["hc_18"]))


def test_a_held_out_source_must_be_one_of_those_built(tmp_path):
    facts = config(tmp_path).model_dump()
    facts["benchmark"]["split"]["test_sources"] = ["hc18"]
    with pytest.raises(ValueError, match=r"not among data\.sources"):
        BuildConfig.model_validate(facts)
