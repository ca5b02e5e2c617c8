import math

import numpy as np
import polars as pl
import pytest
from asked_variants import always_a, item, right, varied
from hypothesis import given, settings
from hypothesis import strategies as st

from medvl.errors import DataError
from medvl.evaluation.rotations import rotation_figures


@pytest.fixture
def golden_rows(golden):
    table = golden("rotations")["input"]
    items = [item(f"q{row['item']}", row["right"] - 1, 2, row["patient"]) for row in table]
    said = {f"q{row['item']}": row["orders"] for row in table}
    return varied(items, lambda variant: said[variant.base_id][variant.rotation])


def test_figures_equal_the_hand_counted_table(golden, golden_rows, as_number):
    expected, result = golden("rotations")["expected"], rotation_figures(golden_rows)
    assert result["prior"]["2"] == pytest.approx({k: as_number(v) for k, v in expected.pop("prior").items()})
    assert result["recall"]["2"] == pytest.approx({k: as_number(v) for k, v in expected.pop("recall").items()})
    for key, figure in expected.items():
        assert result[key] == pytest.approx(as_number(figure)), key
    for interval, figure in (("ci95", 5 / 8), ("circular_ci95", 1 / 4)):
        low, high = result[interval]
        assert 0 <= low < figure < high <= 1


def answered(seed, k, n, letter_pull):
    """Rows of a model that sees the right option and likes letters by `letter_pull`."""
    rng = np.random.default_rng(seed)
    items = [item(f"i{k}{i}", int(rng.integers(0, k)), k, f"g{i // 2}") for i in range(n)]
    belief = {one.item_id: rng.random(k) for one in items}
    for one in items:
        belief[one.item_id][one.answer_index] += 0.8

    def answer(variant):
        p = np.roll(belief[variant.base_id], -variant.rotation) * letter_pull
        return [float(x) for x in p / p.sum()]

    return varied(items, answer)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 4), st.integers(2, 6), st.integers(0, 10_000))
def test_circular_score_is_never_above_consistency_or_any_single_accuracy(k, n, seed):
    pull = np.random.default_rng(seed).dirichlet([1.0] * k) + 0.01
    result = rotation_figures(answered(seed, k, n, pull))
    assert result["circular_accuracy"] <= min(result["accuracy"], result["consistency"])
    assert result["n_asked"] == n * k
    assert result["chance"] == pytest.approx(1 / k)
    assert sum(result["prior"][str(k)].values()) == pytest.approx(1)
    assert all(0 <= result[key] <= 1 for key in ("averaged_accuracy", "prior_corrected_accuracy", "recall_std"))


def test_a_model_without_a_favourite_letter_is_consistent_and_keeps_its_answers():
    result = rotation_figures(answered(0, 4, 30, np.ones(4)))
    assert result["consistency"] == 1
    assert result["circular_accuracy"] == result["accuracy"] == result["averaged_accuracy"]
    assert result["recall_std"] == pytest.approx(0)
    assert result["prior"]["4"] == pytest.approx(dict.fromkeys("ABCD", 0.25))


def test_the_prior_is_found_and_correction_restores_the_answers():
    pull = np.array([0.7, 0.1, 0.1, 0.1])
    plain, result = rotation_figures(answered(0, 4, 60, np.ones(4))), rotation_figures(answered(0, 4, 60, pull))
    assert list(result["prior"]["4"].values()) == pytest.approx(pull)
    assert result["prior_corrected_accuracy"] == pytest.approx(plain["accuracy"])
    assert result["recall_std"] > 0.2


def test_a_model_that_always_says_a_is_right_once_an_item_and_never_in_all_orders():
    items = [item(f"i{i}", i % 3, 3, f"g{i}") for i in range(5)]
    result = rotation_figures(varied(items, lambda variant: [0.4, 0.3, 0.3]))
    assert (result["accuracy"], result["circular_accuracy"], result["consistency"]) == (pytest.approx(1 / 3), 0, 0)
    assert result["recall"] == {"3": {"A": 1, "B": 0, "C": 0}}
    assert result["prior_corrected_accuracy"] == pytest.approx(1 / 3)


def test_items_with_different_numbers_of_options_stand_together_with_a_recall_each():
    two, four = answered(0, 2, 10, np.ones(2)), varied([item(f"f{i}", i % 4) for i in range(30)], always_a)
    scored = answered(1, 4, 10, np.ones(4))
    result = rotation_figures(pl.concat([two, scored]))
    assert (result["n"], result["n_asked"]) == (20, 60)
    assert result["chance"] == pytest.approx((0.5 + 0.25) / 2)
    assert list(result["prior"]) == ["2", "4"]
    mixed = rotation_figures(pl.concat([two, four]))
    assert mixed["recall"]["4"] == {"A": 1, "B": 0, "C": 0, "D": 0}
    assert mixed["recall_std"] == pytest.approx((10 * 0 + 30 * math.sqrt(3) / 4) / 40)


def test_an_uncommitted_answer_is_wrong_and_agrees_with_nothing():
    said = {
        ("i0", 0): ([0.2, 0.1], 0.7),
        ("i0", 1): ([0.1, 0.8], 0.1),
        ("i1", 0): ([0.9, 0.1], 0.0),
        ("i1", 1): ([0.1, 0.9], 0.0),
    }
    items = [item("i0", 0, 2, "g"), item("i1", 0, 2, "h")]
    result = rotation_figures(varied(items, lambda variant: said[variant.base_id, variant.rotation]))
    assert result["uncommitted_rate"] == 1 / 4
    assert (result["accuracy"], result["circular_accuracy"], result["consistency"]) == (3 / 4, 1 / 2, 1 / 2)
    assert (result["averaged_accuracy"], result["prior_corrected_accuracy"]) == (1 / 2, 1 / 2)


def test_one_item_has_figures_but_no_prior_of_others(golden_rows):
    result = rotation_figures(golden_rows.filter(pl.col("item_id") == "q1"))
    assert (result["n"], result["circular_accuracy"]) == (1, 1)
    assert result["prior_corrected_accuracy"] is None


def test_answers_without_scores_have_the_figures_that_need_none(golden_rows):
    expected = rotation_figures(golden_rows)
    result = rotation_figures(golden_rows.with_columns(option_logprobs=pl.lit([], dtype=pl.List(pl.Float64))))
    needs_scores = ("prior", "averaged_accuracy", "prior_corrected_accuracy")
    assert [result.pop(name) for name in needs_scores] == [None] * 3
    assert result == {name: figure for name, figure in expected.items() if name not in needs_scores}


def test_without_rotated_items_there_are_no_figures(golden_rows):
    assert rotation_figures(golden_rows.clear()) is None
    bound = item("bound", options=("head", "femur", "Both A and B", "none of these"), answer="head")
    assert rotation_figures(varied([bound], right)) is None


def test_incomplete_or_repeated_rotations_are_refused_with_the_item(golden_rows):
    three = varied([item("i", 0, 3)], right)
    with pytest.raises(DataError, match="Item i needs each of the rotations 0 to 2 once, got 0, 1"):
        rotation_figures(three.head(2))
    with pytest.raises(DataError, match="Item q1 needs each of the rotations 0 to 1 once, got 0, 0, 1"):
        rotation_figures(pl.concat([golden_rows, golden_rows.head(1)]))
