"""Specimens are found by name, kept whole in a cache, and refused with a reason."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from medvl.errors import ModelError
from medvl.models.specimens import SPECIMENS, build_specimen, catalogue, specimen_folder

CONF = Path(__file__).resolve().parents[4] / "conf" / "model"


@pytest.mark.parametrize("name", SPECIMENS)
def test_every_specimen_is_an_option_of_the_model_group(name):
    option = yaml.safe_load((CONF / f"{name}.yaml").read_text())
    assert option["name"] == name
    assert option["path"] == f"specimen:{name}"


def test_names_can_be_listed_without_loading_torch():
    code = "import sys, medvl.models.specimens as s; assert s.SPECIMENS; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_an_unknown_name_is_refused_with_the_known_ones(tmp_path):
    for attempt in (lambda: build_specimen("tiny_bert", tmp_path), lambda: specimen_folder("tiny_bert", tmp_path)):
        with pytest.raises(ModelError, match=r"no specimen 'tiny_bert'.*tiny_mllama.*tiny_smolvlm"):
            attempt()


def test_a_folder_with_files_is_never_written_into(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ModelError, match="name an empty or absent folder"):
        build_specimen("tiny_llava", tmp_path)
    with pytest.raises(ModelError, match="name an empty or absent folder"):
        build_specimen("tiny_llava", tmp_path / "notes.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_specimen_is_built_once(shelf, monkeypatch):
    folder = shelf.folder("tiny_llava")
    monkeypatch.setattr(catalogue, "build_specimen", None)  # would fail if it were called
    assert specimen_folder("tiny_llava", shelf.cache) == folder
    assert folder.name == "tiny_llava"
    assert (folder / "model.safetensors").is_file()
    assert not [path for path in folder.parent.iterdir() if path.name.startswith(".")]


def test_a_new_transformers_gets_its_own_specimens(monkeypatch):
    before = catalogue._version()
    assert before == catalogue._version()
    monkeypatch.setattr(catalogue, "version", lambda package: "99.0")
    assert catalogue._version() != before


def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setattr(catalogue, "build_specimen", lambda name, folder: folder.mkdir() or folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("MEDVL_CACHE", raising=False)
    assert specimen_folder("tiny_llava").is_relative_to(tmp_path / "xdg" / "medvl" / "specimens")
    monkeypatch.setenv("MEDVL_CACHE", str(tmp_path / "mine"))
    assert specimen_folder("tiny_llava").is_relative_to(tmp_path / "mine" / "specimens")


def test_a_build_that_breaks_off_leaves_nothing(monkeypatch, tmp_path):
    def broken(name, folder):
        folder.mkdir()
        (folder / "config.json").write_text("{")
        raise RuntimeError("killed")

    monkeypatch.setattr(catalogue, "build_specimen", broken)
    with pytest.raises(RuntimeError, match="killed"):
        specimen_folder("tiny_llava", tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert list((tmp_path / "specimens" / catalogue._version()).iterdir()) == []


def test_two_processes_that_build_at_once_end_with_one_folder(monkeypatch, tmp_path):
    def slow(name, folder):
        folder.mkdir()
        (folder / "config.json").write_text("ours")
        faster = tmp_path / "specimens" / catalogue._version() / name
        faster.mkdir()
        (faster / "config.json").write_text("theirs")
        return folder

    monkeypatch.setattr(catalogue, "build_specimen", slow)
    folder = specimen_folder("tiny_llava", tmp_path)
    assert (folder / "config.json").read_text() == "theirs"
    assert list(folder.parent.iterdir()) == [folder]


def test_a_cache_that_cannot_be_written_says_what_to_set(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ModelError, match="set MEDVL_CACHE to a folder"):
        specimen_folder("tiny_llava", tmp_path / "file")
