import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from medvl.errors import DataError
from medvl.evaluation.letter_prior import (
    calibration_priors,
    divide_out,
    held_out_corrected,
    hits,
    prior_corrected_accuracy,
    prior_from_calibration_set,
    prior_from_rotations,
)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 5), st.integers(1, 4), st.integers(0, 1000))
def test_prior_from_rotations_follows_the_published_formula(k, n, seed):
    p = np.random.default_rng(seed).dirichlet([1.0] * k, (n, k)) + 1e-9
    p /= p.sum(axis=-1, keepdims=True)
    expected = np.mean([softmax(np.log(item).mean(axis=0)) for item in p], axis=0)
    assert prior_from_rotations(np.log(p)) == pytest.approx(expected)
    assert prior_from_rotations(np.log(p) - 3.0) == pytest.approx(expected)  # mass outside the options does not matter


def test_a_shared_prior_is_removed_from_what_a_model_says():
    rng = np.random.default_rng(1)
    prior, beliefs = np.array([0.6, 0.2, 0.1, 0.1]), rng.dirichlet([0.5] * 4, 3000)
    said = np.log(beliefs * prior + 1e-12)
    estimated = prior_from_calibration_set(said)
    assert estimated == pytest.approx(prior, abs=0.05)
    assert np.mean(divide_out(said, estimated).argmax(axis=1) == beliefs.argmax(axis=1)) > 0.95
    assert np.mean(said.argmax(axis=1) == beliefs.argmax(axis=1)) < 0.85
    assert np.exp(divide_out(said, estimated)).sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize(
    ("prior_of", "shape"), [(prior_from_rotations, (2, 2, 2)), (prior_from_calibration_set, (2, 2))]
)
def test_no_items_or_scores_that_are_no_numbers_give_no_prior(prior_of, shape):
    assert prior_of(np.zeros((0, *shape[1:]))) is None
    assert prior_of(np.full(shape, np.nan)) is None
    assert prior_of(np.full(shape, -np.inf)) is None


@pytest.fixture
def biased(build):
    """All answered A: yes/no items that do differ in how firmly, and four-option ones."""
    rows = []
    for n in range(40):
        right = "AB"[n % 2]
        belief = [0.7, 0.3] if right == "A" else [0.55, 0.45]
        rows.append(("A", {"options": ("yes", "no"), "right": right}, {"probabilities": belief}))
    for n in range(8):
        belief = np.full(4, 0.1)
        belief[n % 4] += 0.2
        belief[0] += 0.4
        rows.append(("A", {"right": "ABCD"[n % 4]}, {"probabilities": belief}))
    return build.scored(rows)


def test_dividing_the_prior_out_shows_what_a_one_letter_model_knows(biased):
    yes_no = biased.head(40)
    assert yes_no["is_correct"].mean() == 0.5
    assert held_out_corrected(yes_no) == 1.0
    assert prior_corrected_accuracy(yes_no, calibration_priors(yes_no)) == 1.0
    assert set(calibration_priors(biased)) == {2, 4}


def test_held_out_correction_equals_the_loop_over_items(biased):
    right = []
    for i in range(biased.height):
        others = pl.concat([biased.head(i), biased.slice(i + 1)])
        right.append(prior_corrected_accuracy(biased.slice(i, 1), calibration_priors(others)))
    assert held_out_corrected(biased) == pytest.approx(np.mean(right))


def test_a_model_without_belief_scores_chance_after_correction(build):
    rows = [("A", {"right": "ABCD"[n % 4]}, {"probabilities": [0.7, 0.1, 0.1, 0.1]}) for n in range(12)]
    assert held_out_corrected(build.scored(rows)) == pytest.approx(0.25)


def test_equal_scores_share_the_answer():
    assert hits(np.log([[0.4, 0.4, 0.2], [0.5, 0.3, 0.2]]), np.array([1, 1])).tolist() == [0.5, 0.0]


def test_uncommitted_answers_stay_wrong(build):
    scored = build.scored([("A", {}, {"probabilities": [0.2, 0.1, 0.05, 0.05], "outside_mass": 0.6})] * 2)
    assert held_out_corrected(scored) == 0
    assert prior_corrected_accuracy(scored, {4: [0.25] * 4}) == 0


def test_figures_are_absent_without_scores_or_fellows_and_a_missing_prior_is_refused(build, biased):
    without = build.scored([("A", {})])
    assert calibration_priors(without) is None
    assert held_out_corrected(without) is None
    assert prior_corrected_accuracy(without, {}) is None
    assert held_out_corrected(biased.head(1)) is None
    with pytest.raises(DataError, match="no letter prior for items with 4 options, only for 2"):
        prior_corrected_accuracy(biased, {2: [0.5, 0.5]})
