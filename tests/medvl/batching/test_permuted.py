from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from mini_items import make_item

from medvl.batching.permuted import permute_answers
from medvl.sources.record import Task

TWO = {"options": ("yes", "no"), "answer": "yes", "answer_index": 0}


@given(st.integers(0, 50), st.integers(0, 40))
def test_positions_are_dealt_out_within_a_task_and_number_of_options(seed, count):
    items = [make_item(Task.PI, i) for i in range(count)] + [make_item(Task.VC, i, **TWO) for i in range(3)]
    permuted = permute_answers(items, seed)
    for before, after in zip(items, permuted, strict=True):
        assert after.answer == after.options[after.answer_index]
        assert (after.item_id, after.options, after.question) == (before.item_id, before.options, before.question)
    assert Counter((i.task, i.answer_index) for i in permuted) == Counter((i.task, i.answer_index) for i in items)


def test_the_permutation_follows_the_seed():
    items = [make_item(Task.PI, i) for i in range(60)]
    first, again, other = permute_answers(items, 1), permute_answers(items, 1), permute_answers(items, 2)
    assert first == again
    assert first != other
    kept = sum(a.answer_index == b.answer_index for a, b in zip(items, first, strict=True))
    assert kept < 40  # 20 by luck
