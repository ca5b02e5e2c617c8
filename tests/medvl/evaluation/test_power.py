import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, sem

from medvl.evaluation.power import design_effect, minimum_detectable_difference


def items_needed(difference, discordance, alpha, power):
    """Connor's sample size."""
    z = norm.ppf(1 - alpha / 2) * math.sqrt(discordance)
    return (z + norm.ppf(power) * math.sqrt(discordance - difference**2)) ** 2 / difference**2


@given(st.floats(0.02, 1.0), st.floats(0.05, 0.95), st.sampled_from([0.01, 0.05]), st.sampled_from([0.7, 0.8, 0.9]))
def test_the_difference_is_the_one_whose_sample_size_is_n(discordance, share, alpha, power):
    difference = discordance * share
    n = items_needed(difference, discordance, alpha, power)
    assert minimum_detectable_difference(n, discordance, alpha=alpha, power=power) == pytest.approx(difference)


def test_it_has_the_stated_power():
    rng = np.random.default_rng(0)
    n, discordance = 400, 0.3
    difference = minimum_detectable_difference(n, discordance)
    shares = [(discordance + difference) / 2, (discordance - difference) / 2, 1 - discordance]
    gained, lost, _ = rng.multinomial(n, shares, size=4000).T
    z = np.abs(gained - lost) / np.sqrt(gained + lost)
    assert np.mean(z > norm.ppf(0.975)) == pytest.approx(0.8, abs=0.03)


def test_grouping_divides_the_number_of_items_and_is_never_trusted_to_help():
    assert minimum_detectable_difference(800, 0.2, design_effect=2.0) == minimum_detectable_difference(400, 0.2)
    assert minimum_detectable_difference(400, 0.2, design_effect=0.5) == minimum_detectable_difference(400, 0.2)
    assert minimum_detectable_difference(400, 0.2, design_effect=None) == minimum_detectable_difference(400, 0.2)


@pytest.mark.parametrize(("n", "discordance"), [(0, 0.2), (100, 0.0), (1, 0.5), (3, 0.1), (30, 0.05)])
def test_where_nothing_can_be_found_there_is_no_difference(n, discordance):
    assert minimum_detectable_difference(n, discordance) is None


def test_design_effect_is_one_with_one_item_a_group():
    values = np.random.default_rng(0).random(50)
    assert design_effect(values, np.arange(50)) == pytest.approx(1)


@given(st.integers(2, 30), st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_with_groups_of_one_size_it_is_scipys_error_of_their_means_over_that_of_the_items(n_groups, size, seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_groups, size)) + rng.normal(size=(n_groups, 1))
    expected = (sem(values.mean(axis=1)) / sem(values.ravel())) ** 2
    assert design_effect(values.ravel(), np.repeat(np.arange(n_groups), size)) == pytest.approx(expected)


def test_items_that_repeat_within_groups_count_once():
    values = np.repeat(np.random.default_rng(0).integers(0, 2, 400), 5)
    assert design_effect(values, np.repeat(np.arange(400), 5)) == pytest.approx(5, rel=0.01)


def test_design_effect_is_the_ratio_of_the_variances_over_many_samples():
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(60), 10)
    means, effects, spreads = [], [], []
    for _ in range(400):
        values = rng.random(600) < rng.beta(2, 2, 60)[groups]
        means.append(values.mean())
        spreads.append(values.var(ddof=1) / 600)
        effects.append(design_effect(values, groups))
    assert np.mean(effects) == pytest.approx(np.var(means) / np.mean(spreads), rel=0.15)


@pytest.mark.parametrize(("values", "groups"), [([], []), ([1, 1], [0, 1]), ([0, 1], [0, 0]), ([1], [0])])
def test_design_effect_is_absent_where_it_cannot_be_told(values, groups):
    assert design_effect(values, groups) is None
