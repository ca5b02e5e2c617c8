"""Spreadsheet files (.xlsx), read row by row."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from medvl.errors import DataError
from medvl.sources.tables import read_table_bytes


@dataclass(frozen=True, slots=True)
class SheetRow:
    """One row of a sheet.

    Attributes:
        number: Row number as a spreadsheet shows it.
        where: What to name in a message (`table.xlsx row 17`).
        values: Column -> cell (text, number, None, ...).
    """

    number: int
    where: str
    values: Mapping[str, object]

    def text(self, column: str) -> str:
        """Cell as text without blanks at its ends; empty for an empty cell, `25` for 25.0."""
        value = self.values[column]
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        return "" if value is None else str(value).strip()

    def number_in(self, column: str) -> float:
        """Cell as a number.

        Raises:
            DataError: It holds none.
        """
        value = self.values[column]
        try:
            number = float(str(value))
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise DataError(f"{self.where}: expected a number in column {column}, found {value!r}. Correct this cell.")
        return number


def read_sheet(path: Path, required_columns: Sequence[str]) -> list[SheetRow]:
    """Read the first sheet whose first row holds the columns.

    Values of formulas are those last computed. Blanks at the ends of column names are dropped, blank rows passed over
    but counted. Entities inside the file are refused by defusedxml, which openpyxl uses where it is installed.

    Args:
        path: `.xlsx` file.
        required_columns: Names that the header must hold, spelled as published.

    Returns:
        Rows in sheet order, at least one.

    Raises:
        DataError: The file is absent or no workbook, no sheet has the columns, or no row follows the header.
    """
    content = read_table_bytes(path)
    # Takes half a second, which nobody should wait for who has no workbook.
    from openpyxl import load_workbook  # type: ignore[import-untyped]

    try:
        workbook = load_workbook(BytesIO(content), read_only=True, data_only=True)
        sheets = [_cells(sheet) for sheet in workbook.worksheets]
    except Exception as error:  # openpyxl raises almost any type on damaged files
        raise DataError(
            f"{path}: expected a workbook (.xlsx), found {_reason(error)}. Download the table again."
        ) from error
    headers = [[str(cell).strip() for cell in sheet[0] if cell is not None] if sheet else [] for sheet in sheets]
    chosen = next((i for i, header in enumerate(headers) if set(required_columns) <= set(header)), None)
    if chosen is None:
        found = max(headers, key=lambda header: len(set(header) & set(required_columns)), default=[])
        missing = [name for name in required_columns if name not in found]
        raise DataError(
            f"{path}: expected column(s) {', '.join(map(repr, missing))} in the first row of a sheet, "
            f"found {', '.join(map(repr, found)) or 'no header'}. Use the table as published."
        )
    return _rows(path, sheets[chosen], required_columns)


def _reason(error: BaseException) -> str:
    """The error under those that openpyxl puts around it."""
    while inner := error.__cause__ or error.__context__:
        error = inner
    return f"{type(error).__name__}: {error}"


def _cells(sheet: Any) -> list[tuple[object, ...]]:
    # Some programs write a wrong extent, to which the read-only mode would keep.
    sheet.reset_dimensions()
    return [tuple(row) for row in sheet.iter_rows(values_only=True)]


def _rows(path: Path, sheet: Sequence[tuple[object, ...]], columns: Sequence[str]) -> list[SheetRow]:
    header = ["" if cell is None else str(cell).strip() for cell in sheet[0]]
    twice = next((name for name in columns if header.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{path}: expected column {twice!r} once, found it {header.count(twice)} times. Keep one.")
    places = {name: header.index(name) for name in columns}
    rows = []
    for number, cells in enumerate(sheet[1:], start=2):
        values = {name: cells[place] if place < len(cells) else None for name, place in places.items()}
        if any(value is not None and str(value).strip() for value in values.values()):
            rows.append(SheetRow(number, f"{path.name} row {number}", values))
    if not rows:
        raise DataError(f"{path}: expected rows below the header, found none. Download the table again.")
    return rows
