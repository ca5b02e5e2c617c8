"""What rows of a table must hold: a known value, the number that a file name says, no second meaning."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from medvl.errors import DataError
from medvl.sources.listing import warn_of
from medvl.sources.tables import TableRow


def file_name_of(text: str) -> str:
    """Last part of a path, whichever way its slashes lean."""
    return text.replace("\\", "/").rpartition("/")[2]


def check_known(
    value: str,
    what: str,
    known: Collection[str],
    where: str,
    advice: str = "Correct the row or use the table as published.",
) -> str:
    """Refuse a value that the dataset does not have.

    Args:
        value: As found.
        what: What it is (a column).
        known: Values that the dataset has.
        where: What to name in the message.
        advice: Last sentence of the message.

    Returns:
        The value.

    Raises:
        DataError: It is none of `known`.
    """
    if value not in known:
        raise DataError(f"{where}: expected {what} to be one of {', '.join(known)}, found {value[:60]!r}. {advice}")
    return value


def is_number(text: str, digits: str) -> bool:
    """Whether a text is this whole number, leading zeros aside (`7` is `0007`)."""
    # Compared as texts, because Python turns only so many digits into a number.
    return re.fullmatch(r"[0-9]+", text) is not None and text.lstrip("0") == digits.lstrip("0")


def check_patient(row: TableRow, column: str, digits: str, name: str) -> None:
    """Refuse a row whose patient is not the one in its picture's name.

    Args:
        row: Row.
        column: Column with the patient's number.
        digits: Number in the name.
        name: The name.

    Raises:
        DataError: The two differ.
    """
    if not is_number(row[column], digits):
        raise DataError(
            f"{row.where}: expected {column} {digits.lstrip('0') or '0'} as in the name {name}, "
            f"found {row[column][:60]!r}. A shifted row mixes patients: correct it or use the table as published."
        )


def unique_rows(
    table: Path,
    rows: Sequence[TableRow],
    key: Callable[[TableRow], str],
    columns: Sequence[str],
    warnings: list[str],
    named: str = "",
) -> list[TableRow]:
    """Rows without repeats.

    Args:
        table: Named in messages.
        rows: All rows.
        key: What a row is about; compared without case.
        columns: What repeats must agree on.
        warnings: Takes one sentence when rows repeat.
        named: What that sentence calls the table, its file name by default.

    Raises:
        DataError: Two rows are about the same and disagree.
    """
    first: dict[str, TableRow] = {}
    repeats = []
    for row in rows:
        known = first.setdefault(key(row).casefold(), row)
        if known is row:
            continue
        unequal = next((column for column in columns if known[column] != row[column]), None)
        if unequal is not None:
            raise DataError(
                f"{row.where}: expected {unequal} {known[unequal]!r} for {key(row)} as in row {known.number}, "
                f"found {row[unequal]!r}. Remove the wrong row of {table}."
            )
        repeats.append(f"row {row.number}")
    warnings += warn_of(named or table.name, repeats, "row", "repeated word for word; each counts once.")
    return list(first.values())
