"""The run record beside an adapter: base, prompt, processor, benchmark and configuration it was trained with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from medvl.errors import ModelError

RECORD_FILE = "medvl.json"
WEIGHTS_FILE = "adapter_model.safetensors"


def read_record(folder: Path) -> dict[str, Any]:
    """Read the run record of an adapter; imports no torch.

    Raises:
        ModelError: The folder holds no adapter, none that medvl trained, or a record that cannot be read.
    """
    if not (folder / "adapter_config.json").is_file():
        raise ModelError(f"{folder} {_why_no_adapter(folder)}; say adapter=RUN/adapter with a run that finished")
    path = folder / RECORD_FILE
    if not path.is_file():
        raise ModelError(
            f"{folder} holds an adapter but no {RECORD_FILE}; only adapters that train.py wrote are judged. To use it "
            f"otherwise: medvl adapter check {folder} --base DIR, or medvl merge"
        )
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        record["base"], record["fingerprints"]["base"], record["fingerprints"]["adapter"], record["config"]["model"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{path} is not a run record ({error!r}); copy the adapter folder again") from None
    return record


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """Write the run record of an adapter."""
    (folder / RECORD_FILE).write_text(json.dumps(record, indent=2), encoding="utf-8")


def _why_no_adapter(folder: Path) -> str:
    if folder.is_dir():
        return f"holds no adapter (expected adapter_config.json and {WEIGHTS_FILE})"
    try:
        status = json.loads((folder.parent / "run.json").read_text(encoding="utf-8"))["status"]
    except (OSError, ValueError, KeyError, TypeError):
        return "holds no adapter: the folder does not exist"
    return f"holds no adapter: the run {folder.parent.name} is {status}"
