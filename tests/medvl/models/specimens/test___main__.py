"""The command builds what is named, and goes on after what cannot be built."""

import sys

from medvl.models.specimens import catalogue
from medvl.models.specimens.__main__ import main


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["specimens", *arguments])
    return main()


def test_it_writes_into_the_folder_it_is_given(monkeypatch, capsys, tmp_path):
    assert run(monkeypatch, "--out", str(tmp_path), "tiny_internvl") == 0
    assert (tmp_path / "tiny_internvl" / "config.json").is_file()
    assert capsys.readouterr().out.startswith(f"tiny_internvl: {tmp_path / 'tiny_internvl'}, ")


def test_without_a_folder_it_fills_the_cache(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("MEDVL_CACHE", str(tmp_path))
    assert run(monkeypatch, "tiny_internvl") == 0
    assert (tmp_path / "specimens" / catalogue._version() / "tiny_internvl" / "config.json").is_file()


def test_one_that_fails_does_not_stop_the_others(monkeypatch, capsys, tmp_path):
    assert run(monkeypatch, "--out", str(tmp_path), "tiny_bert", "tiny_internvl") == 5
    assert (tmp_path / "tiny_internvl" / "config.json").is_file()
    assert "no specimen 'tiny_bert'" in capsys.readouterr().err
