from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mini_items import make_item
from torch.utils.data import DataLoader

from medvl.batching.sampler import TaskMixSampler
from medvl.batching.task_mix import plan_epoch
from medvl.config.schema import TaskMixConfig
from medvl.sources.record import Task

ITEMS = [make_item(task, i) for task, n in ((Task.PI, 7), (Task.VG, 12), (Task.CD, 3)) for i in range(n)]


def epoch(sampler: TaskMixSampler, number: int) -> list[int]:
    sampler.set_epoch(number)
    return list(sampler)


def test_the_same_seed_gives_the_same_order_and_another_seed_another():
    first, again, other = (TaskMixSampler(ITEMS, TaskMixConfig(), seed) for seed in (1, 1, 2))
    assert [epoch(first, n) for n in range(3)] == [epoch(again, n) for n in range(3)]
    assert epoch(first, 0) != epoch(other, 0)


def test_an_epoch_has_its_own_order_whatever_was_drawn_before():
    sampler = TaskMixSampler(ITEMS, TaskMixConfig(), 0)
    orders = [epoch(sampler, n) for n in range(4)]
    assert len({tuple(order) for order in orders}) == 4
    assert epoch(TaskMixSampler(ITEMS, TaskMixConfig(), 0), 3) == orders[3]


def test_without_settings_an_epoch_is_every_item_once():
    sampler = TaskMixSampler(ITEMS, TaskMixConfig(), 0)
    assert sorted(epoch(sampler, 5)) == list(range(len(ITEMS)))


@settings(max_examples=40)
@given(
    st.fixed_dictionaries({"PI": st.floats(0.1, 9), "VG": st.floats(0.1, 9)}),
    st.dictionaries(st.sampled_from(["PI", "VG", "CD"]), st.integers(1, 30)),
    st.integers(1, 9),
)
def test_over_epochs_each_item_of_a_task_is_seen_equally_often(weights, caps, epochs):
    mix = TaskMixConfig(weights=weights, caps=caps)
    sampler = TaskMixSampler(ITEMS, mix, 3)
    seen = Counter(index for n in range(epochs) for index in epoch(sampler, n))
    plan = plan_epoch({"CD": 3, "PI": 7, "VG": 12}, mix)
    for task in plan:
        counts = [seen[i] for i, item in enumerate(ITEMS) if item.task.value == task]
        assert max(counts) - min(counts) <= 1
        assert sum(counts) == plan[task] * epochs


def test_the_length_is_the_number_of_items_drawn():
    sampler = TaskMixSampler(ITEMS, TaskMixConfig(weights={"VG": 0.0}, caps={"PI": 4}), 0)
    assert len(sampler) == len(epoch(sampler, 0)) == 7
    assert not any(ITEMS[i].task is Task.VG for i in epoch(sampler, 0))


def test_the_questions_of_one_picture_stand_together():
    items = [make_item(task, i, picture=f"{i}.png") for i in range(20) for task in (Task.PI, Task.VG)]
    pictures = [items[i].picture for i in epoch(TaskMixSampler(items, TaskMixConfig(), 0), 0)]
    changes = sum(a != b for a, b in pairwise(pictures))
    assert changes == 19


@pytest.mark.parametrize("workers", [0, 2])
def test_loading_processes_do_not_change_the_order(workers):
    sampler = TaskMixSampler(ITEMS, TaskMixConfig(), 4)
    loader = DataLoader(list(range(len(ITEMS))), batch_size=4, sampler=sampler, num_workers=workers, collate_fn=list)
    sampler.set_epoch(1)
    assert [i for batch in loader for i in batch] == epoch(TaskMixSampler(ITEMS, TaskMixConfig(), 4), 1)
