from dataclasses import replace

import polars as pl
import pytest
from mini_items import make_item
from written_run import ITEMS, PRINTS, write_answers, write_record

from medvl.benchmark.store import Benchmark
from medvl.errors import DataError
from medvl.evaluation.answer_table import read_answers
from medvl.evaluation.files import read_metrics
from medvl.evaluation.rescore import rescore
from medvl.sources.record import Split, Task

VAL = [make_item(Task.PI, n, split=Split.VAL) for n in range(100, 105)]


@pytest.fixture
def run(tmp_path):
    return write_answers(write_record(tmp_path / "run"))


@pytest.fixture
def benchmark_of(tmp_path):
    def made(items, fingerprint="bench-1"):
        return Benchmark(tmp_path, list(items), {"name": "mini", "fingerprints": {"items": fingerprint}})

    return made


def test_answers_scored_again_give_the_figures_of_their_run(run, benchmark_of):
    found = rescore(read_answers(run), ITEMS, benchmark_of(ITEMS + VAL))
    assert found.metrics == read_metrics(run / "metrics.json")
    assert [answer.item_id for answer in found.predictions] == [item.item_id for item in ITEMS]
    assert found.notes == []


def test_items_are_found_by_what_they_ask_whatever_their_id_folder_and_order(run, benchmark_of):
    renamed = [replace(item, item_id=f"new {n}", picture=f"elsewhere/{n}.png") for n, item in enumerate(ITEMS)][::-1]
    found = rescore(read_answers(run), renamed, benchmark_of(renamed, "bench-2"))
    old = read_metrics(run / "metrics.json")
    assert found.metrics["overall"] == old["overall"]
    assert found.metrics["fingerprints"] == {**PRINTS, "benchmark": "bench-2"}
    assert [answer.item_id for answer in found.predictions] == [item.item_id for item in renamed]
    assert "given on benchmark bench-1; this one is bench-2" in found.notes[0]


def test_items_that_ask_the_very_same_take_the_answer_under_their_own_id(tmp_path, benchmark_of):
    twins = [*ITEMS, replace(ITEMS[-1], item_id="twin")]
    answers = read_answers(write_answers(tmp_path / "run", right=len(ITEMS), items=twins))
    assert [p.answer for p in rescore(answers, twins, benchmark_of(twins)).predictions][-2:] == ["C", "A"]
    turned = rescore(answers, twins[::-1], benchmark_of(twins)).predictions
    assert [(p.item_id, p.answer) for p in turned[:2]] == [("twin", "A"), ("VG-23", "C")]


def test_an_unknown_model_is_marked_so(run, tmp_path, benchmark_of):
    (run / "predictions.parquet").rename(tmp_path / "alone.parquet")
    found = rescore(read_answers(tmp_path / "alone.parquet"), ITEMS, benchmark_of(ITEMS))
    prints = found.metrics["fingerprints"]
    assert prints.pop("benchmark") == "bench-1"
    assert set(prints.values()) == {"unknown"}
    assert {"base", "adapter", "prompt"} <= set(prints)


@pytest.mark.parametrize(
    ("items", "words"),
    [
        (ITEMS[:20], "each of the 20 items .* but 0 of these items have no answer there, and 4 of its 24 answers"),
        (VAL, "each of the 5 items of the val split of benchmark mini once, but 5 of .*and 24 of its 24 .*: test 24"),
        ([*ITEMS, make_item(Task.CD, 1, split=Split.TEST)], "25 items of the test split .* but 1 of .* 0 of its 24"),
    ],
)
def test_other_items_than_were_answered_are_refused_with_counts(run, benchmark_of, items, words):
    with pytest.raises(DataError, match=words):
        rescore(read_answers(run), items, benchmark_of(ITEMS + VAL))


def test_an_item_that_asks_something_else_now_is_no_match(run, benchmark_of):
    changed = [replace(ITEMS[0], question="Which one?"), *ITEMS[1:]]
    words = r"1 of these items have no answer.* 1 of its 24 .*\(1 of them to an item that has changed since\).* none 1"
    with pytest.raises(DataError, match=words):
        rescore(read_answers(run), changed, benchmark_of(changed))


def test_an_item_that_was_answered_twice_is_refused(run, benchmark_of):
    path = run / "predictions.parquet"
    table = pl.read_parquet(path)
    pl.concat([table, table.head(1)]).write_parquet(path)
    with pytest.raises(DataError, match="0 of these items have no answer there, and 1 of its 25 answers"):
        rescore(read_answers(run), ITEMS, benchmark_of(ITEMS))
