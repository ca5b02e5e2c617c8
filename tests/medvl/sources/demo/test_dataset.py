import csv
import json

import cv2
import numpy as np
import pytest

from medvl.errors import StorageError
from medvl.sources.demo import demo_is_current, write_demo_dataset
from medvl.sources.demo.dataset import MASK_COLUMNS, PICTURE_COLUMNS


def _bytes(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def _rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "dataset"
    write_demo_dataset(folder, seed=1, patients=4)
    return folder


def test_the_same_seed_writes_the_same_bytes_and_another_seed_others(folder, tmp_path):
    write_demo_dataset(tmp_path / "again", seed=1, patients=4)
    write_demo_dataset(tmp_path / "other", seed=2, patients=4)
    assert _bytes(tmp_path / "again") == _bytes(folder)
    assert _bytes(tmp_path / "other") != _bytes(folder)


def test_tables_and_files_belong_together(folder):
    pictures, masks = _rows(folder / "pictures.csv"), _rows(folder / "masks.csv")
    assert tuple(pictures[0]) == PICTURE_COLUMNS
    assert tuple(masks[0]) == MASK_COLUMNS
    assert {row["picture"] for row in pictures} == {f"pictures/{p.name}" for p in (folder / "pictures").iterdir()}
    assert {row["mask"] for row in masks} == {f"masks/{p.name}" for p in (folder / "masks").iterdir()}
    assert {row["style"] for row in pictures} <= {"clinical", "phantom"}


def test_pictures_are_grey_and_masks_fit_them(folder):
    for row in _rows(folder / "masks.csv"):
        picture = cv2.imread(str(folder / row["picture"]), cv2.IMREAD_UNCHANGED)
        mask = cv2.imread(str(folder / row["mask"]), cv2.IMREAD_UNCHANGED)
        assert picture.ndim == 2
        assert picture.dtype == np.uint8
        assert mask.shape == picture.shape
        assert set(np.unique(mask)) == {0, 255}


def test_progress_counts_every_picture(tmp_path):
    seen = []
    write_demo_dataset(tmp_path / "d", patients=1, progress=lambda done, total: seen.append((done, total)))
    total = len(_rows(tmp_path / "d" / "pictures.csv"))
    assert seen == [(n, total) for n in range(1, total + 1)]


def test_the_dataset_is_current_for_its_own_version_seed_and_size_only(folder, tmp_path):
    assert demo_is_current(folder, seed=1, patients=4)
    assert not demo_is_current(folder, seed=2, patients=4)
    assert not demo_is_current(folder, seed=1, patients=5)
    assert not demo_is_current(tmp_path, seed=1, patients=4)
    old = tmp_path / "old"
    old.mkdir()
    (old / "demo.json").write_text(json.dumps({"version": 0, "seed": 1, "patients": 4}))
    assert not demo_is_current(old, seed=1, patients=4)
    (old / "demo.json").write_text("{broken")
    assert not demo_is_current(old, seed=1, patients=4)


def test_an_interrupted_write_leaves_nothing_behind(tmp_path):
    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_demo_dataset(tmp_path / "d", patients=1, progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_rewrite_keeps_the_old_dataset(tmp_path):
    def stop(done, total):
        raise KeyboardInterrupt

    write_demo_dataset(tmp_path / "d", seed=1, patients=1)
    before = _bytes(tmp_path / "d")
    with pytest.raises(KeyboardInterrupt):
        write_demo_dataset(tmp_path / "d", seed=2, patients=1, progress=stop)
    assert _bytes(tmp_path / "d") == before
    assert [p.name for p in tmp_path.iterdir()] == ["d"]


def test_a_rewrite_replaces_the_old_dataset(tmp_path):
    write_demo_dataset(tmp_path / "d", seed=1, patients=2)
    write_demo_dataset(tmp_path / "d", seed=1, patients=1)
    assert demo_is_current(tmp_path / "d", seed=1, patients=1)
    assert len(list((tmp_path / "d" / "pictures").iterdir())) == len(_rows(tmp_path / "d" / "pictures.csv"))
    assert [p.name for p in tmp_path.iterdir()] == ["d"]


def test_an_empty_folder_is_filled(tmp_path):
    (tmp_path / "d").mkdir()
    write_demo_dataset(tmp_path / "d", patients=1)
    assert demo_is_current(tmp_path / "d", patients=1)


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StorageError, match="already holds something else"):
        write_demo_dataset(tmp_path, patients=1)
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_a_refused_write_names_the_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="could not be written to"):
        write_demo_dataset(tmp_path / "file" / "d", patients=1)
