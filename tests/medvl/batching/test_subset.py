import math
import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mini_items import make_item

from medvl.batching.subset import asked_items, of_few_patients, stratified_subset
from medvl.benchmark.store import Benchmark
from medvl.config.schema import EvaluateConfig
from medvl.errors import DataError
from medvl.sources.record import Split, Task

ITEMS = [make_item(task, i) for task, n in ((Task.PI, 30), (Task.VG, 50), (Task.CD, 3)) for i in range(n)]


@given(st.integers(1, 90), st.integers(0, 5))
def test_it_has_the_size_asked_for_and_keeps_the_order(limit, seed):
    chosen = stratified_subset(ITEMS, limit, seed)
    assert len(chosen) == min(limit, len(ITEMS))
    assert chosen == [item for item in ITEMS if item in chosen]


@given(st.integers(1, 82), st.integers(0, 5))
def test_tasks_are_even_until_one_runs_out(limit, seed):
    counts = Counter(item.task for item in stratified_subset(ITEMS, limit, seed))
    if limit < 9:
        assert max(counts.values()) - min(counts[task] for task in (Task.PI, Task.VG, Task.CD)) <= 1
    else:
        assert counts[Task.CD] == 3
    assert abs(counts[Task.PI] - counts[Task.VG]) <= 1 or counts[Task.PI] == 30


@given(st.permutations(ITEMS), st.integers(1, 60))
def test_the_choice_does_not_depend_on_the_order_of_the_items(shuffled, limit):
    chosen = {item.item_id for item in stratified_subset(ITEMS, limit, 7)}
    assert {item.item_id for item in stratified_subset(shuffled, limit, 7)} == chosen


def test_the_seed_decides():
    picks = {tuple(i.item_id for i in stratified_subset(ITEMS, 10, seed)) for seed in range(5)}
    assert len(picks) == 5


def test_a_smaller_subset_lies_inside_a_larger_one():
    small, large = ({i.item_id for i in stratified_subset(ITEMS, n, 0)} for n in (12, 40))
    assert small < large


def test_no_limit_gives_all():
    shuffled = random.Random(0).sample(ITEMS, len(ITEMS))
    assert stratified_subset(shuffled, None, 0) == shuffled
    assert stratified_subset([], 5, 0) == []


PATIENTS = [
    make_item(number=number, source=source, group=f"patient {number % n}")
    for source, n in (("large", 40), ("small", 3))
    for number in range(2 * n)
]


@given(st.floats(0.001, 1), st.integers(0, 3))
def test_a_share_of_the_patients_of_each_source_is_kept_with_all_their_items(share, seed):
    kept = of_few_patients(PATIENTS, share, seed)
    for source, n in (("large", 40), ("small", 3)):
        counts = Counter(item.group for item in kept if item.source == source)
        assert len(counts) == math.ceil(share * n) >= 1
        assert set(counts.values()) == {2}


@given(st.permutations(PATIENTS), st.floats(0.01, 0.9))
def test_fewer_patients_are_among_more_whatever_the_order(shuffled, share):
    few = {item.item_id for item in of_few_patients(shuffled, share, 0)}
    more = {item.item_id for item in of_few_patients(PATIENTS, min(1.0, share + 0.1), 0)}
    assert few <= more
    assert few == {item.item_id for item in of_few_patients(PATIENTS, share, 0)}


def test_all_patients_are_kept_unless_fewer_are_asked_for():
    assert of_few_patients(PATIENTS, 1.0, 0) == PATIENTS


TEST = [make_item(Task.PI, number, split=Split.TEST) for number in range(100, 120)]
MINI = Benchmark(Path(), [*ITEMS, *TEST], {"sources": {"demo": {"found": True, "splits": {"train": 83, "test": 20}}}})


def configured(**changes):
    facts = {"name": "n", "model": {"name": "m", "path": "p"}, "data": {"name": "d", "root": "r", "sources": ["demo"]}}
    return EvaluateConfig.model_validate({**facts, "paths": {"run": "x"}, **changes})


def test_a_split_is_asked_within_its_own_limit():
    assert asked_items(MINI, Split.TEST, configured()) == TEST
    few = configured(eval={"test_items": 7})
    assert asked_items(MINI, Split.TEST, few) == stratified_subset(TEST, 7, few.seed)
    assert asked_items(MINI, Split.TRAIN, few) == ITEMS


def test_overfitting_asks_the_same_few_train_items_on_every_side():
    few = configured(debug={"overfit_items": 6})
    sides = [asked_items(MINI, split, few) for split in Split]
    assert sides == [stratified_subset(ITEMS, 6, few.seed)] * 3


def test_an_empty_split_is_refused_with_the_items_of_each_source():
    with pytest.raises(DataError, match=r"val split of benchmark d is empty; items by source: .*'train': 83"):
        asked_items(MINI, Split.VAL, configured())
