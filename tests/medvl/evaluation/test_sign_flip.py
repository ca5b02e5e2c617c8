from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, permutation_test

from medvl.evaluation.paired import mcnemar_exact
from medvl.evaluation.sign_flip import sign_flip_exact, sign_flip_sampled

rows = st.lists(st.tuples(st.integers(-1, 1), st.integers(0, 5)), min_size=1, max_size=25)


def columns(pairs):
    return [np.array(column) for column in zip(*pairs, strict=True)]


@settings(max_examples=60, deadline=None)
@given(rows)
def test_exact_p_equals_the_count_over_all_sign_patterns(pairs):
    differences, groups = columns(pairs)
    sums = [differences[groups == g].sum() for g in np.unique(groups)]
    totals = [abs(np.dot(signs, sums)) for signs in product((-1, 1), repeat=len(sums))]
    expected = np.mean(np.array(totals) >= abs(sum(sums)))
    assert sign_flip_exact(differences, groups) == pytest.approx(expected)


def test_exact_p_equals_scipys_permutation_test():
    differences = np.array([3, -1, 2, 2, 0, 1, -2, 4, 1])
    expected = permutation_test((differences,), np.sum, permutation_type="samples", n_resamples=np.inf)
    assert sign_flip_exact(differences, np.arange(9)) == pytest.approx(expected.pvalue)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 200), st.integers(0, 200))
def test_with_one_item_a_group_it_is_mcnemars_exact_test(gained, lost):
    a, b = [0] * gained + [1] * lost, [1] * gained + [0] * lost
    p = sign_flip_exact(np.subtract(b, a), np.arange(len(a)))
    assert p == pytest.approx(mcnemar_exact(a, b), rel=1e-9)
    if a:
        assert p == pytest.approx(binomtest(gained, len(a)).pvalue, rel=1e-9)


def test_items_of_one_patient_count_once():
    differences = np.ones(20)
    assert sign_flip_exact(differences, np.arange(20)) == pytest.approx(2 / 2**20)
    assert sign_flip_exact(differences, np.repeat([0, 1], 10)) == 0.5
    assert sign_flip_exact(differences, np.zeros(20)) == 1.0


def test_the_test_keeps_its_level_where_mcnemars_does_not():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(20), 10)
    clustered = items = 0
    for _ in range(400):
        # No model is better, but within a patient the two differ in one direction.
        differences = (rng.random(200) < 0.4) * rng.choice([-1, 1], 20)[groups]
        clustered += sign_flip_exact(differences, groups) <= 0.05
        items += mcnemar_exact(differences < 0, differences > 0) <= 0.05
    assert clustered <= 35  # 20 expected at 5 %
    assert items > 100


def test_no_items_or_no_difference():
    assert sign_flip_exact([], []) == 1.0
    assert sign_flip_exact([0, 0], [1, 2]) == 1.0
    assert sign_flip_exact([1, -1], ["a", "a"]) == 1.0
    assert sign_flip_sampled([], []) is None
    assert sign_flip_sampled([0.0, 0.0], [1, 2]) == 1.0


def test_drawn_patterns_come_close_to_the_count_of_all():
    rng = np.random.default_rng(2)
    differences, groups = rng.choice([-1, 0, 1], 200, p=[0.2, 0.5, 0.3]), rng.integers(0, 40, 200)
    exact = sign_flip_exact(differences, groups)
    assert 0.01 < exact < 0.9
    assert sign_flip_sampled(differences / 200, groups) == pytest.approx(exact, abs=0.02)


def test_drawn_patterns_never_give_zero_and_are_the_same_for_the_same_seed():
    contributions = np.full(50, 1 / 50)
    p = sign_flip_sampled(contributions, np.arange(50), flips=999)
    assert p == 1 / 1000
    assert sign_flip_sampled(contributions[:6], np.arange(6)) == sign_flip_sampled(contributions[:6], np.arange(6))


def test_many_groups_are_drawn_in_several_parts():
    rng = np.random.default_rng(0)
    contributions = rng.normal(size=3000) / 3000
    assert 0 < sign_flip_sampled(contributions, np.arange(3000), flips=3000) <= 1
