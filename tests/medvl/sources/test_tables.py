import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvl.errors import DataError
from medvl.sources.tables import read_table

COLUMNS = ["Image_name", "Train"]


def write(folder, content: str | bytes, name: str = "table.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("delimiter", [";", ",", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_blanks_delimiters_and_line_ends_do_not_matter(tmp_path, delimiter, end):
    text = end.join(delimiter.join(row) for row in [("Image_name", " Train "), ("a b", "1 "), ("c", " 0")]) + end
    rows = read_table(write(tmp_path, text), COLUMNS)
    assert [dict(row.values) for row in rows] == [
        {"Image_name": "a b", "Train": "1"},
        {"Image_name": "c", "Train": "0"},
    ]
    assert [row.number for row in rows] == [2, 3]
    assert rows[0].where == "table.csv row 2"
    assert rows[0]["Train"] == "1"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16"])
def test_encodings_of_spreadsheets_are_understood(tmp_path, encoding):
    rows = read_table(write(tmp_path, "Image_name;Train\nÜbersicht é;1\n".encode(encoding)), COLUMNS)
    assert rows[0]["Image_name"] == "Übersicht é"


def test_blank_rows_are_passed_over_but_counted(tmp_path):
    rows = read_table(write(tmp_path, "Image_name;Train\n\na;1\n;\nb;0\n\n"), COLUMNS)
    assert [(row["Image_name"], row.number) for row in rows] == [("a", 3), ("b", 5)]


def test_a_quoted_line_break_is_one_row_as_in_a_spreadsheet(tmp_path):
    rows = read_table(write(tmp_path, 'Image_name;Train\n"a\nb;c";1\nd;0\n'), COLUMNS)
    assert [(row["Image_name"], row.number) for row in rows] == [("a\nb;c", 2), ("d", 3)]


def test_a_missing_column_is_named_with_the_columns_found_and_a_near_match(tmp_path):
    with pytest.raises(
        DataError, match=r"table\.csv: expected column.s. 'Image_name', found 'image name', 'Train'.*Is 'image name'"
    ):
        read_table(write(tmp_path, "image name,Train\na,1\n"), COLUMNS)


def test_a_missing_column_without_a_near_match_names_the_published_table(tmp_path):
    with pytest.raises(DataError, match=r"'Train', found 'Image_name', 'x'\. Use the table as published"):
        read_table(write(tmp_path, "Image_name;x\na;1\n"), COLUMNS)


@pytest.mark.parametrize(("row", "fields"), [("b", 1), ("b;1;2", 3)])
def test_a_row_of_another_length_is_named(tmp_path, row, fields):
    with pytest.raises(DataError, match=rf"table\.csv row 3: expected 2 fields .*found {fields}"):
        read_table(write(tmp_path, f"Image_name;Train\na;1\n{row}\n"), COLUMNS)


def test_a_required_column_there_twice_is_refused(tmp_path):
    with pytest.raises(DataError, match="'Train' once, found it 2 times"):
        read_table(write(tmp_path, "Image_name;Train;Train \na;1;0\n"), COLUMNS)


def test_an_open_quote_is_refused_instead_of_swallowing_rows(tmp_path):
    with pytest.raises(DataError, match=r"table\.csv row 3.*quotes"):
        read_table(write(tmp_path, 'Image_name;Train\na;1\n"b;0\nc;1\n'), COLUMNS)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "empty file"),
        (b" \n\n", "empty file"),
        (b"PK\x03\x04xlsx", "binary file"),
        (b"a;b\0\n", "binary file"),
        (b"Image_name;Train\n", "found none"),
        (b"<!DOCTYPE html>\n<html>", "found '<!DOCTYPE html>'"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, content, found):
    with pytest.raises(DataError, match=rf"table\.csv.*{found}"):
        read_table(write(tmp_path, content), COLUMNS)


def test_an_absent_table_is_named(tmp_path):
    with pytest.raises(DataError, match=r"none\.csv.*cannot be opened"):
        read_table(tmp_path / "none.csv", COLUMNS)


CELL = st.text(st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)


@given(st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=8), st.sampled_from([";", ",", "\t"]))
def test_what_a_spreadsheet_writes_is_what_is_read(tmp_path_factory, cells, delimiter):
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=delimiter)
    writer.writerow(["Image_name", "Train", "note"])
    writer.writerows(cells)
    path = write(tmp_path_factory.mktemp("t"), buffer.getvalue())
    expected = [(i, *(c.strip() for c in row)) for i, row in enumerate(cells, start=2) if any(c.strip() for c in row)]
    if not expected:
        with pytest.raises(DataError, match="found none"):
            read_table(path, COLUMNS)
        return
    rows = read_table(path, COLUMNS)
    assert [(r.number, r["Image_name"], r["Train"], r["note"]) for r in rows] == expected
