import math
from itertools import permutations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

from medvl.evaluation.calibration import calibration, risk_by_coverage, selective_risk
from medvl.evaluation.metrics import negative_log_likelihood
from medvl.evaluation.option_scores import normalised, option_scores


def option_probabilities(scored):
    return np.exp(normalised(option_scores(scored)))


def test_brier_equals_scikit_learns(random_table):
    p, gold = option_probabilities(random_table), random_table["answer_index"].to_numpy()
    result = calibration(random_table)
    assert result["brier"] == pytest.approx(brier_score_loss(gold, p, scale_by_half=False))


def test_calibration_bins_hold_every_item_and_give_the_error(random_table):
    result = calibration(random_table)
    p, gold = option_probabilities(random_table), random_table["answer_index"].to_numpy()
    top, right = p.max(axis=1), p.argmax(axis=1) == gold
    by_hand = sum(
        abs((right[m] - top[m]).sum()) for m in [(top > b / 10) & (top <= (b + 1) / 10) for b in range(10)] if m.any()
    )
    assert result["ece"] == pytest.approx(by_hand / 600)
    assert sum(row["n"] for row in result["bins"]) == result["n"] == 600


def test_calibration_equals_the_hand_counted_table(build, golden, as_number):
    table = golden("calibration")
    rows = []
    for row in table["input"]:
        p = [row[option] * (1 - row["outside_mass"]) for option in ("yes", "no")]
        words = {"options": ("yes", "no"), "right": "A" if row["right"] == "yes" else "B"}
        rows.append(("A", words, {"probabilities": p, "outside_mass": row["outside_mass"]}))
    scored, expected = build.scored(rows), table["expected"]
    result = calibration(scored)
    close = {"abs": table["tolerance"]}
    assert result["ece"] == pytest.approx(expected["ece"], **close)
    assert result["adaptive_ece"] == pytest.approx(expected["ece"], **close)  # ten bins part the same beliefs
    two_bins = calibration(scored, bins=2)
    assert two_bins["adaptive_ece"] == pytest.approx(expected["adaptive_ece_two_bins"], **close)
    assert result["brier"] == pytest.approx(expected["brier"], **close)
    assert result["mean_confidence"] == pytest.approx(expected["mean_confidence"], **close)
    assert negative_log_likelihood(scored) == pytest.approx(expected["loss"], **close)
    selective = selective_risk(scored)
    for key in ("aurc", "excess_aurc"):
        assert selective[key] == pytest.approx(as_number(expected[key]), **close)


def test_calibration_takes_items_with_different_numbers_of_options(build):
    rows = [
        ("A", {"options": ("yes", "no")}, {"probabilities": [0.7, 0.3]}),
        ("A", {}, {"probabilities": [0.7, 0.1, 0.1, 0.1]}),
    ]
    result = calibration(build.scored(rows))
    assert result["mean_confidence"] == pytest.approx(0.7)
    assert result["brier"] == pytest.approx((2 * 0.09 + 0.09 + 3 * 0.01) / 2)


@pytest.mark.parametrize("figure", [calibration, selective_risk])
def test_figures_are_absent_unless_every_item_has_finite_scores(build, figure):
    rows = [("A", {}, {"probabilities": [0.7, 0.1, 0.1, 0.1]}), ("A", {})]
    scored = build.scored(rows)
    assert figure(scored) is None
    assert figure(scored.clear()) is None
    assert figure(scored.head(1)) is not None
    not_a_number = pl.Series([[-1.0, math.nan, -1.0, -1.0]])
    assert figure(scored.head(1).with_columns(option_logprobs=not_a_number)) is None


def test_reliability_tables_equal_scikit_learns(random_table):
    p, gold = option_probabilities(random_table), random_table["answer_index"].to_numpy()
    result = calibration(random_table)
    for table, strategy in (("bins", "uniform"), ("adaptive_bins", "quantile")):
        truth, belief = calibration_curve(p.argmax(axis=1) == gold, p.max(axis=1), n_bins=10, strategy=strategy)
        assert [row["accuracy"] for row in result[table]] == pytest.approx(list(truth))
        assert [row["confidence"] for row in result[table]] == pytest.approx(list(belief))
        assert sum(row["n"] for row in result[table]) == 600


answers = st.lists(st.tuples(st.sampled_from([0.3, 0.5, 0.7, 0.9]), st.booleans()), min_size=1, max_size=5)


@settings(max_examples=30, deadline=None)
@given(answers)
def test_risk_of_equal_confidences_is_the_mean_over_all_their_orders(rows):
    confidence, wrong = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    curves = [
        np.cumsum(wrong[list(order)]) / np.arange(1, len(rows) + 1)
        for order in permutations(range(len(rows)))
        if all(np.diff(confidence[list(order)]) <= 0)
    ]
    assert risk_by_coverage(confidence, wrong) == pytest.approx(np.mean(curves, axis=0))


def test_risk_at_full_coverage_is_one_minus_accuracy_with_uncommitted_and_invalid_as_wrong(random_table):
    result = selective_risk(random_table)
    assert random_table["is_uncommitted"].any()
    assert random_table["is_invalid"].any()
    assert result["curve"][-1]["coverage"] == 1
    assert result["curve"][-1]["risk"] == pytest.approx(1 - random_table["is_correct"].mean())
    assert [row["coverage"] for row in result["curve"]] == pytest.approx(np.arange(1, 11) / 10)
    least = [row["least_confidence"] for row in result["curve"]]
    assert least == sorted(least, reverse=True)
    assert 0 < result["excess_aurc"] < result["aurc"] < 1


@pytest.mark.parametrize(("answer", "risk"), [("A", 0.0), ("B", 1.0)])
def test_all_right_and_all_wrong_leave_nothing_to_rank(build, answer, risk):
    p = [0.7, 0.1, 0.1, 0.1] if answer == "A" else [0.1, 0.7, 0.1, 0.1]
    result = selective_risk(build.scored([(answer, {}, {"probabilities": p})] * 3))
    assert (result["aurc"], result["excess_aurc"]) == (risk, 0.0)
    assert {row["risk"] for row in result["curve"]} == {risk}


@settings(max_examples=20, deadline=None)
@given(order=st.permutations(range(60)))
def test_figures_do_not_depend_on_the_order_of_rows(order):
    rng = np.random.default_rng(0)
    logs = np.log(np.round(rng.dirichlet([1] * 3, 60), 1) + 0.05)  # rounded, so that many confidences are equal
    gold = rng.integers(0, 3, 60)
    table = pl.DataFrame({"answer_index": gold, "is_correct": logs.argmax(1) == gold, "option_logprobs": logs.tolist()})
    first, second = calibration(table), calibration(table[list(order)])
    for key in ("ece", "adaptive_ece", "brier", "mean_confidence"):
        assert second[key] == pytest.approx(first[key])
    assert 0 <= first["ece"] <= 1
    assert 0 <= first["brier"] <= 2
    assert selective_risk(table[list(order)])["aurc"] == pytest.approx(selective_risk(table)["aurc"])
