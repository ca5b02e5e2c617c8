"""What a run folder says about the model behind its answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from medvl.errors import DataError

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The model of a run, and how often and how steadily it was asked.

    Attributes:
        model: Name of the base model, as in `model=NAME`, or at a server.
        training_data_note: Medical pictures that its authors declare as training data.
        sampled: Whether its replies were drawn at random; None when not known.
        repeats: How often each question was asked; None when not known.
    """

    model: str = UNKNOWN
    training_data_note: str = UNKNOWN
    sampled: bool | None = None
    repeats: int | None = None


def run_folder_of(folder: Path) -> Path | None:
    """The run that a folder of answers belongs to: itself, or the folder above `zero_shot` or `controls/NAME`."""
    inside = folder.resolve()
    return next((one for one in (inside, *inside.parents[:2]) if (one / "run.json").is_file()), None)


def read_run_facts(run: Path | None) -> RunFacts:
    """Read `run.json` and `config.yaml` of a run folder.

    Args:
        run: The folder; None, or one without these files, says nothing.

    Raises:
        DataError: A file is damaged.
    """
    if run is None:
        return RunFacts()
    record, config = _load(run / "run.json", json.loads), _load(run / "config.yaml", yaml.safe_load)
    try:
        if "answered_by" in record:  # answers of an earlier run, scored again
            return RunFacts(**record["answered_by"])
        if "model" not in config:
            return RunFacts()
        model, server = config["model"], config.get("endpoint")
        note = str(model.get("training_data_note", UNKNOWN))
        if server is None:
            return RunFacts(str(model["name"]), note, sampled=False, repeats=1)
        asked = record.get("endpoint") or {}
        # A server is asked for any model; the option in `model` is about it only when it names a model at a server.
        return RunFacts(
            str(server["model"]),
            note if model.get("endpoint") else UNKNOWN,
            sampled=asked.get("sampled"),
            repeats=asked.get("repeats"),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{run} holds no record of a run that this version reads ({error!r}). Name the folder of a run of "
            "train.py or evaluate.py, or copy it again."
        ) from error


def _load(path: Path, parse: Any) -> dict[str, Any]:
    try:
        content = parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise DataError(f"Could not read {path}: {error.strerror or error}.") from error
    except (ValueError, yaml.YAMLError) as error:
        raise DataError(f"{path} is damaged ({type(error).__name__}). Copy the run folder again.") from error
    if not isinstance(content, dict):
        raise DataError(f"{path} should hold a mapping, got {type(content).__name__}. Copy the run folder again.")
    return content
