from io import StringIO

import pytest
from PIL import Image
from rich.console import Console

from medvl.benchmark.prepare import prepare_benchmark
from medvl.cli.looking import check_command, open_benchmark, show_command, sources_command
from medvl.config.schema import BuildConfig, DataConfig, DemoConfig, PathsConfig
from medvl.errors import DataError, StorageError

EVERYTHING = {"task": None, "source": None, "split": None, "tier": None}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    data = DataConfig(name="demo", root=str(home / "demo"), sources=["demo"], demo=DemoConfig(patients=6))
    return prepare_benchmark(BuildConfig(data=data, paths=PathsConfig(data=str(home / "data"), run="")))


@pytest.fixture
def said():
    return StringIO()


def console(said):
    return Console(file=said, width=200)


def test_a_sound_benchmark_passes_every_check(built, said):
    assert check_command(console(said), str(built.folder), None, pictures=True)
    assert "pictures are those that the benchmark was built from" in said.getvalue()


def test_pictures_elsewhere_than_said_are_a_fault(built, said, tmp_path):
    assert not check_command(console(said), str(built.folder), tmp_path, pictures=True)
    assert "FAULT" in said.getvalue()


def test_a_sheet_is_written_from_the_root_it_was_built_from(built, said, tmp_path):
    show_command(
        console(said), str(built.folder), None, EVERYTHING, count=4, seed=0, side_px=96, out=tmp_path / "s.png"
    )
    with Image.open(tmp_path / "s.png") as image:
        assert image.mode == "RGB"
    assert "4 items" in said.getvalue()


def test_a_place_that_cannot_be_written_is_said(built, said, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="--out"):
        show_command(
            console(said),
            str(built.folder),
            None,
            EVERYTHING,
            count=1,
            seed=0,
            side_px=None,
            out=tmp_path / "file" / "s",
        )


def test_a_name_is_looked_for_below_the_data_folder(built, monkeypatch):
    monkeypatch.chdir(built.folder.parents[2])
    assert open_benchmark(built.folder.name).items == built.items
    with pytest.raises(DataError, match=f"{built.folder.name}"):
        open_benchmark(built.folder.name[:-1] + "x")


def test_sources_say_where_they_lie(said, mini_hc18):
    sources_command(console(said), mini_hc18.parent)
    lines = {line.split("│")[1].strip(): line for line in said.getvalue().splitlines() if line.count("│") > 3}
    assert mini_hc18.name in lines["hc18"].split("│")[-2]
    assert lines["fpus23"].split("│")[-2].strip() == "-"
