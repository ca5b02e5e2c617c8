"""Reads a table of answers and what is said beside it about the model that gave them."""

from __future__ import annotations

import hashlib
import io
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from medvl.answering.prediction import PREDICTION_SCHEMA, Scoring
from medvl.errors import DataError
from medvl.evaluation.run_facts import RunFacts, read_run_facts, run_folder_of

PREDICTIONS_FILE = "predictions.parquet"


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers as they lie in a file.

    Attributes:
        path: The file.
        sha256: Hash of its bytes.
        table: Columns of `PREDICTION_SCHEMA`, all rows of one scoring.
        fingerprints: What they were made from, as the `metrics.json` beside them says.
        facts: Which model gave them, as the run folder around them says.
        notes: Sentences for the user.
    """

    path: Path
    sha256: str
    table: pl.DataFrame
    fingerprints: dict[str, str]
    facts: RunFacts
    notes: list[str]


def read_answers(path: Path) -> Answers:
    """Read a `predictions.parquet` and what lies beside it.

    Args:
        path: The file, or the folder that holds it.

    Raises:
        DataError: The file is absent, no table of answers, empty, or of several scorings.
    """
    path = path / PREDICTIONS_FILE if path.is_dir() else path
    try:
        raw = path.read_bytes()
        table = pl.read_parquet(io.BytesIO(raw))
    except FileNotFoundError as error:
        raise DataError(f"There is no file {path}. Name the {PREDICTIONS_FILE} of a run.") from error
    except OSError as error:
        raise DataError(f"Could not read {path}: {error.strerror or error}.") from error
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{path} is no whole Parquet file. Name the {PREDICTIONS_FILE} of a run.") from error
    table = _typed(path, table)
    scorings = Counter(table["scoring"].to_list())
    if len(scorings) != 1 or next(iter(scorings)) not in set(Scoring):
        found = ", ".join(f"{name} {n}" for name, n in sorted(scorings.items(), key=str)) or "no rows"
        raise DataError(
            f"{path} should hold the answers of one scoring ({', '.join(Scoring)}), got {found}. Keep each in a "
            "file of its own."
        )
    prints, notes = _recorded(path, table)
    facts = read_run_facts(run_folder_of(path.parent)) if prints else RunFacts()
    return Answers(path, hashlib.sha256(raw).hexdigest(), table, prints, facts, notes)


def _typed(path: Path, table: pl.DataFrame) -> pl.DataFrame:
    absent = [column for column in PREDICTION_SCHEMA if column not in table.columns]
    if absent:
        raise DataError(
            f"{path} is no table of answers: it lacks the column(s) {', '.join(absent)}. Name the {PREDICTIONS_FILE} "
            "of a run."
        )
    try:
        typed = table.select(pl.col(name).cast(kind) for name, kind in PREDICTION_SCHEMA.items())
    except pl.exceptions.PolarsError as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path} holds values of another type than answers have: {reason}.") from error
    return typed.with_columns(pl.col("option_logprobs").fill_null([]))


def _recorded(path: Path, table: pl.DataFrame) -> tuple[dict[str, str], list[str]]:
    """Fingerprints of the `metrics.json` beside the answers, whatever its version; none where it is not about them."""
    beside = path.with_name("metrics.json")
    try:
        metrics = json.loads(beside.read_text(encoding="utf-8"))
        recorded = {str(name): str(value) for name, value in metrics["fingerprints"].items()}
        about = (metrics["overall"]["n"], metrics["scoring"])
    except FileNotFoundError:
        return {}, [f"no {beside.name} lies beside {path.name}: which model gave the answers is unknown"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}, [f"{beside} cannot be read: which model gave the answers is unknown"]
    if about != (table.height, table["scoring"][0]):
        return {}, [
            f"{beside} is about {about[0]} answers by {about[1]} scoring, {path.name} holds {table.height} by "
            f"{table['scoring'][0]} scoring: which model gave them is unknown"
        ]
    return recorded, []
