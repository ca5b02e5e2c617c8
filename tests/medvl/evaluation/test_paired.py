from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from medvl.errors import DataError
from medvl.evaluation.intervals import clustered_bootstrap_ci
from medvl.evaluation.paired import (
    exact_difference_ci,
    holm,
    mcnemar_exact,
    mcnemar_mid_p,
    paired_bootstrap_difference,
    paired_macro_difference,
)

pairs = st.lists(
    st.tuples(st.booleans(), st.booleans(), st.integers(0, 5), st.sampled_from("PV")), min_size=1, max_size=50
)


def columns(rows):
    return [np.array(column) for column in zip(*rows, strict=True)]


def answers(gained, lost, both):
    before = [0] * gained + [1] * lost + [1] * both
    after = [1] * gained + [0] * lost + [1] * both
    return before, after


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 5))
def test_mcnemar_equals_the_binomial_test_of_the_discordant_items(gained, lost, both):
    expected = binomtest(gained, gained + lost, 0.5).pvalue if gained + lost else 1.0
    assert mcnemar_exact(*answers(gained, lost, both)) == pytest.approx(expected, rel=1e-9)


def test_mcnemar_without_disagreement_or_items_is_one():
    assert mcnemar_exact([1, 0], [1, 0]) == 1.0
    assert mcnemar_exact([], []) == 1.0


@given(st.integers(0, 40), st.integers(0, 40))
def test_mid_p_is_the_exact_p_less_half_of_both_tables_like_the_one_seen(gained, lost):
    expected = 1.0
    if gained != lost:
        expected = binomtest(gained, gained + lost).pvalue - binom.pmf(gained, gained + lost, 0.5)
    assert mcnemar_mid_p(*answers(gained, lost, 3)) == pytest.approx(expected, rel=1e-9)


def test_both_tests_equal_a_published_example():
    # Airway hyper-responsiveness before and after transplantation, Fagerland et al. 2013: 7 and 1 of 21 children.
    before, after = answers(7, 1, 13)
    assert mcnemar_exact(before, after) == pytest.approx(0.0703, abs=5e-5)
    assert mcnemar_mid_p(before, after) == pytest.approx(0.0391, abs=5e-5)


def test_mid_p_without_disagreement_items_or_with_a_tie_is_one():
    assert mcnemar_mid_p([], []) == mcnemar_mid_p([1, 0], [1, 0]) == mcnemar_mid_p([1, 0], [0, 1]) == 1.0


@settings(max_examples=60, deadline=None)
@given(pairs)
def test_difference_is_antisymmetric_bounded_and_inside_its_interval(rows):
    a, b, groups, _ = columns(rows)
    estimate, low, high = paired_bootstrap_difference(a, b, groups, resamples=200)
    assert -1 <= low <= estimate <= high <= 1
    assert high - low > 1e-6
    back = paired_bootstrap_difference(b, a, groups, resamples=200)[0]
    assert back == pytest.approx(-estimate)
    assert mcnemar_exact(a, b) == mcnemar_exact(b, a)


@settings(max_examples=60, deadline=None)
@given(pairs)
def test_macro_difference_is_antisymmetric_bounded_and_inside_its_interval(rows):
    a, b, groups, tasks = columns(rows)
    estimate, low, high = paired_macro_difference(a, b, tasks, groups, resamples=200)
    assert -1 <= low <= estimate + 1e-12
    assert estimate - 1e-12 <= high <= 1
    assert high - low > 1e-6
    assert paired_macro_difference(b, a, tasks, groups, resamples=200)[0] == pytest.approx(-estimate)


def test_swapping_the_models_mirrors_the_interval_up_to_resampling_noise():
    rng = np.random.default_rng(2)
    a, b, groups = rng.random(500) < 0.4, rng.random(500) < 0.6, rng.integers(0, 60, 500)
    _, low, high = paired_bootstrap_difference(a, b, groups)
    _, low_back, high_back = paired_bootstrap_difference(b, a, groups)
    assert (low_back, high_back) == pytest.approx((-high, -low), abs=0.015)


def test_interval_is_that_of_the_differences_when_groups_differ():
    a, b, groups = [0, 0, 1, 1, 0, 1], [1, 1, 1, 0, 1, 1], [0, 0, 1, 1, 2, 2]
    expected = clustered_bootstrap_ci(np.array(b) - np.array(a), groups)
    assert paired_bootstrap_difference(a, b, groups) == (pytest.approx(1 / 3), *expected)


def test_pairing_narrows_the_interval_of_two_models_that_agree_mostly():
    rng = np.random.default_rng(5)
    a = rng.random(400) < 0.5
    b = a ^ (rng.random(400) < 0.02)
    groups = np.arange(400)
    _, low, high = paired_bootstrap_difference(a, b, groups)
    _, low_loose, high_loose = paired_bootstrap_difference(a, rng.permutation(b), groups)
    assert high - low < 0.4 * (high_loose - low_loose)


def test_models_that_agree_everywhere_still_get_an_interval_with_width():
    estimate, low, high = paired_bootstrap_difference([1, 0, 1, 0], [1, 0, 1, 0], [0, 0, 1, 1])
    assert estimate == 0
    assert low == pytest.approx(-high)
    assert 0.3 < high < 1


def test_a_gain_everywhere_reaches_one_but_not_from_one():
    estimate, low, high = paired_bootstrap_difference([0] * 20, [1] * 20, [0] * 20)
    assert (estimate, high) == (1.0, 1.0)
    assert 0.5 < low < 1


@pytest.mark.parametrize(("gained", "lost", "n"), [(3, 1, 10), (0, 0, 5), (8, 0, 8), (20, 30, 100)])
def test_exact_difference_interval_covers_at_least_as_often_as_stated(gained, lost, n):
    low, high = exact_difference_ci(gained, lost, n)
    assert low < (gained - lost) / n < high or (gained - lost) / n in (low, high)
    rng = np.random.default_rng(0)
    p_gain, p_loss = (gained + 0.5) / (n + 1.5), (lost + 0.5) / (n + 1.5)
    drawn = rng.multinomial(n, [p_gain, p_loss, 1 - p_gain - p_loss], size=400)
    covered = 0
    for g, loss, _ in drawn:
        lo, hi = exact_difference_ci(int(g), int(loss), n)
        covered += lo <= p_gain - p_loss <= hi
    assert covered >= 380


def test_no_items_or_unequal_lengths_are_refused():
    with pytest.raises(DataError):
        paired_bootstrap_difference([], [], [])
    with pytest.raises(DataError, match="same items twice, got 2 and 1"):
        mcnemar_exact([1, 0], [1])


def test_holm_equals_a_worked_example_and_passes_none_through():
    assert holm([0.01, None, 0.04, 0.03, 0.005]) == pytest.approx([0.03, None, 0.06, 0.06, 0.02])
    assert holm([]) == []
    assert holm([None]) == [None]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.randoms())
def test_holm_never_lowers_a_p_keeps_their_order_and_ignores_the_order_given(ps, random):
    adjusted = holm(ps)
    assert all(p <= q <= 1 for p, q in zip(ps, adjusted, strict=True))
    assert min(adjusted) == pytest.approx(min(1.0, min(ps) * len(ps)))
    ranked = [q for _, q in sorted(zip(ps, adjusted, strict=True))]
    assert ranked == sorted(ranked)
    order = list(range(len(ps)))
    random.shuffle(order)
    assert holm([ps[i] for i in order]) == [adjusted[i] for i in order]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_the_closed_test_of_all_bonferroni_tests(ps):
    """A hypothesis falls when every set of hypotheses that holds it falls by Bonferroni (Marcus et al. 1976)."""
    everyone = range(len(ps))
    sets = list(chain.from_iterable(combinations(everyone, size) for size in range(1, len(ps) + 1)))
    closed = [max(min(1.0, len(some) * min(ps[j] for j in some)) for some in sets if i in some) for i in everyone]
    assert holm(ps) == pytest.approx(closed)


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 30))
def test_mcnemar_is_that_of_statsmodels(gained, lost, both):
    before, after = answers(gained, lost, both)
    expected = mcnemar([[both, lost], [gained, 0]], exact=True).pvalue
    assert mcnemar_exact(before, after) == pytest.approx(1.0 if gained == lost == 0 else expected)


@pytest.mark.parametrize("pvalues", [[0.03], [0.01, 0.04, 0.03, 0.005], [0.2, 0.2, 0.2], [0.0, 1.0, 0.5, 0.024]])
def test_holm_is_that_of_statsmodels(pvalues):
    assert holm(pvalues) == pytest.approx(multipletests(pvalues, method="holm")[1].tolist())
