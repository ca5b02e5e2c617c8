import numpy as np
import pytest
from sklearn.metrics import recall_score

from medvl.evaluation.letter_bias import letter_bias, letter_recalls, recall_std, top_answer, top_letter


def test_recalls_and_their_spread_equal_the_hand_counted_table(thirty, golden, as_number):
    for task, expected in golden("thirty_predictions")["expected"]["after"]["letter_bias"].items():
        result = letter_bias(thirty["after"].filter(task=task))
        assert result["recall"] == pytest.approx({k: as_number(v) for k, v in expected["recall"].items()})
        assert result["recall_std"] == pytest.approx(expected["recall_std"])
        assert sum(result["predicted"].values()) == sum(result["gold"].values()) == 12


@pytest.mark.parametrize("model", ["before", "after"])
def test_the_most_frequent_letter_and_answer_equal_the_hand_counted_table(thirty, golden, as_number, model):
    for task, expected in golden("thirty_predictions")["expected"][model]["top"].items():
        rows = thirty[model].filter(task=task)
        share = as_number(expected["share"])
        assert top_letter(rows) == {"letter": expected["letter"], "share": share, "one_letter": expected["one_letter"]}
        assert top_answer(rows) == {"answer": expected["answer"], "share": share, "one_answer": expected["one_answer"]}


@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true")
def test_letter_recall_equals_scikit_learns(random_table):
    counted = random_table["predicted_letter"].fill_null("-").to_numpy().copy()
    counted[random_table["is_uncommitted"].to_numpy()] = "-"
    expected = recall_score(random_table["answer_letter"].to_numpy(), counted, labels=list("ABCD"), average=None)
    recalls = letter_recalls(random_table)
    assert list(recalls.values()) == pytest.approx(list(expected))
    assert recall_std(recalls) == pytest.approx(np.std(expected))


def test_one_letter_is_flagged_from_95_per_cent_of_all_items(build):
    def answers(n_a, n_none):
        given = ["A"] * n_a + [None] * n_none + ["B"] * (20 - n_a - n_none)
        return build.scored([(a, {"right": "AB"[n % 2]}) for n, a in enumerate(given)])

    assert top_letter(answers(19, 1)) == {"letter": "A", "share": 0.95, "one_letter": True}
    assert top_letter(answers(18, 2)) == {"letter": "A", "share": 0.9, "one_letter": False}
    assert top_letter(answers(0, 20)) is None


def test_always_the_same_text_is_flagged_whatever_its_letter(build):
    orders = [(("head", "femur"), "A"), (("femur", "head"), "B")]
    rows = [(letter, {"options": options, "right": "A"}) for options, letter in orders * 10]
    assert top_answer(build.scored(rows)) == {"answer": "head", "share": 1.0, "one_answer": True}
    assert top_letter(build.scored(rows)) == {"letter": "A", "share": 0.5, "one_letter": None}  # all right ones are A


def test_no_flag_where_the_right_answers_do_not_vary(build):
    assert top_answer(build.scored([("A", {})] * 5))["one_answer"] is None
    assert top_letter(build.scored([("B", {})]))["one_letter"] is None


def test_spread_needs_two_letters_and_is_zero_without_preference(build):
    assert recall_std({}) is None
    assert recall_std({"A": 0.3}) is None
    assert recall_std({"A": 0.3, "B": 0.3}) == 0
    assert letter_bias(build.scored([("A", {})]).clear()) is None


def test_prior_is_absent_without_option_scores(build, random_table):
    without = letter_bias(build.scored([("A", {}), ("A", {"right": "B"})]))
    assert (without["prior"], without["prior_corrected_accuracy"]) == (None, None)
    with_scores = letter_bias(random_table)
    assert list(with_scores["prior"]) == ["4"]
    assert sum(with_scores["prior"]["4"].values()) == pytest.approx(1)
