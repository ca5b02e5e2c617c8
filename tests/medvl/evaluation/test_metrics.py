import math

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.dummy import DummyClassifier
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss, recall_score

from medvl.evaluation import metrics
from medvl.evaluation.intervals import exact_ci
from medvl.evaluation.option_scores import normalised, option_scores

OPTIONS = ("w", "x", "y", "z")


def option_probabilities(scored):
    return np.exp(normalised(option_scores(scored)))


def counted_prediction(scored):
    return scored.select(
        pl.when(pl.col("is_uncommitted") | pl.col("is_invalid"))
        .then(pl.lit("wrong"))
        .otherwise("predicted_text")
        .alias("t")
    )["t"].to_numpy()


@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true")
def test_balanced_accuracy_equals_scikit_learns(random_table):
    assert random_table["is_uncommitted"].any()
    expected = balanced_accuracy_score(random_table["answer"].to_numpy(), counted_prediction(random_table))
    assert metrics.balanced_accuracy(random_table) == pytest.approx(expected)


def test_class_recall_equals_scikit_learns_and_counts_add_up(random_table):
    table = metrics.per_class_recall(random_table)
    assert list(table) == list(OPTIONS)
    expected = recall_score(
        random_table["answer"].to_numpy(), counted_prediction(random_table), labels=list(OPTIONS), average=None
    )
    assert [row["recall"] for row in table.values()] == pytest.approx(list(expected))
    assert sum(row["n"] for row in table.values()) == 600
    assert all(row["ci95"][0] <= row["recall"] <= row["ci95"][1] for row in table.values())


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(["A", "B", "C", None]), st.sampled_from("ABC")), min_size=1, max_size=12))
@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true")
@pytest.mark.filterwarnings("ignore:A single label was found")
def test_any_table_however_small_has_scikit_learns_accuracies_and_levels(build, rows):
    """One class, one item, nothing answered: as many cases as there are short tables."""
    scored = build.scored([(answer, {"right": right}) for answer, right in rows])
    gold, given_text = scored["answer"].to_numpy(), counted_prediction(scored)
    assert metrics.accuracy(scored) == pytest.approx(accuracy_score(gold, given_text))
    assert metrics.balanced_accuracy(scored) == pytest.approx(balanced_accuracy_score(gold, given_text))
    nothing_seen = np.zeros((len(gold), 1))
    majority = DummyClassifier(strategy="most_frequent").fit(nothing_seen, gold)
    assert metrics.majority_level(scored) == pytest.approx(majority.score(nothing_seen, gold))
    letters = scored["answer_letter"].to_numpy()
    assert metrics.always_a_level(scored) == pytest.approx(accuracy_score(letters, np.full(len(letters), "A")))


def test_loss_equals_scikit_learns(random_table):
    p, gold = option_probabilities(random_table), random_table["answer_index"].to_numpy()
    outside = -np.log1p(-random_table["outside_mass"].to_numpy()).mean()
    assert metrics.negative_log_likelihood(random_table) == pytest.approx(log_loss(gold, p) + outside)


def test_loss_is_absent_unless_every_item_has_scores(build):
    scored = build.scored([("A", {}, {"probabilities": [0.7, 0.1, 0.1, 0.1]}), ("A", {})])
    assert metrics.negative_log_likelihood(scored) is None


def test_macro_accuracy_weighs_tasks_equally_and_leaves_constant_answers_out(build):
    rows = [("A", {"task": "PI"})] * 8 + [("B", {"task": "VC", "options": ("yes", "no")})] * 2
    assert metrics.macro_accuracy(build.scored(rows)) == pytest.approx(0.5)
    assert metrics.accuracy(build.scored(rows)) == pytest.approx(0.8)
    with_constant = build.scored([*rows, *[("A", {"task": "VC", "constant": True})] * 6, ("A", {"task": "CD"})])
    assert metrics.macro_accuracy(with_constant) == pytest.approx((1 + 0 + 1) / 3)
    only_constant = build.scored([("A", {"constant": True})])
    assert metrics.macro_accuracy(only_constant) is None
    assert metrics.accuracy(only_constant) == 1.0


def test_macro_of_a_level_weighs_tasks_equally_and_leaves_constant_answers_out(build):
    rows = [("A", {"task": "PI"})] * 8 + [("A", {"task": "VC", "options": ("yes", "no"), "right": "B"})] * 2
    constant = [("A", {"task": "CD", "options": ("no",), "constant": True})] * 5
    scored = build.scored([*rows, *constant])
    assert metrics.macro_of(metrics.chance_level, scored) == pytest.approx((1 / 4 + 1 / 2) / 2)
    assert metrics.macro_of(metrics.always_a_level, scored) == pytest.approx((1 + 0) / 2)
    assert metrics.macro_of(metrics.accuracy, scored) == metrics.macro_accuracy(scored)
    assert metrics.macro_of(metrics.chance_level, scored.clear()) is None


def test_majority_level_takes_each_tasks_own_answer_by_text_not_by_letter(build):
    rows = [
        ("A", {"task": "PI", "right": "A", "options": ("head", "femur")}),
        ("A", {"task": "PI", "right": "B", "options": ("femur", "head")}),
        ("A", {"task": "PI", "right": "C", "options": ("femur", "heart", "head", "liver")}),
        ("A", {"task": "PI", "right": "A", "options": ("femur", "head")}),
        ("A", {"task": "CD", "right": "B", "options": ("benign", "normal")}),
    ]
    scored = build.scored(rows)
    assert metrics.majority_level(scored) == pytest.approx((3 + 1) / 5)
    assert metrics.always_a_level(scored) == pytest.approx(2 / 5)
    assert metrics.chance_level(scored) == pytest.approx((4 * 0.5 + 0.25) / 5)


def test_letters_of_uncommitted_answers_are_counted_and_invalid_stands_apart(build):
    rows = [("A", {}, {"outside_mass": 0.9}), ("B", {"right": "B"}), (None, {"right": "C"})]
    assert metrics.letter_histogram(build.scored(rows)) == {
        "gold": {"A": 1, "B": 1, "C": 1, "D": 0},
        "predicted": {"A": 1, "B": 1, "C": 0, "D": 0, "invalid": 1},
    }


def test_without_rows_every_figure_is_absent_not_zero(build):
    nothing = build.scored([("A", {})]).clear()
    for figure in (
        metrics.accuracy,
        metrics.macro_accuracy,
        metrics.chance_level,
        metrics.always_a_level,
        metrics.majority_level,
        metrics.balanced_accuracy,
        metrics.negative_log_likelihood,
    ):
        assert figure(nothing) is None
    assert metrics.per_class_recall(nothing) == {}
    assert metrics.letter_histogram(nothing) == {"gold": {}, "predicted": {"invalid": 0}}


def test_a_class_answered_all_right_has_the_exact_interval(build):
    rows = [("A", {"group": f"g{n}"}) for n in range(6)]
    assert metrics.per_class_recall(build.scored(rows))["w"]["ci95"] == list(exact_ci(6, 6))


@settings(max_examples=25, deadline=None)
@given(order=st.permutations(range(60)))
def test_figures_do_not_depend_on_the_order_of_rows(order):
    rng = np.random.default_rng(0)
    logs = np.log(np.round(rng.dirichlet([1] * 3, 60), 1) + 0.05)  # rounded, so that many confidences are equal
    table = pl.DataFrame(
        {
            "task": rng.choice(["PI", "VG"], 60),
            "answer": rng.choice(["w", "x"], 60),
            "answer_index": rng.integers(0, 3, 60),
            "is_correct": rng.random(60) < 0.5,
            "constant_answer": rng.random(60) < 0.1,
            "option_logprobs": logs.tolist(),
        }
    )
    shuffled = table[list(order)]
    for figure in (metrics.macro_accuracy, metrics.majority_level, metrics.balanced_accuracy, metrics.accuracy):
        assert figure(shuffled) == pytest.approx(figure(table))
    assert math.isfinite(metrics.negative_log_likelihood(shuffled))
