"""`medvl leaderboard`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from medvl.errors import StorageError
from medvl.reporting.console_lines import notes
from medvl.reporting.leaderboard import boards, published_rows, run_rows
from medvl.reporting.leaderboard_output import as_csv, as_markdown, board_tables, published_table


def leaderboard_command(console: Console, runs: Sequence[Path], csv: Path | None, md: Path | None) -> None:
    """Print the rows of some runs, ranked where they are about the same items, and the published ones; write them too.

    Args:
        console: Where to print.
        runs: Run folders.
        csv: CSV file to write.
        md: Markdown file to write.
    """
    (rows, remarks), published = run_rows(runs), published_rows()
    notes(console, remarks)
    for board, members in boards(rows).items():
        for table in board_tables(board, members):
            console.print(table)
        console.print()
    console.print(published_table(published))
    for path, text in ((csv, as_csv), (md, as_markdown)):
        if path is not None:
            _write(path, text([*rows, *published]))
            console.print(Text(f"{len(rows) + len(published)} rows -> {path}"), soft_wrap=True)


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}; name another file") from error
