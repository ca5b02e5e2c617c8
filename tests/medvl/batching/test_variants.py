"""Variants ask the same thing of the same picture."""

import dataclasses
import re

from hypothesis import given
from hypothesis import strategies as st
from mini_items import make_item

from medvl.batching.variants import all_variants, variants_of
from medvl.sources.record import Task

ITEM = make_item(options=("head", "abdomen", "femur", "spine"), answer_index=1, answer="abdomen")


@given(st.integers(2, 10), st.integers(1, 5), st.data())
def test_every_option_stands_once_at_every_letter_and_the_answer_keeps_its_words(k, paraphrases, data):
    options = tuple(f"option {i}" for i in range(k))
    gold = data.draw(st.integers(0, k - 1))
    item = make_item(options=options, answer_index=gold, answer=options[gold])
    variants = variants_of(item, rotations=True, paraphrases=paraphrases)
    assert len(variants) == k * paraphrases
    assert len({v.item.item_id for v in variants}) == len({v.item.fingerprint() for v in variants}) == len(variants)
    for number in range(paraphrases):
        shown = [v.item for v in variants if v.paraphrase == number]
        assert len({one.question for one in shown}) == 1
        assert all({one.options[p] for one in shown} == set(options) for p in range(k))
        assert {one.answer_index for one in shown} == set(range(k))
    for variant in variants:
        asked = variant.item
        assert asked.options[asked.answer_index] == asked.answer == options[gold]
        assert asked.options == tuple(options[(p + variant.rotation) % k] for p in range(k))
        assert variant.base_id == item.item_id


def test_the_base_comes_first_and_is_the_item_itself():
    first, *others = variants_of(ITEM, rotations=True, paraphrases=2)
    assert first.item is ITEM
    assert first.is_base
    assert not any(one.is_base for one in others)
    assert [one.item.item_id for one in others[:4]] == [f"PI-0~{end}" for end in ("r1p0", "r2p0", "r3p0", "r0p1")]


def test_nothing_but_question_and_order_changes():
    for variant in variants_of(ITEM, rotations=True, paraphrases=3):
        back = {name: getattr(ITEM, name) for name in ("item_id", "question", "options", "answer_index")}
        assert dataclasses.replace(variant.item, **back) == ITEM


def test_yes_and_no_have_two_rotations_and_options_that_speak_of_each_other_one():
    yes_no = dataclasses.replace(ITEM, options=("yes", "no"), answer="no")
    assert [v.item.options for v in variants_of(yes_no, rotations=True, paraphrases=1)] == [
        ("yes", "no"),
        ("no", "yes"),
    ]
    bound = dataclasses.replace(ITEM, options=("head", "abdomen", "Both A and B", "none of the above"))
    variants = variants_of(bound, rotations=True, paraphrases=2)
    assert [(v.rotation, v.item.options) for v in variants] == [(0, bound.options)] * 2


def test_without_rotations_only_words_change():
    variants = variants_of(ITEM, rotations=False, paraphrases=2)
    assert [(v.rotation, v.paraphrase) for v in variants] == [(0, 0), (0, 1)]
    assert len({v.item.question for v in variants}) == 2
    assert [v.item for v in variants_of(ITEM, rotations=False, paraphrases=1)] == [ITEM]


def test_variants_of_one_picture_stand_together_by_item_wording_and_rotation():
    pictures = ("a", "b", "a", "b", "c")
    items = [make_item(number=n, sha256_pixels=picture) for n, picture in enumerate(pictures)]
    boxed = [make_item(Task.VG, 9 + n, sha256_pixels="a", bbox_xyxy_px=(n, 0.0, 9.0, 9.0)) for n in range(2)]
    variants = all_variants([*items, *boxed], rotations=True, paraphrases=2)
    order = [(v.item.sha256_pixels, v.item.bbox_xyxy_px) for v in variants]
    blocks = [one for number, one in enumerate(order) if number == 0 or order[number - 1] != one]
    assert len(blocks) == len(set(blocks)) == 5
    assert [v.base_id for v in variants[:12:6]] == ["PI-0", "PI-2"]
    assert [(v.paraphrase, v.rotation) for v in variants[:6]] == [(p, r) for p in range(2) for r in range(3)]
    assert len(variants) == 7 * 6
    assert all(re.fullmatch(r".+~r\dp\d", v.item.item_id) for v in variants if not v.is_base)
