import numpy as np
import pytest
from sklearn.metrics import confusion_matrix as sklearn_matrix

from medvl.evaluation.confusion import confusion_matrix


@pytest.mark.parametrize("model", ["before", "after"])
def test_matrix_equals_the_hand_counted_table(thirty, golden, model):
    for task, expected in golden("thirty_predictions")["expected"][model]["confusion"].items():
        assert confusion_matrix(thirty[model].filter(task=task)) == expected


def test_matrix_equals_scikit_learns_and_every_item_is_in_it(random_table):
    result = confusion_matrix(random_table)
    firm = random_table.filter(~random_table["is_invalid"] & ~random_table["is_uncommitted"])
    expected = sklearn_matrix(firm["answer"].to_numpy(), firm["predicted_text"].to_numpy(), labels=result["answers"])
    assert result["counts"] == expected.tolist()
    assert sum(result["uncommitted"]) > 0
    total = np.array(result["counts"]).sum(axis=1) + result["invalid"] + result["uncommitted"]
    assert total.tolist() == [random_table.filter(answer=answer).height for answer in result["answers"]]


def test_an_answer_that_is_never_right_has_a_column_and_an_empty_line(build):
    result = confusion_matrix(build.scored([("D", {}), ("A", {})]))
    assert result["answers"] == ["w", "z"]
    assert result["counts"] == [[1, 1], [0, 0]]


def test_an_option_called_invalid_is_no_invalid_answer(build):
    rows = [("B", {"options": ("valid", "invalid")}), (None, {"options": ("valid", "other")})]
    result = confusion_matrix(build.scored(rows))
    assert result["answers"] == ["invalid", "valid"]
    assert result["counts"] == [[0, 0], [1, 0]]
    assert result["invalid"] == [0, 1]


def test_an_invalid_answer_is_not_counted_as_uncommitted_too(build):
    result = confusion_matrix(build.scored([(None, {}, {"outside_mass": 0.9})]))
    assert (result["invalid"], result["uncommitted"], result["counts"]) == ([1], [0], [[0]])


def test_without_rows_there_is_no_matrix(thirty):
    assert confusion_matrix(thirty["after"].clear()) is None
