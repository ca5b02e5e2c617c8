"""What lay on two sides of a benchmark's split: sentences, a table, a CSV file, and pairs of pictures to look at."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image
from rich.table import Table
from rich.text import Text

from medvl.benchmark.leaks import LEAK_COLUMNS
from medvl.errors import DataError, StorageError
from medvl.imaging.sheet import contact_sheet

Row = Mapping[str, Any]
"""A row of `medvl.benchmark.leaks.leak_rows`; `done` may also be `left`: nothing was done, it still leaks."""

Pixels = npt.NDArray[np.uint8]

KINDS = {"group": "shared group", "identical": "identical pixels", "near": "near copy"}
"""Kind in a row -> words for it."""

PRINTED = 10
"""Rows of the printed table."""
SHEET_PAIRS, MOST_SHEETS = 24, 2
CSV_FILE, SHEET_FILES = "leaks.csv", "leaks-{}.png"

_DONE_ORDER = ("left", "dropped", "moved")
_KIND_ORDER = ("near", "identical", "group")
_CELL_PX = 300


def ordered(rows: Sequence[Row]) -> list[Row]:
    """What still leaks first, then near copies, the least alike first: what is worth a look."""
    return sorted(
        rows,
        key=lambda row: (
            _DONE_ORDER.index(row["done"]),
            _KIND_ORDER.index(row["kind"]),
            row["correlation"] or 0.0,
            row["copy_picture"],
        ),
    )


def leak_sentences(rows: Sequence[Row]) -> Iterator[str]:
    """How many leaks there are and were, by kind, and what became of them."""
    by_done: dict[str, list[Row]] = {done: [row for row in rows if row["done"] == done] for done in _DONE_ORDER}
    left, dropped, moved = by_done.values()
    if left:
        yield f"leaks that are still there: {_pictures(left)} ({_kinds(left)}). Delete the benchmark, build it again."
    if dropped:
        items = sum(len(row["dropped_items"]) for row in dropped)
        yield f"leaks that the build settled by dropping: {_pictures(dropped)} with {items:,} items ({_kinds(dropped)})"
    if moved:
        yield f"leaks that the build settled by moving groups: {_pictures(moved)} ({_kinds(moved)})"
    if not rows:
        yield "no leaks: nothing lies on two sides of the split, and nothing did when it was built"


def leak_table(rows: Sequence[Row], limit: int = PRINTED) -> Table:
    """Table of leaks, one row a pair: what the two have in common, what was done, and both with their sides.

    Args:
        rows: Leaks in order; their numbers are those of the CSV file and of the sheets.
        limit: Most rows shown; the rest is counted below.
    """
    table = Table(title=f"leaks: {len(rows):,}", title_justify="left", caption_justify="left")
    table.add_column("", justify="right")
    for name in ("leak", "kept", "copy"):
        table.add_column(name, overflow="fold")
    for number, row in enumerate(rows[:limit], start=1):
        cells = (f"{_kind(row)}\n{_done(row)}", _picture(row, "kept"), _picture(row, "copy"))
        table.add_row(str(number), *(Text(cell) for cell in cells))
    if len(rows) > limit:
        table.caption = f"and {len(rows) - limit:,} more"
    return table


def write_leaks(
    folder: Path,
    rows: Sequence[Row],
    load: Callable[[str, int | None], Pixels] | None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[dict[str, str], list[str]]:
    """Write all leaks as a CSV file and the first pairs as contact sheets, in place of those of an earlier check.

    Args:
        folder: Folder of the benchmark.
        rows: Leaks in order.
        load: (path relative to the data root, frame) -> uint8 [H, W, 3]; None where the pictures are not known.
        progress: Called with (pairs read, pairs to read).

    Returns:
        (what a file holds -> where it lies, sentences about what could not be shown).

    Raises:
        StorageError: The folder cannot be written.
    """
    try:
        for stale in (folder / CSV_FILE, *folder.glob(SHEET_FILES.format("*"))):
            stale.unlink(missing_ok=True)
        if not rows:
            return {}, []
        (folder / CSV_FILE).write_text(_csv_text(rows), encoding="utf-8")
        places = {"all leaks": str(folder / CSV_FILE)}
        if load is None:
            return places, ["where the pictures lie is not known here, so no pairs are drawn; say --root DIR"]
        shown, problems = _read_pairs(rows[: SHEET_PAIRS * MOST_SHEETS], load, progress)
        for number, start in enumerate(range(0, len(shown), SHEET_PAIRS), start=1):
            some = shown[start : start + SHEET_PAIRS]
            place = folder / SHEET_FILES.format(number)
            Image.fromarray(leak_sheet(some)).save(place, format="PNG")
            places[f"pairs {some[0][0]} to {some[-1][0]}"] = str(place)
    except OSError as error:
        raise StorageError(
            f"cannot write the list of leaks to {folder}: {error.strerror or error}; "
            "copy the benchmark to a folder that can be written, and check it there"
        ) from error
    return places, problems


def leak_sheet(pairs: Sequence[tuple[int, Row, Pixels, Pixels]], cell_px: int = _CELL_PX) -> Pixels:
    """Lay pairs out side by side, two pairs a row: one picture, its copy, one picture, its copy.

    Args:
        pairs: (number of the row, row, one picture, its copy), at least one; pictures uint8 [H, W, 3].
        cell_px: Side of a picture's cell.

    Returns:
        uint8 [H, W, 3].

    Raises:
        ValueError: No pairs.
    """
    pictures = [pixels for _, _, one, other in pairs for pixels in (one, other)]
    captions = []
    for number, row, _, _ in pairs:
        captions.append(f"{number}. {row['kept_source']}, {row['kept_split']}\n{_name(row, 'kept')}")
        captions.append(
            f"{number}. {row['copy_source']}, {row['copy_split']}\n{_name(row, 'copy')}\n{_kind(row)}, {_done(row)}"
        )
    return contact_sheet(pictures, captions, columns=4, cell_px=cell_px)


def _read_pairs(
    rows: Sequence[Row],
    load: Callable[[str, int | None], Pixels],
    progress: Callable[[int, int], None] | None,
) -> tuple[list[tuple[int, Row, Pixels, Pixels]], list[str]]:
    shown, problems = [], []
    for number, row in enumerate(rows, start=1):
        try:
            one, other = (_small(load(row[f"{role}_picture"], row[f"{role}_frame"])) for role in ("kept", "copy"))
            shown.append((number, row, one, other))
        except DataError as error:
            problems.append(f"pair {number} is not drawn: {error}")
        if progress is not None:
            progress(number, len(rows))
    if len(problems) > 1:
        problems = [problems[0], f"{len(problems) - 1} more pairs are not drawn"]
    return shown, problems


def _small(pixels: Pixels) -> Pixels:
    """A picture no larger than its cell, so that a sheet of X-rays fits into memory."""
    picture = Image.fromarray(pixels)
    picture.thumbnail((_CELL_PX, _CELL_PX), Image.Resampling.LANCZOS)
    return np.array(picture)


def _csv_text(rows: Sequence[Row]) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["number", *LEAK_COLUMNS])
    for number, row in enumerate(rows, start=1):
        cells = {**row, "kind": KINDS[row["kind"]], "dropped_items": " ".join(row["dropped_items"])}
        table.writerow([number, *(cells[column] for column in LEAK_COLUMNS)])
    return text.getvalue()


def _pictures(rows: Sequence[Row]) -> str:
    count = len({(row["copy_source"], row["copy_picture"], row["copy_frame"]) for row in rows})
    return f"{count:,} picture{'' if count == 1 else 's'}"


def _kinds(rows: Sequence[Row]) -> str:
    found = Counter(row["kind"] for row in rows)
    return ", ".join(f"{KINDS[kind]} {found[kind]:,}" for kind in _KIND_ORDER if found[kind])


def _kind(row: Row) -> str:
    return KINDS[row["kind"]] + (f" {row['correlation']:.2f}" if row["kind"] == "near" else "")


def _done(row: Row) -> str:
    if row["done"] == "dropped":
        count = len(row["dropped_items"])
        return f"dropped, {count} item{'' if count == 1 else 's'}"
    return "moved with its group" if row["done"] == "moved" else "still leaks"


def _picture(row: Row, role: str) -> str:
    return f"{row[f'{role}_split']}, {row[f'{role}_source']}\n{_path(row, role)}"


def _name(row: Row, role: str) -> str:
    return _path(row, role).rpartition("/")[2]


def _path(row: Row, role: str) -> str:
    frame = row[f"{role}_frame"]
    return str(row[f"{role}_picture"]) + ("" if frame is None else f"#{frame}")
