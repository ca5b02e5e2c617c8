from pathlib import Path

import pytest

from medvl.config.composing import compose_config, find_conf
from medvl.config.schema import BuildConfig
from medvl.errors import ConfigError

CONF = Path(__file__).resolve().parents[3] / "conf"


def test_a_configuration_is_composed_and_typed_without_a_running_application():
    config = compose_config("build", BuildConfig, ["data=demo", "benchmark.leaks=fail"], CONF)
    assert isinstance(config, BuildConfig)
    assert (config.data.name, config.benchmark.leaks) == ("demo", "fail")
    assert config.paths.run == ""


def test_every_problem_comes_in_one_message():
    with pytest.raises(ConfigError) as caught:
        compose_config("build", BuildConfig, ["benchmark.leeks=fail", "benchmark.seed=-1"], CONF)
    assert "leeks" in str(caught.value)
    assert "benchmark.seed" in str(caught.value)


def test_the_folder_of_options_is_the_one_where_the_command_is_run(tmp_path, monkeypatch):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "build.yaml").touch()
    monkeypatch.chdir(tmp_path)
    assert find_conf() == tmp_path / "conf"


def test_elsewhere_it_is_the_one_of_the_project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_conf() == CONF
