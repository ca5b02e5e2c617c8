"""Small tables as users have them: spreadsheet exports with their usual blemishes."""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from medvl.errors import DataError


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of a table.

    Attributes:
        number: Row number as a spreadsheet shows it; the header is row 1.
        where: What to name in a message (`table.csv row 17`).
        values: Column -> value, both without blanks at their ends.
    """

    number: int
    where: str
    values: Mapping[str, str]

    def __getitem__(self, column: str) -> str:
        return self.values[column]


def read_table(
    path: Path, required_columns: Sequence[str], delimiters: Sequence[str] = (";", ",", "\t")
) -> list[TableRow]:
    """Read a table with a header row.

    Blanks at the ends of names and values are dropped, a byte order mark is dropped, text that is not UTF-8 is read as
    Latin-1, and the delimiter is the candidate under which the header holds the required columns. Blank rows are
    passed over but counted, so that row numbers stay those of a spreadsheet.

    Args:
        path: Text file.
        required_columns: Names that the header must hold, spelled as published.
        delimiters: Candidates, tried in order.

    Returns:
        Rows in file order, at least one.

    Raises:
        DataError: The file is absent or no text, a required column is missing or there twice, a row has another number
            of fields than the header, quotes are not closed, or no row follows the header.
    """
    text = decode_table(read_table_bytes(path), path)
    delimiter, header = _choose_delimiter(path, text, required_columns, delimiters)
    rows = []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    number = 0
    try:
        for number, fields in enumerate(reader, start=1):
            if number == 1 or not any(field.strip() for field in fields):
                continue
            where = f"{path.name} row {number}"
            if len(fields) != len(header):
                raise DataError(
                    f"{where}: expected {len(header)} fields as in the header, found {len(fields)}. "
                    f"Correct this row in {path} (a delimiter {delimiter!r} too many or too few)."
                )
            values = {name: field.strip() for name, field in zip(header, fields, strict=True)}
            rows.append(TableRow(number, where, values))
    except csv.Error as error:
        raise broken_quotes(path, number + 1, delimiter, error) from error
    if not rows:
        raise DataError(f"{path}: expected rows below the header, found none. Download the table again.")
    return rows


def read_table_bytes(path: Path) -> bytes:
    """Content of a table's file.

    Raises:
        DataError: The file is absent or may not be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        reason = error.strerror or error
        raise DataError(f"{path}: the table cannot be opened ({reason}). Complete the copy of the dataset.") from error


def decode_table(content: bytes, path: Path) -> str:
    """Text of a table: UTF-8 or UTF-16 as its byte order mark says, else Latin-1.

    Raises:
        DataError: It is empty or no text.
    """
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", errors="replace")
    if content.startswith(b"PK\x03\x04") or b"\x00" in content:
        raise DataError(f"{path}: expected a text table, found a binary file. Export the table as CSV.")
    if not content.strip():
        raise DataError(f"{path}: expected a table, found an empty file. Download the table again.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def broken_quotes(path: Path, number: int, delimiter: str, error: csv.Error) -> DataError:
    """The error about a row whose quotes are not closed."""
    return DataError(
        f"{path.name} row {number}: expected fields separated by {delimiter!r}, found {error}. "
        f"Correct the quotes of this row in {path}."
    )


def _choose_delimiter(
    path: Path, text: str, required: Sequence[str], delimiters: Sequence[str]
) -> tuple[str, list[str]]:
    """The first delimiter under which the header holds what is required, and that header."""
    headers = {delimiter: _parse_header(text, delimiter) for delimiter in delimiters}
    for delimiter, header in headers.items():
        if set(required) <= set(header):
            twice = next((name for name in required if header.count(name) > 1), None)
            if twice is not None:
                times = header.count(twice)
                raise DataError(f"{path}: expected column {twice!r} once, found it {times} times. Keep one of them.")
            return delimiter, header
    raise _missing_columns(path, required, max(headers.values(), key=len))


def _parse_header(text: str, delimiter: str) -> list[str]:
    try:
        first = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
    except csv.Error:
        return []
    return [name.strip() for name in first]


def _missing_columns(path: Path, required: Sequence[str], found: Sequence[str]) -> DataError:
    missing = [name for name in required if name not in found]
    lower = {name.casefold(): name for name in found}
    near = [lower[m] for m in difflib.get_close_matches(missing[0].casefold(), list(lower), n=1)]
    hint = f" Is {near[0]!r} the same column? Rename it." if near else " Use the table as published."
    return DataError(
        f"{path}: expected column(s) {', '.join(map(repr, missing))}, "
        f"found {', '.join(map(repr, found)) or 'no header'}.{hint}"
    )
