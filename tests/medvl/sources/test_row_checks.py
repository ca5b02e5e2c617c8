import pytest

from medvl.errors import DataError
from medvl.sources.row_checks import check_known, check_patient, file_name_of, is_number, unique_rows
from medvl.sources.tables import TableRow, read_table


@pytest.mark.parametrize("text", ["a.png", "x/a.png", "x\\y\\a.png", "C:\\x/a.png"])
def test_a_file_name_is_the_last_part_of_any_path(text):
    assert file_name_of(text) == "a.png"


def test_a_known_value_is_given_back_and_another_is_refused_with_its_place():
    assert check_known("1", "Train", {"1": "train", "0": "test"}, "t.csv row 2") == "1"
    with pytest.raises(DataError) as caught:
        check_known("2", "Train", ("1", "0"), "t.csv row 2", "Use it as published.")
    assert str(caught.value) == "t.csv row 2: expected Train to be one of 1, 0, found '2'. Use it as published."
    with pytest.raises(DataError, match=r"found ''\. Correct the row or use the table as published"):
        check_known("", "Train", ("1", "0"), "t.csv row 2")


@pytest.mark.parametrize(
    ("text", "digits", "same"),
    [
        ("7", "0007", True),
        ("007", "7", True),
        ("8", "7", False),
        ("7.0", "7", False),
        ("", "0", False),
        ("0", "000", True),
        ("1" * 5000, "1", False),
        ("0" * 5000 + "1", "1", True),
        ("\u0667", "7", False),
    ],
)
def test_numbers_are_compared_without_leading_zeros(text, digits, same):
    assert is_number(text, digits) is same


def test_a_row_with_another_patient_than_its_name_is_refused():
    row = TableRow(5, "t.csv row 5", {"patient": "12"})
    check_patient(row, "patient", "0012", "patient0012_a")
    with pytest.raises(DataError, match=r"t\.csv row 5: expected patient 13 as in the name patient013_a, found '12'"):
        check_patient(row, "patient", "013", "patient013_a")


def test_rows_that_repeat_count_once_and_rows_that_disagree_are_refused(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("name,plane\na,1\nb,2\nA,1\na,1\n")
    warnings: list[str] = []
    rows = unique_rows(table, read_table(table, ["name"]), lambda row: row["name"], ["plane"], warnings)
    assert [row["name"] for row in rows] == ["a", "b"]
    assert warnings == ["t.csv: 2 rows (row 4, row 5) repeated word for word; each counts once."]
    warnings.clear()
    unique_rows(table, read_table(table, ["name"]), lambda row: row["name"], ["plane"], warnings, "train/t.csv")
    assert warnings[0].startswith("train/t.csv: 2 rows")
    table.write_text("name,plane\na,1\na,2\n")
    with pytest.raises(DataError, match=r"t\.csv row 3: expected plane '1' for a as in row 2, found '2'"):
        unique_rows(table, read_table(table, ["name"]), lambda row: row["name"], ["plane"], [])
