import re
import zipfile

import pytest
from openpyxl import Workbook

from medvl.errors import DataError
from medvl.sources.sheets import read_sheet

SHEET = "xl/worksheets/sheet1.xml"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "boxes.xlsx"


def write(path, *rows, before=()):
    workbook = Workbook()
    sheet = workbook.active
    for row in before:
        sheet.append(row)
    if before:
        sheet = workbook.create_sheet("data")
    for row in rows:
        sheet.append(row)
    workbook.save(path)


def replace_part(path, part: str, change) -> None:
    """Change the text of one part of a workbook."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts[part] = change(parts[part].decode()).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


def test_rows_keep_the_numbers_that_a_spreadsheet_shows(path):
    write(path, [" fname ", "x", "note"], ["a.png", 3, None], [None, None, None], ["b.png ", 4.5])
    rows = read_sheet(path, ["fname", "x"])
    assert [(row.number, row.where, row.text("fname"), row.number_in("x")) for row in rows] == [
        (2, "boxes.xlsx row 2", "a.png", 3),
        (4, "boxes.xlsx row 4", "b.png", 4.5),
    ]


def test_cells_are_read_as_text_or_number_whatever_the_spreadsheet_made_of_them(path):
    write(path, ["fname", "x"], [25.0, " 7 "], [None, 1e-3])
    first, second = read_sheet(path, ["fname", "x"])
    assert (first.text("fname"), first.number_in("x")) == ("25", 7)
    assert (second.text("fname"), second.number_in("x")) == ("", 0.001)


@pytest.mark.parametrize("value", [None, "left", True, "nan"])
def test_a_cell_without_a_number_is_refused(path, value):
    write(path, ["fname", "x"], ["a.png", value])
    (row,) = read_sheet(path, ["fname", "x"])
    with pytest.raises(DataError, match=rf"boxes\.xlsx row 2: expected a number in column x, found {value!r}"):
        row.number_in("x")


def test_the_first_sheet_with_the_columns_is_read(path):
    write(path, ["fname", "x"], ["a.png", 1], before=[["read me"], ["fname and x are explained here"]])
    assert [row.text("fname") for row in read_sheet(path, ["fname", "x"])] == ["a.png"]


def test_a_wrong_extent_does_not_hide_cells(path):
    write(path, ["fname", "x"], ["a.png", 1])
    replace_part(path, SHEET, lambda text: re.sub(r'<dimension ref="[^"]*"', '<dimension ref="A1"', text))
    (row,) = read_sheet(path, ["fname", "x"])
    assert row.number_in("x") == 1


def test_columns_that_lack_or_repeat_are_named(path):
    write(path, ["fname", "y"], ["a.png", 1])
    with pytest.raises(DataError, match=r"boxes\.xlsx: expected column\(s\) 'x' in .*, found 'fname', 'y'"):
        read_sheet(path, ["fname", "x"])
    write(path, ["fname", "x", "x"], ["a.png", 1, 2])
    with pytest.raises(DataError, match=r"boxes\.xlsx: expected column 'x' once, found it 2 times"):
        read_sheet(path, ["fname", "x"])


def test_an_empty_sheet_and_one_without_rows_are_refused(path):
    write(path)
    with pytest.raises(DataError, match="found no header"):
        read_sheet(path, ["fname"])
    write(path, ["fname"])
    with pytest.raises(DataError, match="expected rows below the header, found none"):
        read_sheet(path, ["fname"])


@pytest.mark.parametrize("content", [b"", b"fname,x\na.png,1\n", b"PK\x03\x04broken"])
def test_a_file_that_is_no_workbook_is_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"boxes\.xlsx: expected a workbook \(\.xlsx\)"):
        read_sheet(path, ["fname"])


def test_an_absent_file_is_named(path):
    with pytest.raises(DataError, match=r"boxes\.xlsx: the table cannot be opened \(No such file"):
        read_sheet(path, ["fname"])


def test_entities_inside_a_workbook_are_refused(path):
    write(path, ["fname", "x"], ["a.png", 1])
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
    replace_part(path, SHEET, lambda text: bomb + text.replace("<sheetData>", "<sheetData>&b;"))
    with pytest.raises(DataError, match=r"boxes\.xlsx: expected a workbook .*EntitiesForbidden"):
        read_sheet(path, ["fname", "x"])
