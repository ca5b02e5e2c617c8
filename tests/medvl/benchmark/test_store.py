import errno
import json
import os
import threading
from pathlib import Path

import pytest
from made_item import made_item

from medvl.benchmark import store
from medvl.benchmark.item import ITEM_SCHEMA, items_to_frame
from medvl.benchmark.store import read_benchmark, read_card, stored_inputs, write_benchmark
from medvl.errors import DataError, StorageError
from medvl.sources.record import Split, Task

CARD = {"name": "b", "settings": {}, "sources": {}, "counts": [], "fingerprints": {"inputs": "abc"}}
ITEMS = [made_item("1"), made_item("2", task=Task.VG, split=Split.TEST), made_item("3", frame=4)]


@pytest.fixture
def folder(tmp_path):
    write_benchmark(tmp_path / "b", ITEMS, CARD)
    return tmp_path / "b"


def edit_card(folder: Path, **changes) -> None:
    card = json.loads((folder / "card.json").read_text())
    (folder / "card.json").write_text(json.dumps({**card, **changes}))


def test_what_is_written_is_read(folder):
    read = read_benchmark(folder)
    assert read.items == ITEMS
    assert read == write_benchmark(folder, ITEMS, CARD)
    assert stored_inputs(folder) == "abc"


def test_the_same_items_give_the_same_bytes(folder, tmp_path):
    write_benchmark(tmp_path / "c", ITEMS, CARD)
    for name in ("items.parquet", "card.json"):
        assert (folder / name).read_bytes() == (tmp_path / "c" / name).read_bytes()


def test_the_fingerprint_knows_order_no_but_split_and_question_yes(folder, tmp_path):
    same = write_benchmark(tmp_path / "c", ITEMS[::-1], CARD).fingerprint
    moved = write_benchmark(tmp_path / "d", [*ITEMS[:2], made_item("3", frame=4, split=Split.VAL)], CARD).fingerprint
    assert same == read_benchmark(folder).fingerprint != moved


def test_an_older_benchmark_is_replaced_and_nothing_else_left(folder):
    write_benchmark(folder, ITEMS[:1], CARD)
    assert read_benchmark(folder).items == ITEMS[:1]
    assert os.listdir(folder.parent) == ["b"]


def test_a_folder_that_is_no_benchmark_is_never_replaced(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("years of work")
    with pytest.raises(DataError, match="holds no benchmark"):
        write_benchmark(tmp_path / "thesis", ITEMS, CARD)
    assert (tmp_path / "thesis" / "chapter.tex").read_text() == "years of work"


def test_two_items_of_one_id_are_refused(tmp_path):
    with pytest.raises(DataError, match="two items have the id 1"):
        write_benchmark(tmp_path / "b", [ITEMS[0], made_item("1")], CARD)
    assert os.listdir(tmp_path) == []


def test_a_cut_table_is_refused(folder):
    path = folder / "items.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"changed or cut short.*delete the folder"):
        read_benchmark(folder)


@pytest.mark.parametrize("change", [{"name": "c"}, {"sources": {"s": {"redistributable": True}}}, {"extra": 1}])
def test_an_edited_card_is_refused(folder, change):
    edit_card(folder, **change)
    with pytest.raises(DataError, match="edited"):
        read_benchmark(folder)


def test_an_edited_fingerprint_is_refused(folder):
    prints = json.loads((folder / "card.json").read_text())["fingerprints"]
    edit_card(folder, fingerprints={**prints, "items": "0" * 16})
    with pytest.raises(DataError, match="edited"):
        read_benchmark(folder)


@pytest.mark.parametrize("version", [1, None, "2", 99])
def test_another_version_is_refused_on_read_and_built_anew(folder, version):
    edit_card(folder, schema_version=version)
    with pytest.raises(DataError, match=f"schema version {version}, this medvl reads {store.SCHEMA_VERSION}"):
        read_benchmark(folder)
    assert stored_inputs(folder) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b'{"schema_version": 2', b"\xff\xfe{"])
def test_a_card_that_is_no_card_is_refused(folder, content):
    (folder / "card.json").write_bytes(content)
    with pytest.raises(DataError, match=r"card\.json"):
        read_card(folder)


@pytest.mark.parametrize("key", ["counts", "fingerprints", "name"])
def test_a_card_without_a_key_says_which(folder, key):
    card = json.loads((folder / "card.json").read_text())
    del card[key]
    (folder / "card.json").write_text(json.dumps(card))
    with pytest.raises(DataError, match=f"lacks {key}"):
        read_card(folder)


def test_fingerprints_that_are_incomplete_are_named(folder):
    edit_card(folder, fingerprints={"items": "x"})
    with pytest.raises(DataError, match=r"lacks fingerprints\.items_file_sha256"):
        read_card(folder)


@pytest.mark.parametrize("name", ["items.parquet", "card.json"])
def test_an_absent_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(DataError, match=name):
        read_benchmark(folder)


def test_a_table_with_other_columns_is_refused_even_when_the_card_fits(folder, monkeypatch):
    monkeypatch.setattr(store, "items_to_frame", lambda items: items_to_frame(items).drop("group"))
    write_benchmark(folder, ITEMS, CARD)
    with pytest.raises(DataError, match="has columns") as caught:
        read_benchmark(folder)
    assert str(list(ITEM_SCHEMA)) in str(caught.value)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("when", ["write_bytes", "write_text", "mkdir"])
def test_a_refused_write_leaves_the_older_benchmark_as_it_was(folder, monkeypatch, code, when):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def refuse(self, *args, **kwargs):
        raise OSError(code, os.strerror(code), str(self))

    with monkeypatch.context() as patch:
        patch.setattr(Path, when, refuse)
        with pytest.raises(StorageError, match=os.strerror(code)):
            write_benchmark(folder, ITEMS[:1], CARD)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert os.listdir(folder.parent) == ["b"]


def test_a_file_in_the_way_is_a_storage_error(tmp_path):
    (tmp_path / "b").write_text("")
    with pytest.raises(StorageError, match="Not a directory"):
        write_benchmark(tmp_path / "b", ITEMS, CARD)


def test_several_writers_of_one_benchmark_do_not_disturb_each_other(folder):
    failures: list[BaseException] = []

    def write():
        try:
            for _ in range(10):
                write_benchmark(folder, ITEMS, CARD)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert read_benchmark(folder).items == ITEMS
    assert os.listdir(folder.parent) == ["b"]


def test_the_folder_honours_the_umask(tmp_path):
    before = os.umask(0o077)
    try:
        write_benchmark(tmp_path / "b", ITEMS, CARD)
    finally:
        os.umask(before)
    assert (tmp_path / "b").stat().st_mode & 0o077 == 0
    assert (tmp_path / "b" / "items.parquet").stat().st_mode & 0o077 == 0
