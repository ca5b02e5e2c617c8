import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvl.errors import DataError
from medvl.evaluation.rotations import ROTATION_SCHEMA, check_rotations, rotation_figures, shown_options


def items(rows):
    """Rows of (item_id, right option, number of options, patient)."""
    columns = {"item_id": 0, "answer_index": 1, "options": 2, "group": 3}
    table = {name: [row[i] for row in rows] for name, i in columns.items()}
    table["options"] = [[f"option {i}" for i in range(k)] for k in table["options"]]
    return pl.DataFrame(table).with_columns(source=pl.lit("s"))


def rotations(rows):
    """Rows of (item_id, rotation, probabilities by letter[, outside mass])."""
    full = [(i, r, [math.log(p) for p in ps], *(rest or [None])) for i, r, ps, *rest in rows]
    return pl.DataFrame(full, schema=ROTATION_SCHEMA, orient="row")


@pytest.fixture
def golden_tables(golden):
    table = golden("rotations")
    return (
        items([(f"q{row['item']}", row["right"] - 1, 2, row["patient"]) for row in table["input"]]),
        rotations([(f"q{row['item']}", r, p) for row in table["input"] for r, p in enumerate(row["orders"])]),
    )


def test_figures_equal_the_hand_counted_table(golden, golden_tables, as_number):
    expected, result = golden("rotations")["expected"], rotation_figures(*golden_tables)
    assert result["prior"]["2"] == pytest.approx({k: as_number(v) for k, v in expected.pop("prior").items()})
    assert result["recall"] == pytest.approx({k: as_number(v) for k, v in expected.pop("recall").items()})
    for key, figure in expected.items():
        assert result[key] == pytest.approx(as_number(figure)), key
    for interval, figure in (("ci95", 5 / 8), ("circular_ci95", 1 / 4)):
        low, high = result[interval]
        assert 0 <= low < figure < high <= 1


def test_every_option_stands_once_at_every_letter():
    shown = np.array([shown_options(4, r) for r in range(4)])
    assert shown[0].tolist() == [0, 1, 2, 3]
    assert (np.sort(shown, axis=0) == np.arange(4)[:, None]).all()


def answered(rng, k, n, letter_pull):
    """Items and rotations of a model that sees the right option and likes letters by `letter_pull`."""
    gold = rng.integers(0, k, n)
    asked = []
    for i in range(n):
        belief = rng.random(k)
        belief[gold[i]] += 0.8
        for r in range(k):
            p = belief[shown_options(k, r)] * letter_pull
            asked.append((f"i{k}{i}", r, p / p.sum()))
    return items([(f"i{k}{i}", int(gold[i]), k, f"g{i // 2}") for i in range(n)]), rotations(asked)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 4), st.integers(2, 6), st.integers(0, 10_000))
def test_circular_score_is_never_above_consistency_or_any_single_accuracy(k, n, seed):
    rng = np.random.default_rng(seed)
    result = rotation_figures(*answered(rng, k, n, rng.dirichlet([1.0] * k) + 0.01))
    assert result["circular_accuracy"] <= min(result["accuracy"], result["consistency"])
    assert result["n_asked"] == n * k
    assert result["chance"] == pytest.approx(1 / k)
    assert sum(result["prior"][str(k)].values()) == pytest.approx(1)
    assert all(0 <= result[key] <= 1 for key in ("averaged_accuracy", "prior_corrected_accuracy", "recall_std"))


def test_a_model_without_a_favourite_letter_is_consistent_and_keeps_its_answers():
    result = rotation_figures(*answered(np.random.default_rng(0), 4, 30, np.ones(4)))
    assert result["consistency"] == 1
    assert result["circular_accuracy"] == result["accuracy"] == result["averaged_accuracy"]
    assert result["recall_std"] == pytest.approx(0)
    assert result["prior"]["4"] == pytest.approx(dict.fromkeys("ABCD", 0.25))


def test_the_prior_is_found_and_correction_restores_the_answers():
    pull = np.array([0.7, 0.1, 0.1, 0.1])
    first, asked = answered(np.random.default_rng(0), 4, 60, pull)
    plain = rotation_figures(*answered(np.random.default_rng(0), 4, 60, np.ones(4)))
    result = rotation_figures(first, asked)
    assert list(result["prior"]["4"].values()) == pytest.approx(pull)
    assert result["prior_corrected_accuracy"] == pytest.approx(plain["accuracy"])
    assert result["recall_std"] > 0.2


def test_a_model_that_always_says_a_is_right_once_an_item_and_never_in_all_orders():
    asked = [(f"i{i}", r, [0.4, 0.3, 0.3]) for i in range(5) for r in range(3)]
    result = rotation_figures(items([(f"i{i}", i % 3, 3, f"g{i}") for i in range(5)]), rotations(asked))
    assert (result["accuracy"], result["circular_accuracy"], result["consistency"]) == (pytest.approx(1 / 3), 0, 0)
    assert result["recall"] == {"A": 1, "B": 0, "C": 0}
    assert result["prior_corrected_accuracy"] == pytest.approx(1 / 3)


def test_items_with_different_numbers_of_options_stand_together():
    two, four = (answered(np.random.default_rng(k), k, 10, np.ones(k)) for k in (2, 4))
    result = rotation_figures(pl.concat([two[0], four[0]]), pl.concat([two[1], four[1]]))
    assert (result["n"], result["n_asked"]) == (20, 60)
    assert result["chance"] == pytest.approx((0.5 + 0.25) / 2)
    assert list(result["prior"]) == ["2", "4"]


def test_an_uncommitted_answer_is_wrong_and_agrees_with_nothing():
    rows = [
        ("i0", 0, [0.2, 0.1], 0.7),
        ("i0", 1, [0.1, 0.8], 0.1),
        ("i1", 0, [0.9, 0.1], 0.0),
        ("i1", 1, [0.1, 0.9], 0.0),
    ]
    result = rotation_figures(items([("i0", 0, 2, "g"), ("i1", 0, 2, "h")]), rotations(rows))
    assert result["uncommitted_rate"] == 1 / 4
    assert (result["accuracy"], result["circular_accuracy"], result["consistency"]) == (3 / 4, 1 / 2, 1 / 2)
    assert (result["averaged_accuracy"], result["prior_corrected_accuracy"]) == (1 / 2, 1 / 2)


def test_one_item_has_figures_but_no_prior_of_others(golden_tables):
    result = rotation_figures(golden_tables[0].head(1), golden_tables[1])
    assert (result["n"], result["circular_accuracy"]) == (1, 1)
    assert result["prior_corrected_accuracy"] is None


def test_without_items_or_scores_there_are_no_figures(golden_tables):
    first, asked = golden_tables
    assert rotation_figures(first, asked.clear()) is None
    assert rotation_figures(first.clear(), asked) is None
    generated = asked.with_columns(option_logprobs=pl.lit([], dtype=pl.List(pl.Float64)))
    assert rotation_figures(first, generated) is None
    not_numbers = asked.with_columns(option_logprobs=pl.lit([math.nan, math.nan], dtype=pl.List(pl.Float64)))
    assert rotation_figures(first, not_numbers) is None


def test_incomplete_or_repeated_rotations_are_refused_with_the_item(golden_tables):
    first, asked = golden_tables
    with pytest.raises(DataError, match="Item q4 needs each of the rotations 0 to 1 once, got 0"):
        rotation_figures(first, asked.head(7))
    with pytest.raises(DataError, match="Item q1 needs each of the rotations 0 to 1 once, got 0, 0, 1"):
        rotation_figures(first, pl.concat([asked, asked.head(1)]))
    short = pl.concat([asked.head(7), rotations([("q4", 1, [0.5, 0.3, 0.2])])])
    with pytest.raises(DataError, match="Item q4 has 2 options, but rotation 1 has 3 option scores"):
        rotation_figures(first, short)


def test_a_table_of_other_items_or_without_a_column_is_refused(golden_tables):
    first, asked = golden_tables
    check_rotations(first, asked)
    with pytest.raises(DataError, match=r"2 item\(s\) were asked in rotations but are not among .* \(q3, q4\)"):
        check_rotations(first.head(2), asked)
    with pytest.raises(DataError, match=r"lacks the column\(s\) rotation"):
        check_rotations(first, asked.drop("rotation"))
