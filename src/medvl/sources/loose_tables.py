"""Large tables whose header does not match their rows: unquoted commas, trailing delimiters, gzip.

`medvl.sources.tables` wants a header and rows of one length and is the stricter choice where a dataset allows it.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from medvl.errors import DataError
from medvl.sources.locate import entry, find_any
from medvl.sources.tables import broken_quotes, decode_table, read_table_bytes


@dataclass(frozen=True, slots=True)
class LooseTable:
    """A table read as it is.

    Attributes:
        path: Its file.
        index: Index of each column asked for, in the order asked.
        rows: (row number as a spreadsheet shows it, fields without blanks at their ends), in file order; read once.
    """

    path: Path
    index: tuple[int, ...]
    rows: Iterator[tuple[int, list[str]]]

    def where(self, number: int) -> str:
        """What to name in a message about a row."""
        return f"{self.path.name} row {number}"


DELIMITERS = (",", ";", "\t")
ENDINGS = ("", ".gz")
"""What may follow a table's name; plain comes before gzipped."""


def find_table_folder(root: Path, names: Sequence[str]) -> Path | None:
    """Folder with the first of some tables that lies anywhere below the root, see `find_any`."""
    return find_any(root, [name + ending for name in names for ending in ENDINGS])


def find_table(folder: Path, names: Sequence[str]) -> Path | None:
    """The first of some tables that lies in the folder, plain before gzipped, any case, or None."""
    candidates = (entry(folder, name + ending) for name in names for ending in ENDINGS)
    return next((path for path in candidates if path is not None), None)


def read_loose_table(path: Path, columns: Sequence[str], fields: int = 0) -> LooseTable:
    """Read a table with a header row.

    The delimiter is the first of `DELIMITERS` under which the header holds the columns. Names of columns are compared
    without case, blanks and underscores. Empty fields at the end of the header and of rows do not count. A byte order
    mark is dropped, text that is not UTF-8 is read as Latin-1, blank rows are passed over but counted.

    Args:
        path: Text file, gzipped when its name ends in `.gz`.
        columns: Names that the header must hold.
        fields: Least number of fields in a row, where more than those columns are read.

    Raises:
        DataError: The file is absent, damaged or no text, or a column is missing. While the rows are read: a row has
            too few fields or more than the header, quotes are not closed, or no row follows the header.
    """
    text = _read_text(path)
    readers = [csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True) for mark in DELIMITERS]
    headers = [_header(path, reader) for reader in readers]
    known = [[_plain(name) for name in header] for header in headers]
    wanted = [_plain(name) for name in columns]
    chosen = next((i for i, names in enumerate(known) if set(wanted) <= set(names)), None)
    if chosen is None:
        split = [header for header in headers if len(header) > 1]
        found = max(split, key=len, default=headers[0])
        missing = [name for name, plain in zip(columns, wanted, strict=True) if plain not in map(_plain, found)]
        raise DataError(
            f"{path}: expected column(s) {', '.join(map(repr, missing))}, "
            f"found {', '.join(map(repr, found)) or 'no header'}. Use the table as published."
        )
    index = tuple(known[chosen].index(name) for name in wanted)
    width = (max(fields, *(i + 1 for i in index)), len(headers[chosen]))
    return LooseTable(path, index, _rows(path, readers[chosen], DELIMITERS[chosen], width))


def _header(path: Path, reader: Iterator[list[str]]) -> list[str]:
    try:
        return _without_empty_end([name.strip() for name in next(reader, [])])
    except csv.Error as error:
        raise broken_quotes(path, 1, DELIMITERS[0], error) from error


def _rows(
    path: Path, reader: Iterator[list[str]], delimiter: str, width: tuple[int, int]
) -> Iterator[tuple[int, list[str]]]:
    """Rows below the header; `width` is the least and the greatest number of fields."""
    number, is_empty = 1, True
    least, most = width
    try:
        for number, raw in enumerate(reader, start=2):
            row = _without_empty_end([field.strip() for field in raw])
            if not row:
                continue
            if len(raw) < least or len(row) > most:
                raise DataError(
                    f"{path.name} row {number}: expected {most} fields as in the header, found {len(raw)}. "
                    f"Correct this row in {path}."
                )
            is_empty = False
            yield number, row if len(row) >= least else row + [""] * (least - len(row))
    except csv.Error as error:
        raise broken_quotes(path, number + 1, delimiter, error) from error
    if is_empty:
        raise DataError(f"{path}: expected rows below the header, found none. Download the table again.")


def _read_text(path: Path) -> str:
    content = read_table_bytes(path)
    if path.name.casefold().endswith(".gz"):
        try:
            content = gzip.decompress(content)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"{path}: expected a whole gzip file, found {error}. Download the table again.") from error
    return decode_table(content, path)


def _without_empty_end(row: list[str]) -> list[str]:
    while row and not row[-1]:
        row.pop()
    return row


def _plain(name: str) -> str:
    return re.sub(r"[\s_]+", "", name).casefold()
