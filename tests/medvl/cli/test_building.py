from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from medvl.cli.building import build_command
from medvl.errors import ConfigError, DataError


@pytest.fixture
def said():
    return StringIO()


def build(said, *overrides):
    build_command(Console(file=said, width=200), list(overrides))


def test_it_says_what_each_source_gave_where_it_lies_and_what_comes_next(said, tmp_path, mini_hc18):
    root = mini_hc18.parent
    build(said, f"paths.data={tmp_path / 'data'}", "data=fetal_gauge", f"data.root={root}", "data.sources=[hc18]")
    text = said.getvalue()
    (folder,) = (p for p in (tmp_path / "data" / "benchmarks").iterdir() if p.is_dir())
    assert "hc18" in text
    assert str(folder) in text
    assert f"medvl check {folder}\n" in text
    (census,) = (line for line in text.splitlines() if "grey" in line)
    assert "hc18 5" in census


def test_a_benchmark_in_the_usual_place_is_called_by_its_name(said, tmp_path, mini_hc18, monkeypatch):
    (tmp_path / "conf").symlink_to(Path(__file__).parents[3] / "conf")
    monkeypatch.chdir(tmp_path)
    build(said, "data=fetal_gauge", f"data.root={mini_hc18.parent}", "data.sources=[hc18]")
    (folder,) = (p for p in (tmp_path / "data" / "benchmarks").iterdir() if p.is_dir())
    assert f"medvl check {folder.name}\n" in said.getvalue()


def test_a_root_without_datasets_says_what_was_looked_for(said, tmp_path):
    with pytest.raises(DataError, match="HC18"):
        build(said, f"paths.data={tmp_path}", "data=fetal_gauge", f"data.root={tmp_path}", "data.sources=[hc18]")


def test_an_override_that_does_not_exist_is_refused(said):
    with pytest.raises(ConfigError, match="trainer"):
        build(said, "trainer.max_steps=3")
    assert said.getvalue() == ""
