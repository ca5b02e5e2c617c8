import dataclasses
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mini_items import make_item

from medvl.batching.augment import Draw
from medvl.batching.option_order import is_bound_to_its_order, reordered

OPTIONS = ("heart", "liver", "spine", "femur")
ITEM = dataclasses.replace(make_item(), options=OPTIONS, answer="liver", answer_index=1)


@given(st.integers(0, 2**32), st.integers(0, 1000), st.integers(0, 50))
def test_the_answer_keeps_its_words_in_any_order(seed, epoch, repeat):
    new = reordered(ITEM, seed, Draw(0, epoch, repeat))
    assert sorted(new.options) == sorted(OPTIONS)
    assert new.options[new.answer_index] == new.answer == "liver"
    assert dataclasses.replace(new, options=OPTIONS, answer_index=1) == ITEM


def test_an_order_follows_from_the_seed_the_item_and_the_draw():
    assert reordered(ITEM, 3, Draw(0, 2, 1)) == reordered(ITEM, 3, Draw(9, 2, 1))
    other = dataclasses.replace(ITEM, item_id="another")
    orders = {
        tuple(reordered(item, seed, Draw(0, epoch, repeat)).options for epoch in range(6))
        for item in (ITEM, other) for seed in (0, 1) for repeat in (0, 1)
    }  # fmt: skip
    assert len(orders) == 8


def test_every_letter_is_right_equally_often():
    places = Counter(reordered(ITEM, 0, Draw(0, epoch)).answer_index for epoch in range(4000))
    assert all(abs(n - 1000) < 4 * 27.4 for n in places.values())  # four standard deviations of a fair count


@pytest.mark.parametrize(
    "option",
    ["All of the above", "none of these", "Both A and B", "A and C", "B & C", "Option A", "neither of them", "only B",
     "the above", "both of the findings", "answers below", "A, B"],
)  # fmt: skip
def test_options_that_speak_of_each_other_keep_their_order(option):
    item = dataclasses.replace(ITEM, options=("heart", "liver", "spine", option))
    assert is_bound_to_its_order(item)
    assert all(reordered(item, 0, Draw(0, epoch)) is item for epoch in range(8))


@pytest.mark.parametrize(
    "options",
    [OPTIONS, ("yes", "no"), ("above the heart", "below it"), ("both lungs", "left lung"), ("hepatitis A", "a lung"),
     ("a and b waves", "none"), ("vitamin B and iron", "one kidney"), ("normal", "the head above the pelvis")],
)  # fmt: skip
def test_words_that_only_sound_like_it_do_not_bind(options):
    assert not is_bound_to_its_order(dataclasses.replace(ITEM, options=options, answer=options[1]))
