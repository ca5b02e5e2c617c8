"""A leaderboard on the terminal, as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl
from rich.table import Table
from rich.text import Text

from medvl.evaluation.run_facts import UNKNOWN
from medvl.evaluation.summary import DOMAINS, TASK_ORDER, TIERS, task_names
from medvl.reporting.leaderboard import Board, Row, boards, ranks
from medvl.reporting.tables import ABSENT, interval, new_table, rate

PUBLISHED_TITLE = "published with Fetal-Gauge (ICLR 2026): not the same items, so not ranked"
PUBLISHED_CAPTION = (
    "Accuracies as a reading note quotes them from the paper (arXiv:2512.22278); overall fits a mean over items, not "
    "over tasks. Where it cuts small, medium and large boxes is unknown."
)
CAPTION = (
    "Ranked by macro accuracy (mean over tasks; brackets: 95 % interval, resampling groups) on the same items. Where "
    "intervals overlap the order may be luck: compare the two item by item."
)


def board_tables(board: Board, rows: Sequence[Row]) -> list[Table]:
    """Two tables of the rows of one board, at most 80 columns each: by task, then by box size, domain and protocol.

    Args:
        board: What they have in common.
        rows: Best first.
    """
    tasks, places = _tasks(rows), [str(place) for place in ranks(rows)]
    first = _table(board.title, ("", "model, adapter", "scoring"), ("macro", *tasks))
    second = _table("", ("", "run", "asked", "trained on"), (*TIERS, *DOMAINS, "invalid,\nuncommitted"))
    for place, row in zip(places, rows, strict=True):
        macro = (ABSENT, "") if row.macro is None else (rate(row.macro[0]), interval(row.macro[1:]))
        first.add_row(
            place,
            _stacked(row.model, "" if row.adapter == "none" else f"adapter {row.adapter}"),
            Text(row.scoring),
            _stacked(*macro),
            *(rate(row.figures.get(task)) for task in tasks),
        )
        second.add_row(
            place,
            Text(row.run),
            Text(row.asked),
            Text(row.training_data_note),
            *(rate(row.figures.get(name)) for name in (*TIERS, *DOMAINS)),
            _stacked(rate(row.invalid_rate), rate(row.uncommitted_rate), ""),
        )
    second.caption = Text(CAPTION)
    return [first, second]


def published_table(rows: Sequence[Row]) -> Table:
    """Table of the published rows, at most 80 columns, with what is unknown of their protocol below."""
    names = (*TASK_ORDER, *TIERS)
    table = _table(PUBLISHED_TITLE, ("model, trained on",), (*TASK_ORDER, "overall", *TIERS))
    unknown: dict[str, list[str]] = {}
    for row in rows:
        model = row.model if row.adapter == "none" else f"{row.model} + {row.adapter}"
        figures = [_published(row.figures.get(name)) for name in names]
        table.add_row(_stacked(model, row.training_data_note), *figures[:5], _published(row.accuracy), *figures[5:])
        unknown.setdefault(row.unknown, []).append(model)
    lines = "".join(f"\nUnknown of {', '.join(models)}: {what}." for what, models in unknown.items())
    table.caption = Text(PUBLISHED_CAPTION + lines)
    return table


def as_csv(rows: Iterable[Row]) -> str:
    """All rows with all facts, one line each; an absent figure is empty. `kind` is `run` or `published`."""
    return _csv([_flat(row, place) for place, row in _placed(rows)])


def as_markdown(rows: Iterable[Row]) -> str:
    """A heading and a table for each board, then the published rows."""
    listed = list(rows)
    parts = []
    for board, members in boards(listed).items():
        records = [_flat(row, place) for place, row in zip(ranks(members), members, strict=True)]
        dropped = {"kind", "benchmark", "split", "n", "items", "unknown"}
        parts += [f"## {board.title}", _markdown(records, dropped), CAPTION]
    published = [_flat(row, None) for row in listed if row.board is None]
    if published:
        kept = {"model", "adapter", "accuracy", *TASK_ORDER, *TIERS, "training_data_note", "unknown"}
        parts += [
            f"## {PUBLISHED_TITLE[0].upper()}{PUBLISHED_TITLE[1:]}",
            _markdown(published, set(published[0]) - kept, decimals=2),
            PUBLISHED_CAPTION,
        ]
    return "\n\n".join(parts) + "\n"


def _placed(rows: Iterable[Row]) -> list[tuple[int | None, Row]]:
    listed = list(rows)
    placed: list[tuple[int | None, Row]] = []
    for members in boards(listed).values():
        placed += zip(ranks(members), members, strict=True)
    return placed + [(None, row) for row in listed if row.board is None]


def _flat(row: Row, place: int | None) -> dict[str, Any]:
    board = row.board
    further = [name for name in row.figures if name not in (*TASK_ORDER, *TIERS, *DOMAINS)]
    return {
        "kind": "published" if board is None else "run",
        "benchmark": None if board is None else board.benchmark,
        "split": None if board is None else board.split,
        "n": None if board is None else board.n,
        "items": None if board is None else board.items or UNKNOWN,
        "rank": place,
        "model": row.model,
        "adapter": row.adapter,
        "scoring": row.scoring,
        "macro_accuracy": None if row.macro is None else row.macro[0],
        "macro_ci95_low": None if row.macro is None else row.macro[1],
        "macro_ci95_high": None if row.macro is None else row.macro[2],
        "accuracy": row.accuracy,
        **{name: row.figures.get(name) for name in (*TASK_ORDER, *further, *TIERS, *DOMAINS)},
        "invalid_rate": row.invalid_rate,
        "uncommitted_rate": row.uncommitted_rate,
        "sampled": UNKNOWN if row.sampled is None else "yes" if row.sampled else "no",
        "repeats": UNKNOWN if row.repeats is None else row.repeats,
        "training_data_note": row.training_data_note,
        "run": row.run,
        "unknown": row.unknown,
    }


def _csv(records: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, _columns(records), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: "" if value is None else value for key, value in record.items()} for record in records)
    return text.getvalue()


def _markdown(records: Sequence[Mapping[str, Any]], dropped: set[str], decimals: int = 3) -> str:
    columns = [name for name in _columns(records) if name not in dropped]

    def shown(value: Any) -> str:
        if value is None or value == "":
            return ABSENT
        return f"{value:.{decimals}f}" if isinstance(value, float) else str(value).replace("|", "\\|")

    lines = [columns, ["---"] * len(columns), *([shown(one.get(name)) for name in columns] for one in records)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _columns(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Columns of the record with most of them, in order: further tasks stand beside the five."""
    longest = max(records, key=len, default={})
    return [*longest, *(name for record in records for name in record if name not in longest)]


def _tasks(rows: Sequence[Row]) -> list[str]:
    names = [name for row in rows for name in row.figures if name not in (*TIERS, *DOMAINS)]
    return task_names(pl.Series(names, dtype=pl.String))


def _table(title: str, texts: Sequence[str], figures: Sequence[str]) -> Table:
    table = new_table(title)
    for header in texts:
        table.add_column(header, overflow="fold")
    for header in figures:
        table.add_column(header, justify="right", overflow="fold", min_width=5)
    return table


def _published(figure: float | None) -> str:
    return ABSENT if figure is None else f"{figure:.2f}"


def _stacked(first: str, second: str, style: str = "dim") -> Text:
    return Text.assemble(first, ("\n" + second if second else "", style))
