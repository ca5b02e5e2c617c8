"""Rows of a leaderboard: one evaluation each, and those that the Fetal-Gauge paper published.

Rows are ranked only against rows on the very same items by the same scoring. The published figures are of other items
(the paper's data are not public), so they stand apart and are not ranked.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from medvl.errors import DataError
from medvl.evaluation.files import read_details, read_metrics
from medvl.evaluation.run_facts import UNKNOWN, read_run_facts, run_folder_of
from medvl.evaluation.summary import DOMAINS, TASK_ORDER, TIERS

FOLDERS = (".", "zero_shot")
"""Where in a run folder a `metrics.json` of questions with their pictures lies."""

NO_ADAPTER = "none"


@dataclass(frozen=True, slots=True)
class Row:
    """One evaluation.

    Attributes:
        run: Name of its folder; "" for a published row.
        model: Name of the base model.
        adapter: First 8 digits of the fingerprint of the adapter's weights, or what is said of it; `none` without one.
        scoring: How the answers were obtained, with what was shown in place of the pictures, if anything, and whether
            the model was made to leave its thought empty.
        training_data_note: Medical pictures that the authors of the base declare as training data.
        accuracy: Mean over items.
        figures: Task, tier or domain -> accuracy; absent where there are no items or nothing is known.
        board: What it may be ranked with, None for a published row.
        macro: Mean over tasks with its interval: (estimate, low, high); None where no task counts for it.
        invalid_rate: Share of answers that name no option; None when not known.
        uncommitted_rate: Share of answers with most belief on no option; None when not known.
        sampled: Whether replies were drawn at random; None when not known.
        repeats: How often each question was asked; None when not known.
        unknown: What is not known of the protocol.
        prints: What the figures were made from.
    """

    run: str
    model: str
    adapter: str
    scoring: str
    training_data_note: str
    accuracy: float
    figures: Mapping[str, float]
    board: Board | None = None
    macro: tuple[float, float, float] | None = None
    invalid_rate: float | None = None
    uncommitted_rate: float | None = None
    sampled: bool | None = None
    repeats: int | None = None
    unknown: str = ""
    prints: Mapping[str, str] = field(default_factory=dict)

    @property
    def asked(self) -> str:
        """How often and how steadily it was asked."""
        if self.repeats is None:
            return UNKNOWN
        times = "once" if self.repeats == 1 else f"{self.repeats} times"
        return f"{times}, sampled" if self.sampled else times


@dataclass(frozen=True, slots=True, order=True)
class Board:
    """What rows must have in common to be ranked.

    Attributes:
        benchmark: Fingerprint of the benchmark.
        split: Split of the items.
        n: Number of items.
        items: Hash of the items, see `details.json`; "" where that file is not there.
        scoring: How the answers were obtained, with what was shown in place of the pictures, if anything.
    """

    benchmark: str
    split: str
    n: int
    items: str
    scoring: str

    @property
    def title(self) -> str:
        """Heading of its table."""
        which = f"items {self.items[:8]}" if self.items else "no details.json: maybe not the same ones"
        return f"benchmark {self.benchmark}, {self.split} split, {self.n:,} items ({which}), {self.scoring} scoring"


def run_rows(runs: Iterable[Path]) -> tuple[list[Row], list[str]]:
    """Rows of run folders: of the base and of the adapter, where both were evaluated.

    The same evaluation (same weights, prompt and items, for instance the base before each of several fine-tunings) is
    listed once, and so is a folder that is named twice.

    Returns:
        (rows, a sentence on the folders without an evaluation: runs that failed, kept answers).

    Raises:
        DataError: A folder is not there, or holds a damaged file.
    """
    rows: dict[tuple[Any, ...], Row] = {}
    without = []
    for run in dict.fromkeys(Path(os.path.realpath(run)) for run in runs):
        found = [run / name for name in FOLDERS if (run / name / "metrics.json").is_file()]
        if not run.is_dir():
            raise DataError(f"There is no folder {run}. Name folders of runs of train.py or evaluate.py.")
        if not found:
            without.append(run.name)
        for folder in found:
            row = _row(folder)
            rows.setdefault(_identity(row) or (folder,), row)
    left_out = f"left out, as neither metrics.json nor zero_shot/metrics.json is there: {', '.join(without)}"
    return list(rows.values()), [left_out] if without else []


def boards(rows: Iterable[Row]) -> dict[Board, list[Row]]:
    """Rows by what they may be ranked with, the best first by macro accuracy (by accuracy where there is none)."""
    found: dict[Board, list[Row]] = {}
    for row in rows:
        if row.board is not None:
            found.setdefault(row.board, []).append(row)
    return {board: sorted(found[board], key=_merit) for board in sorted(found)}


def ranks(rows: Sequence[Row]) -> list[int]:
    """Place of each row of one board, best first; equal rows share a place."""
    merits = [_merit(row) for row in rows]
    return [merits.index(merit) + 1 for merit in merits]


def published_rows() -> list[Row]:
    """Rows of the paper, in its order."""
    with (files("medvl.reporting") / "published.csv").open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    names = (*TASK_ORDER, *TIERS)
    return [
        Row(
            run="",
            model=line["model"],
            adapter=line["adapter"],
            scoring=UNKNOWN,
            training_data_note=line["training_data_note"],
            accuracy=float(line["overall"]),
            figures={name: float(line[name]) for name in names if line[name]},
            unknown=line["unknown"],
        )
        for line in table
    ]


def _row(folder: Path) -> Row:
    metrics, run = read_metrics(folder / "metrics.json"), run_folder_of(folder)
    facts, overall, prints = read_run_facts(run), metrics["overall"], metrics["fingerprints"]
    macro, bounds = overall["macro_accuracy"], overall.get("macro_ci95")
    tables = {**metrics["tasks"], **{name: metrics[table].get(name) for table, name in _CUTS}}
    control, thought = prints.get("picture_control"), prints.get("thought")
    scoring = metrics["scoring"] if control is None else f"{metrics['scoring']}, {control.replace('_', ' ')}"
    return Row(
        run=folder.name if run is None else (run.name / folder.relative_to(run)).as_posix(),
        model=facts.model,
        adapter=str(prints.get("adapter", NO_ADAPTER))[:8],
        scoring=scoring if thought is None else f"{scoring}, thought {thought}",
        training_data_note=facts.training_data_note,
        accuracy=overall["accuracy"],
        figures={name: cell["accuracy"] for name, cell in tables.items() if cell is not None},
        board=Board(prints.get("benchmark", UNKNOWN), metrics["split"], overall["n"], _items(folder, metrics), scoring),
        macro=None if macro is None or bounds is None else (macro, bounds[0], bounds[1]),
        invalid_rate=overall["invalid_rate"],
        uncommitted_rate=overall["uncommitted_rate"],
        sampled=facts.sampled,
        repeats=facts.repeats,
        prints=prints,
    )


_CUTS = (*(("tiers", name) for name in TIERS), *(("domains", name) for name in DOMAINS))


def _items(folder: Path, metrics: Mapping[str, Any]) -> str:
    """Hash of the items from the `details.json` of the same answers."""
    path = folder / "details.json"
    if not path.is_file():
        return ""
    details = read_details(path)
    same = all(details[key] == metrics[key] for key in ("split", "scoring", "fingerprints"))
    return str(details["items"]) if same and details["overall"]["counts"]["n"] == metrics["overall"]["n"] else ""


def _identity(row: Row) -> tuple[Any, ...] | None:
    """What two rows of the same evaluation have in common; None where that cannot be told."""
    if row.board is None or not row.board.items or not row.prints or UNKNOWN in row.prints.values():
        return None
    # The figures too: sampled replies of one model to one question differ from run to run.
    return row.board, row.scoring, row.accuracy, row.macro, tuple(sorted(row.prints.items()))


def _merit(row: Row) -> tuple[bool, float]:
    return (row.macro is None, -(row.accuracy if row.macro is None else row.macro[0]))
