import json

import pytest

from medvl.errors import ModelError
from medvl.models.record import read_record, write_record

RECORD = {"base": "tiny", "fingerprints": {"base": "b", "adapter": "a"}, "config": {"model": {"name": "tiny"}}}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "adapter_config.json").write_text("{}")
    return tmp_path


def test_what_is_written_is_read(folder):
    write_record(folder, RECORD)
    assert read_record(folder) == RECORD


def test_a_folder_without_adapter_is_refused(tmp_path):
    with pytest.raises(ModelError, match="holds no adapter"):
        read_record(tmp_path / "gone")


def test_an_adapter_without_record_is_refused(folder):
    with pytest.raises(ModelError, match=r"holds an adapter but no medvl\.json"):
        read_record(folder)


@pytest.mark.parametrize("lost", ["base", "fingerprints", "config"])
def test_a_record_without_a_part_is_refused(folder, lost):
    write_record(folder, {name: value for name, value in RECORD.items() if name != lost})
    with pytest.raises(ModelError, match="is not a run record"):
        read_record(folder)


@pytest.mark.parametrize(
    "content", [b"", b"[1]", b"{", b"\xff", json.dumps({**RECORD, "fingerprints": {"base": "b"}}).encode()]
)
def test_a_record_that_cannot_be_read_is_refused(folder, content):
    (folder / "medvl.json").write_bytes(content)
    with pytest.raises(ModelError, match="is not a run record"):
        read_record(folder)


def test_a_run_that_has_not_finished_is_said_to_be_the_reason(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"status": "interrupted"}))
    with pytest.raises(ModelError, match=r"the run .* is interrupted; say adapter=RUN/adapter"):
        read_record(tmp_path / "adapter")
