from dataclasses import replace
from io import StringIO

import pytest
from drawn_source import Shot, drawn_source, write_shots
from PIL import Image
from rich.console import Console

from medvl.benchmark.build import Recipe, build_benchmark
from medvl.benchmark.prepare import prepare_benchmark
from medvl.benchmark.store import write_benchmark
from medvl.cli.looking import check_command, open_benchmark, show_command, sources_command
from medvl.config.schema import BenchmarkConfig, BuildConfig, DataConfig, DemoConfig, PathsConfig
from medvl.errors import DataError, StorageError
from medvl.imaging.reading import pixel_hash, read_picture
from medvl.sources.record import Split, Task

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


@pytest.fixture
def planted(tmp_path):
    """Two sources; the second, wholly in test, holds copies of the first: two as they are, one brighter."""
    root = tmp_path / "root"
    labels = ("fetal head", "fetal thorax", "fetal abdomen", "maternal cervix")
    made = [Shot(f"{n:02d}", f"P{n}", n, {Task.PI: labels[n % 4]}) for n in range(24)]
    write_shots(root, "clinic", made)
    copies = [Shot(f"copy{n}", f"Q{n}", n, {Task.PI: labels[n % 4]}) for n in range(3)]
    write_shots(root, "mylab", copies)
    with Image.open(root / "mylab" / "copy2.png") as image:
        image.point(lambda level: level * 0.9 + 9).save(root / "mylab" / "copy2.png")
    official = [replace(shot, official=Split.TEST if n > 18 else Split.TRAIN) for n, shot in enumerate(made)]
    sources = [
        drawn_source("clinic", official, official=True),
        drawn_source("mylab", copies, published_pictures=3),
    ]
    built = build_benchmark(Recipe("planted", root, sources, BenchmarkConfig()), tmp_path / "planted")
    return built, root


def test_settled_leaks_are_listed_with_what_was_dropped_and_are_no_fault(planted, said):
    built, root = planted
    assert check_command(console(said), str(built.folder), root, pictures=True)
    text = said.getvalue()
    for part in ("leaks: 3", "near copy", "identical pixels", "dropped, 1 item", "mylab/copy0.png", "clinic/00.png"):
        assert part in text
    assert "leaks that the build settled by dropping: 3 pictures with 3 items (near copy 1, identical pixels 2)" in text
    assert "no near copies on two sides" in text
    assert "grey" in text
    for name in ("leaks.csv", "leaks-1.png"):
        assert str(built.folder / name) in text
        assert (built.folder / name).is_file()
    lines = (built.folder / "leaks.csv").read_text().splitlines()
    assert [line.split(",")[-1].split("-")[0] for line in lines[1:]] == ["clinic"] * 3


@pytest.mark.parametrize("pictures", [True, False])
def test_a_benchmark_that_leaks_across_its_split_fails(planted, said, pictures):
    built, root = planted
    train = next(i for i in built.items if i.split is Split.TRAIN)
    with Image.open(root / train.picture) as image:
        image.point(lambda level: level * 0.9 + 9).save(root / "near.png")
        image.save(root / "same.png")
    near = replace(
        train, item_id="near", picture="near.png", group="n", split=Split.TEST,
        sha256_pixels=pixel_hash(read_picture(root / "near.png")),
    )  # fmt: skip
    same = replace(train, item_id="same", picture="same.png", group="s", split=Split.TEST)
    items = [*built.items, near] if pictures else [*built.items, same]
    leaking = write_benchmark(built.folder.with_name("leaking"), items, built.card)
    assert not check_command(console(said), str(leaking.folder), root, pictures=pictures)
    text = said.getvalue()
    assert "still leaks" in text
    assert f"leaks that are still there: 1 picture ({'near copy' if pictures else 'identical pixels'} 1)" in text
    assert "FAULT" in text


def test_a_benchmark_without_leaks_says_so_and_writes_nothing(built, said):
    before = sorted(built.folder.iterdir())
    assert check_command(console(said), str(built.folder), None, pictures=False)
    assert "no leaks" in said.getvalue()
    assert sorted(built.folder.iterdir()) == before


def test_without_a_data_root_leaks_are_listed_and_no_pictures_drawn(planted, said):
    built, _ = planted
    assert check_command(console(said), str(built.folder), None, pictures=False)
    assert "--root" in said.getvalue()
    assert not list(built.folder.glob("*.png"))


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
