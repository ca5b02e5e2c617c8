import gzip

import pytest

from medvl.errors import DataError
from medvl.sources.loose_tables import find_table, find_table_folder, read_loose_table


def read(tmp_path, text, columns=("a", "b"), fields=0):
    (tmp_path / "t.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    table = read_loose_table(tmp_path / "t.csv", columns, fields)
    return [(number, [row[i] for i in table.index]) for number, row in table.rows]


def test_the_folder_of_the_first_table_is_found_plain_or_gzipped(tmp_path):
    for name in ("a/old.csv", "b/c/new.csv.gz"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    assert find_table_folder(tmp_path, ("new.csv", "old.csv")) == tmp_path / "b" / "c"
    assert find_table_folder(tmp_path, ("old.csv",)) == tmp_path / "a"
    assert find_table_folder(tmp_path, ("other.csv",)) is None


def test_columns_are_found_without_case_blanks_and_underscores(tmp_path):
    assert read(tmp_path, "B_1, Image Index\n1,2\n", ("image_index", "b1")) == [(2, ["2", "1"])]


def test_unquoted_commas_of_the_header_split_it_like_its_rows(tmp_path):
    assert read(tmp_path, "a,Size[w,h],b\n1,2,3,4\n") == [(2, ["1", "4"])]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_the_delimiter_is_the_one_that_splits_the_header(tmp_path, delimiter):
    assert read(tmp_path, "a,b\n1,2\n".replace(",", delimiter)) == [(2, ["1", "2"])]
    assert read(tmp_path, f"a{delimiter}b\n1{delimiter}'2;3,4'\n".replace("'", '"')) == [(2, ["1", "2;3,4"])]


@pytest.mark.parametrize("text", ["a,b,,,\n1,2\n", "a,b\n1,2,,\n", "a,b\r\n1,2\r\n", "\ufeffa,b\n 1 , 2 \n"])
def test_empty_ends_blanks_and_marks_do_not_count(tmp_path, text):
    assert read(tmp_path, text) == [(2, ["1", "2"])]


def test_blank_rows_are_passed_over_and_counted(tmp_path):
    assert [number for number, _ in read(tmp_path, "a,b\n\n1,2\n,\n3,4\n")] == [3, 5]


def test_a_last_field_may_be_empty_but_not_left_out(tmp_path):
    assert read(tmp_path, "a,b\n1,\n") == [(2, ["1", ""])]
    with pytest.raises(DataError, match=r"t\.csv row 2: expected 2 fields"):
        read(tmp_path, "a,b\n1\n")


def test_more_fields_than_columns_may_be_asked_for(tmp_path):
    assert read(tmp_path, "a,b,c\n1,2,3\n", fields=3) == [(2, ["1", "2"])]
    with pytest.raises(DataError, match="expected 3 fields"):
        read(tmp_path, "a,b,c\n1,2\n", fields=3)


def test_text_that_is_not_utf8_is_latin_1(tmp_path):
    assert read(tmp_path, "a,b\nMüller,2\n".encode("latin-1")) == [(2, ["Müller", "2"])]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2,3\n", "row 2: expected 2 fields"),
        ("a,c\n1,2\n", "expected column.s. 'b', found 'a', 'c'"),
        ("a;c\n1;2\n", "expected column.s. 'b', found 'a', 'c'"),
        ("a;b\n1\n", "row 2: expected 2 fields"),
        ("", "empty file"),
        (",,\n1,2\n", "no header"),
        ("a,b\n", "expected rows below the header"),
        ('a,b\n"1,2\n', "row 2: .*quotes"),
        (b"PK\x03\x04x", "binary"),
        (b"\x00\x01", "binary"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read(tmp_path, text)


def test_an_absent_table_is_refused(tmp_path):
    with pytest.raises(DataError, match="cannot be opened"):
        read_loose_table(tmp_path / "none.csv", ["a"])


def test_plain_tables_come_before_gzipped_ones_and_names_in_order(tmp_path):
    (tmp_path / "one.csv.gz").write_bytes(gzip.compress(b"a\n1\n"))
    (tmp_path / "two.csv").write_text("a\n2\n")
    assert find_table(tmp_path, ["one.csv", "two.csv"]) == tmp_path / "one.csv.gz"
    (tmp_path / "ONE.csv").write_text("a\n3\n")
    assert find_table(tmp_path, ["one.csv"]) == tmp_path / "ONE.csv"
    assert find_table(tmp_path, ["three.csv"]) is None


def test_a_damaged_gzip_file_is_refused(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(b"no gzip")
    with pytest.raises(DataError, match="gzip"):
        read_loose_table(tmp_path / "t.csv.gz", ["a"])
