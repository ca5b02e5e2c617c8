import dataclasses
import multiprocessing
import os
import signal
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvl.answering import store as module
from medvl.answering.prediction import Prediction, Scoring
from medvl.answering.store import AnswerStore, asking_key
from medvl.errors import StorageError

ABOUT = {
    "base": "b" * 16,
    "adapter": "a" * 16,
    "processor": "p",
    "prompt": "q",
    "dtype": "float32",
    "scoring": "letter",
}


def answer(number: int, letter: str | None = "A") -> Prediction:
    return Prediction(
        item_id=f"i{number}",
        item_fingerprint=f"{number:016x}",
        answer=letter,
        option_logprobs=(-0.1, -2.5, -9.0),
        outside_mass=0.01,
        raw_text="",
        rule="argmax",
        scoring=Scoring.LETTER,
        latency_s=0.5,
    )


def test_what_was_added_is_there_for_the_next_process(tmp_path):
    AnswerStore(tmp_path, ABOUT).add([answer(1), answer(2, None)])
    AnswerStore(tmp_path, ABOUT).add([answer(3, "C")])
    kept = AnswerStore(tmp_path, ABOUT).answers()
    assert kept == {a.item_fingerprint: a for a in (answer(1), answer(2, None), answer(3, "C"))}


def test_only_the_wanted_answers_are_given(tmp_path):
    store = AnswerStore(tmp_path, ABOUT)
    assert store.answers() == {}
    store.add([answer(1), answer(2)])
    assert set(store.answers([answer(2).item_fingerprint, "gone"])) == {answer(2).item_fingerprint}


@pytest.mark.parametrize("changed", ABOUT)
def test_another_way_of_asking_shares_nothing(tmp_path, changed):
    AnswerStore(tmp_path, ABOUT).add([answer(1)])
    assert AnswerStore(tmp_path, {**ABOUT, changed: "other"}).answers() == {}


def test_the_order_of_the_facts_does_not_matter():
    assert asking_key(ABOUT) == asking_key(dict(reversed(ABOUT.items())))


@given(st.dictionaries(st.text(), st.text()), st.dictionaries(st.text(), st.text()))
def test_keys_differ_where_facts_differ(one, other):
    assert (asking_key(one) == asking_key(other)) == (one == other)


def test_the_first_of_two_answers_to_one_item_stands_once(tmp_path):
    store = AnswerStore(tmp_path, ABOUT)
    store.add([answer(1, "A"), answer(2)])
    store.add([answer(1, "A")])
    assert len(store.answers()) == 2


@pytest.mark.parametrize("content", [b"", b"PAR1", None])
def test_a_torn_part_is_set_aside_and_its_items_are_asked_again(tmp_path, content):
    store = AnswerStore(tmp_path, ABOUT)
    store.add([answer(1)])
    (torn,) = store.folder.glob("part-*.parquet")
    torn.write_bytes(torn.read_bytes()[:-20] if content is None else content)
    store.add([answer(2)])
    assert set(store.answers()) == {answer(2).item_fingerprint}
    assert store.unreadable == [torn.name]
    assert AnswerStore(tmp_path, ABOUT).unreadable == []


def test_many_parts_become_one_without_loss(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MANY_PARTS", 3)
    store = AnswerStore(tmp_path, ABOUT)
    for number in range(9):
        store.add([answer(number)])
    kept = store.answers()
    assert len(kept) == 9
    assert len(list(store.folder.glob("part-*"))) == 1
    assert store.answers() == kept


def test_a_full_disk_is_said_and_harms_nothing(tmp_path, monkeypatch):
    store = AnswerStore(tmp_path, ABOUT)
    store.add([answer(1)])

    def full(*args):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(
            StorageError, match=r"cannot keep 1 answers in .*No space left on device.*kept before are safe"
        ):
            store.add([answer(2)])
    assert not list(store.folder.glob(".*partial"))
    store.add([answer(3)])
    assert set(store.answers()) == {answer(1).item_fingerprint, answer(3).item_fingerprint}


def test_a_folder_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot make"):
        AnswerStore(tmp_path / "file", ABOUT)


def test_the_folder_says_what_it_is_about(tmp_path):
    store = AnswerStore(tmp_path, ABOUT)
    assert '"dtype": "float32"' in (store.folder / "about.json").read_text()


def _keep_adding(root, first):
    store = AnswerStore(root, ABOUT)
    for number in range(first, first + 10_000):
        store.add([dataclasses.replace(answer(number))])


def test_a_writer_that_is_killed_leaves_whole_parts(tmp_path):
    writers = [
        multiprocessing.get_context("spawn").Process(target=_keep_adding, args=(tmp_path, n)) for n in (0, 10**6)
    ]
    for writer in writers:
        writer.start()
    store = AnswerStore(tmp_path, ABOUT)
    deadline = time.monotonic() + 60
    while len(list(store.folder.glob("part-*"))) < 20 and time.monotonic() < deadline:
        time.sleep(0.01)
    for writer in writers:
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
    kept = store.answers()
    assert len(kept) >= 20
    assert store.unreadable == []
