import polars as pl
import pytest
from asked_variants import always_a, item, right, varied
from hypothesis import given, settings
from hypothesis import strategies as st

from medvl.errors import DataError
from medvl.evaluation.variants import agreement, score_variants


def test_an_answer_is_named_by_the_option_of_the_item_whatever_its_letter():
    rows = varied([item("i", right=2)], right)
    assert rows["chosen"].to_list() == [2, 2, 2, 2]
    assert rows["predicted_letter"].to_list() == ["C", "B", "A", "D"]
    assert rows["item_id"].to_list() == ["i"] * 4
    assert rows["variant"].to_list() == ["i", "i~r1p0", "i~r2p0", "i~r3p0"]


def test_a_hand_counted_table():
    """The right option stands at A, then at B, in both wordings. Items 2, 3 and 4 fail once each, in three ways."""
    said = {
        "i1": ["A", "B", "A", "B"],
        "i2": ["A", "A", "A", "B"],
        "i3": ["A", "B", None, "B"],
        "i4": ["A", "B", "A", ([0.1, 0.2], 0.7)],
    }
    items = [item(name, right=0, k=2, group=name) for name in said]
    turn = {name: iter(answers) for name, answers in said.items()}
    rows = varied(items, lambda variant: next(turn[variant.base_id]), paraphrases=2)
    found = agreement(rows)
    assert (found["n"], found["n_asked"], found["n_groups"]) == (4, 16, 4)
    assert found["accuracy"] == 13 / 16
    assert found["base_accuracy"] == 1
    assert (found["all_right"], found["consistency"], found["flip_rate_items"]) == (1 / 4, 1 / 4, 3 / 4)
    assert found["flip_rate_variants"] == 3 / 12
    assert (found["invalid_rate"], found["uncommitted_rate"], found["chance"]) == (1 / 16, 1 / 16, 1 / 2)


def test_invalid_answers_agree_with_nothing():
    found = agreement(varied([item("i"), item("j")], lambda variant: None))
    assert (found["consistency"], found["flip_rate_items"], found["flip_rate_variants"]) == (0, 1, 1)
    assert (found["accuracy"], found["invalid_rate"]) == (0, 1)


def test_a_wrong_answer_that_stays_is_consistent_and_never_right():
    def wrong(variant):
        return variant.item.letters[(variant.item.answer_index + 1) % 4]

    found = agreement(varied([item("i"), item("j", right=3)], wrong, paraphrases=2))
    assert (found["all_right"], found["consistency"], found["flip_rate_variants"]) == (0, 1, 0)
    assert found["all_right_ci95"][0] == 0 < found["all_right_ci95"][1]


def test_items_asked_once_are_left_aside():
    bound = item("bound", options=("head", "femur", "Both A and B", "none of these"), answer="head")
    assert agreement(varied([bound], right)) is None
    both = varied([bound, item("free")], right)
    assert (agreement(both)["n"], agreement(both)["n_asked"]) == (1, 4)


def test_an_item_that_was_not_asked_as_it_is_is_refused():
    rows = varied([item("i", k=2)], right)
    parts = rows.with_columns(item_id="variant").rename({"predicted_letter": "letter"})
    names = rows.select("variant", "item_id", "rotation", "paraphrase").with_columns(rotation=pl.lit(1))
    answers = parts.select(
        "item_id", "item_fingerprint", pl.col("letter").alias("answer"), "option_logprobs", "outside_mass", "raw_text",
        "rule", "scoring", "latency_s",
    )  # fmt: skip
    with pytest.raises(DataError, match="Item i needs to be asked as it is exactly once"):
        score_variants(names, parts, answers)


@settings(max_examples=25)
@given(st.data())
def test_bounds_between_the_figures_hold_for_any_answers(data):
    items = [item(f"i{n}", right=n % 3, k=3, group=f"g{n // 2}") for n in range(data.draw(st.integers(1, 4)))]
    letters = st.sampled_from(["A", "B", "C", None])
    found = agreement(varied(items, lambda variant: data.draw(letters), paraphrases=data.draw(st.integers(1, 2))))
    assert found["all_right"] <= min(found["accuracy"], found["base_accuracy"], found["consistency"])
    assert found["flip_rate_variants"] <= found["flip_rate_items"]
    assert found["consistency_ci95"][0] <= found["consistency"] <= found["consistency_ci95"][1]
    assert found["flip_rate_items"] == pytest.approx(1 - found["consistency"])


def test_a_model_that_always_says_a_scores_chance_over_rotations():
    found = agreement(varied([item(f"i{n}", right=n % 4) for n in range(8)], always_a))
    assert (found["accuracy"], found["base_accuracy"], found["all_right"]) == (1 / 4, 1 / 4, 0)
