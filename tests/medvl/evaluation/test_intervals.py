import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, bootstrap
from statsmodels.stats.proportion import proportion_confint

from medvl.errors import DataError
from medvl.evaluation.intervals import accuracy_ci, clustered_bootstrap_ci, exact_ci, groups_agree, macro_bootstrap_ci

answers = st.lists(st.tuples(st.booleans(), st.integers(0, 6), st.sampled_from("PVG")), min_size=1, max_size=60)


def columns(rows):
    return [np.array(column) for column in zip(*rows, strict=True)]


@given(st.integers(0, 400), st.integers(0, 400), st.sampled_from([0.8, 0.95, 0.99]))
def test_exact_interval_equals_scipys(a, b, level):
    k, n = min(a, b), max(a, b, 1)
    expected = binomtest(k, n).proportion_ci(level, method="exact")
    assert exact_ci(k, n, level=level) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_exact_interval_equals_published_tables(golden):
    table = golden("exact_intervals")
    for (k, n), expected in zip(table["input"], table["expected"], strict=True):
        assert exact_ci(k, n) == pytest.approx(expected, abs=table["tolerance"])


def test_without_trials_nothing_is_known():
    assert exact_ci(0, 0) == (0.0, 1.0)
    assert accuracy_ci([], []) == (0.0, 1.0)


@settings(max_examples=60, deadline=None)
@given(answers)
def test_accuracy_interval_is_within_bounds_encloses_the_estimate_and_has_width(rows):
    right, groups, _ = columns(rows)
    low, high = accuracy_ci(right, groups, resamples=200)
    assert 0 <= low <= right.mean() <= high <= 1
    assert high - low > 1e-6


@settings(max_examples=60, deadline=None)
@given(answers, st.randoms())
def test_intervals_depend_on_neither_order_nor_group_names(rows, random):
    right, groups, tasks = columns(rows)
    order = list(range(len(rows)))
    random.shuffle(order)
    renamed = np.array([f"patient {97 - 3 * g}" for g in groups])
    assert accuracy_ci(right[order], renamed[order], resamples=200) == pytest.approx(
        accuracy_ci(right, groups, resamples=200)
    )
    assert macro_bootstrap_ci(right[order], tasks[order], renamed[order], resamples=200) == pytest.approx(
        macro_bootstrap_ci(right, tasks, groups, resamples=200)
    )


@settings(max_examples=60, deadline=None)
@given(answers)
def test_macro_interval_is_within_bounds_encloses_the_estimate_and_has_width(rows):
    right, groups, tasks = columns(rows)
    low, high = macro_bootstrap_ci(right, tasks, groups, resamples=200)
    estimate = np.mean([right[tasks == t].mean() for t in np.unique(tasks)])
    assert 0 <= low <= estimate + 1e-12
    assert estimate - 1e-12 <= high <= 1
    assert high - low > 1e-6


def test_bootstrap_equals_a_plain_resampling_loop():
    rng = np.random.default_rng(3)
    groups = rng.integers(0, 40, 300)
    values = rng.random(300) < np.linspace(0.2, 0.9, 40)[groups]
    by_group = [values[groups == g] for g in range(40)]
    plain = [np.concatenate([by_group[g] for g in rng.integers(0, 40, 40)]).mean() for _ in range(4000)]
    low, high = clustered_bootstrap_ci(values, groups, resamples=4000)
    assert (low, high) == pytest.approx(tuple(np.quantile(plain, [0.025, 0.975])), abs=0.01)


def test_bootstrap_equals_scipys_over_groups():
    """scipy resamples groups when it is given their sums and sizes."""
    rng = np.random.default_rng(5)
    groups = np.concatenate([np.arange(50), rng.integers(0, 50, 350)])
    values = rng.random(400) < np.linspace(0.1, 0.9, 50)[groups]
    sums, sizes = np.bincount(groups, weights=values), np.bincount(groups)
    expected = bootstrap(
        (sums, sizes),
        lambda total, size, axis: total.sum(axis) / size.sum(axis),
        paired=True,
        vectorized=True,
        method="percentile",
        n_resamples=4000,
        rng=np.random.default_rng(6),
    ).confidence_interval
    assert clustered_bootstrap_ci(values, groups, resamples=4000) == pytest.approx(tuple(expected), abs=0.01)


def test_macro_bootstrap_equals_a_plain_resampling_loop():
    rng = np.random.default_rng(4)
    n, n_groups = 600, 30
    groups, tasks = rng.integers(0, n_groups, n), rng.choice(["P", "V", "G"], n, p=[0.7, 0.2, 0.1])
    values = rng.random(n) < np.linspace(0.2, 0.9, n_groups)[groups]
    members = [np.flatnonzero(groups == g) for g in range(n_groups)]
    plain = []
    for _ in range(3000):
        rows = np.concatenate([members[g] for g in rng.integers(0, n_groups, n_groups)])
        plain.append(np.mean([values[rows][tasks[rows] == t].mean() for t in "PVG"]))
    low, high = macro_bootstrap_ci(values, tasks, groups, resamples=3000)
    assert (low, high) == pytest.approx(tuple(np.quantile(plain, [0.025, 0.975])), abs=0.015)


def test_interval_covers_the_truth_where_an_interval_over_items_would_not():
    rng = np.random.default_rng(0)
    clustered = items = 0
    for _ in range(200):
        rate = rng.beta(1.2, 0.8, 40)  # mean .6, patients differ much
        groups = np.repeat(np.arange(40), 25)
        right = rng.random(1000) < rate[groups]
        low, high = accuracy_ci(right, groups, resamples=300)
        clustered += low <= 0.6 <= high
        low, high = exact_ci(int(right.sum()), 1000)
        items += low <= 0.6 <= high
    assert clustered >= 178  # 190 expected at 95 %, a little fewer with 40 groups
    assert items < 130


@pytest.mark.parametrize("right", [[1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 1, 0]])
def test_groups_that_do_not_differ_get_the_exact_interval(right):
    assert groups_agree(right, [0, 0, 1, 1])
    assert accuracy_ci(right, [0, 0, 1, 1]) == exact_ci(sum(right), 4)


def test_a_single_group_gets_the_exact_interval():
    assert accuracy_ci([1, 1, 0, 1], ["p"] * 4) == exact_ci(3, 4)


def test_macro_interval_of_perfect_answers_reaches_from_below_one_to_one():
    low, high = macro_bootstrap_ci(np.ones(40), ["P", "V"] * 20, np.repeat(np.arange(10), 4))
    assert 0.8 < low < 0.99
    assert high == 1.0


def test_macro_interval_is_defined_when_a_task_is_in_one_group_only():
    right = np.array([1, 0] * 20 + [1, 1, 0])
    tasks = np.array(["P"] * 40 + ["V"] * 3)
    groups = np.array([*np.repeat(np.arange(10), 4), 99, 99, 99])
    low, high = macro_bootstrap_ci(right, tasks, groups)
    assert high - low > 0.2  # three answers of one patient leave much open


def test_same_seed_same_interval_other_seed_other_interval():
    rng = np.random.default_rng(1)
    values, groups = rng.random(200), rng.integers(0, 50, 200)
    assert clustered_bootstrap_ci(values, groups) == clustered_bootstrap_ci(values, groups)
    assert clustered_bootstrap_ci(values, groups) != clustered_bootstrap_ci(values, groups, seed=1)


def test_draws_in_several_chunks_cover_the_same_range(monkeypatch):
    rng = np.random.default_rng(1)
    values, groups = rng.random(200), rng.integers(0, 50, 200)
    whole = clustered_bootstrap_ci(values, groups)
    monkeypatch.setattr("medvl.evaluation.intervals._CHUNK_CELLS", 1000)
    assert clustered_bootstrap_ci(values, groups) == pytest.approx(whole)


@pytest.mark.parametrize(("values", "groups"), [([], []), ([1.0, 0.0], ["a"])])
def test_no_items_or_unequal_lengths_are_refused(values, groups):
    with pytest.raises(DataError, match="one group an item"):
        clustered_bootstrap_ci(values, groups)


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_exact_interval_is_that_of_statsmodels(counts):
    successes, n = counts
    assert exact_ci(successes, n) == pytest.approx(proportion_confint(successes, n, method="beta"), abs=1e-9)
