import os
import sqlite3
from dataclasses import replace

import pytest
from drawn_source import draw

from medvl.benchmark import pictures, store
from medvl.benchmark.build import Recipe, build_benchmark
from medvl.benchmark.pictures import read_records
from medvl.benchmark.readings import Readings, reading_key
from medvl.config.schema import BenchmarkConfig, BoxConfig
from medvl.sources.fetal_planes_db import FETAL_PLANES_DB
from medvl.sources.hc18 import HC18
from medvl.sources.record import Domain, MaskFile, Record, Structure


@pytest.fixture
def records(tmp_path):
    made = []
    for number in range(6):
        path = tmp_path / f"{number}.png"
        draw(path, number)
        boxes = (Structure("heart", (1.0, 2.0, 10.0, 12.0)),)
        made.append(Record("s", path.stem, path, "g", Domain.CLINICAL, structures=boxes))
    return made


@pytest.fixture
def counted(monkeypatch):
    """Paths of the pictures that were decoded."""
    seen = []
    real = pictures.read_picture_noted
    monkeypatch.setattr(pictures, "read_picture_noted", lambda path, frame: seen.append(path.stem) or real(path, frame))
    return seen


def read(records, database, boxes=None):
    with Readings(database) as readings:
        return read_records(records, boxes or BoxConfig(), readings=readings)


def test_what_was_read_comes_back_the_same_without_reading(records, tmp_path, counted):
    database = tmp_path / "readings.sqlite"
    first = read(records, database)
    counted.clear()
    assert read(records, database) == first
    assert counted == []


def test_only_a_changed_picture_is_read_again(records, tmp_path, counted):
    database = tmp_path / "readings.sqlite"
    read(records, database)
    counted.clear()
    draw(records[2].picture, 77)
    again, _ = read(records, database)
    assert counted == ["2"]
    assert again == read_records(records, BoxConfig())[0]


def test_a_build_that_is_cut_off_goes_on_where_it_was(records, tmp_path, counted, monkeypatch):
    database = tmp_path / "readings.sqlite"
    monkeypatch.setattr("medvl.benchmark.readings.SAVE_EVERY", 1)

    def cut_off(done, total):
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Readings(database) as readings:
        read_records(records, BoxConfig(), cut_off, threads=1, readings=readings)
    counted.clear()
    read(records, database)
    assert len(counted) <= 3


@pytest.fixture
def build_in(mini_hc18, mini_fetal_planes, tmp_path, monkeypatch):
    """Builds two miniatures into a folder of a name, and returns the bytes of the items."""

    def build(name, threads=2, progress=None):
        monkeypatch.setattr(pictures, "MOST_THREADS", threads)
        monkeypatch.setattr(pictures.os, "cpu_count", lambda: 8)
        recipe = Recipe("b", tmp_path, [HC18, FETAL_PLANES_DB], BenchmarkConfig())
        return (build_benchmark(recipe, tmp_path / name / "built", progress).folder / "items.parquet").read_bytes()

    return build


def test_items_are_the_same_bytes_whatever_the_number_of_threads(build_in):
    assert build_in("one", threads=1) == build_in("two", threads=2) == build_in("many", threads=8)


def test_items_of_a_build_that_was_interrupted_and_goes_on_are_the_same_bytes(build_in, counted, monkeypatch):
    whole = build_in("whole")
    everything = len(counted)

    def interrupt(source, done, total):
        if (source, done) == ("fetal_planes_db", 9):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_in("cut", progress=interrupt)
    real = store._swap_in
    monkeypatch.setattr(store, "_swap_in", lambda new, folder: interrupt("fetal_planes_db", 9, 0))
    with pytest.raises(KeyboardInterrupt):
        build_in("cut")
    monkeypatch.setattr(store, "_swap_in", real)
    counted.clear()
    assert build_in("cut") == whole
    assert len(counted) == 0 < everything


def test_a_second_build_reads_only_the_picture_that_changed(build_in, mini_fetal_planes, counted):
    first = build_in("one")
    counted.clear()
    assert build_in("one") == first
    assert counted == []
    draw(mini_fetal_planes / "Images" / "Patient00001_Plane5_1_of_1.png", 77)
    assert build_in("one") != first
    assert counted == ["Patient00001_Plane5_1_of_1"]


def test_a_broken_picture_is_not_kept(records, tmp_path):
    database = tmp_path / "readings.sqlite"
    whole = records[0].picture.read_bytes()
    records[0].picture.write_bytes(whole[:-30])
    assert len(read(records, database)[1]) == 1
    records[0].picture.write_bytes(whole)
    os.utime(records[0].picture, ns=(1, 1))
    assert read(records, database)[1] == []


@pytest.mark.parametrize(
    "change",
    [
        {"frame": 1},
        {"structures": (Structure("heart", (1.0, 2.0, 10.0, 13.0)),)},
        {"structures": ()},
    ],
)
def test_a_reading_belongs_to_frame_and_structures(records, change):
    assert reading_key(replace(records[0], **change), BoxConfig()) != reading_key(records[0], BoxConfig())


def test_a_reading_belongs_to_masks_and_to_the_box_rule(records):
    def key(mask, boxes=None):
        return reading_key(replace(records[0], structures=(Structure("a", mask=mask),)), boxes or BoxConfig())

    plain = MaskFile(records[1].picture)
    others = [replace(plain, value=2), replace(plain, is_outline=True), replace(plain, colour=(0, 255, 0))]
    others += [replace(plain, frame=3), replace(plain, array="a/b"), replace(plain, may_be_empty=True)]
    keys = {key(plain), *map(key, others), key(plain, BoxConfig(per="component"))}
    assert len(keys) == 8
    before = key(plain)
    draw(records[1].picture, 99)
    assert key(plain) != before


def test_groups_and_labels_are_no_part_of_it(records):
    assert reading_key(replace(records[0], group="other", labels={}), BoxConfig()) == reading_key(
        records[0], BoxConfig()
    )


def test_a_damaged_database_is_started_anew(records, tmp_path):
    database = tmp_path / "readings.sqlite"
    database.write_bytes(b"no database at all" * 100)
    assert len(read(records, database)[0]) == 6
    with sqlite3.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM readings").fetchone() == (6,)


def test_without_a_place_nothing_is_kept(records, tmp_path):
    before = sorted(tmp_path.iterdir())
    assert len(read(records, None)[0]) == 6
    assert sorted(tmp_path.iterdir()) == before
