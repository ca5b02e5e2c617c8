"""The run folder: what was asked for, what ran, and how it ended."""

from __future__ import annotations

import json
import os
import platform
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import yaml

from medvl.errors import ConfigError, MedvlError, StorageError, disk_refusal
from medvl.evaluation.files import write_json

VERSIONS_OF = ("medvl", "torch", "transformers", "peft", "pytorch-lightning", "trl", "hydra-core", "polars", "numpy")

SCHEMA_VERSION = 1


class RunFolder:
    """A run's folder and its `run.json`.

    Args:
        folder: Where the run writes. Created here.
        composed: The whole configuration, resolved; written to `config.yaml`.
        overrides: Overrides of the command line.
        seed: Seed of the run.

    Raises:
        ConfigError: The folder already holds a run.
        StorageError: The disk refuses the write.
    """

    def __init__(self, folder: Path, composed: dict[str, Any], overrides: list[str], seed: int) -> None:
        if (folder / "run.json").exists():
            raise ConfigError(
                [f"{folder} already holds a run; wait a second or name another folder with hydra.run.dir"]
            )
        self.path = folder
        self._keeps_answers = "trainer" not in composed and composed.get("eval", {}).get("reuse_answers", False)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "config.yaml").write_text(yaml.safe_dump(composed, sort_keys=False), encoding="utf-8")
        except OSError as error:
            raise StorageError(f"cannot write to {folder}: {os.strerror(error.errno or 0)}") from error
        self.record: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "status": "running",
            "started": _now(),
            "ended": None,
            "seed": seed,
            "overrides": overrides,
            "versions": _versions(),
            "python": platform.python_version(),
            "fingerprints": {},
        }
        self.save()

    @property
    def shown(self) -> Path:
        """The folder as it is shown to the user: relative to where the command runs."""
        return Path(os.path.relpath(self.path))

    def update(self, **facts: Any) -> None:
        """Add facts to `run.json`."""
        self.record.update(facts)
        self.save()

    @contextmanager
    def recording(self) -> Iterator[None]:
        """While the block runs the status is `running`; afterwards it says how the block ended."""
        start = time.monotonic()
        try:
            yield
        except KeyboardInterrupt:
            self._end("interrupted", start)
            last = self.shown / "checkpoints" / "last.ckpt"
            kept = f"the last checkpoint is {last}" if last.is_file() else "there was no checkpoint yet"
            if self._keeps_answers:
                kept = "answers given so far are kept, the same command goes on from them"
            raise KeyboardInterrupt(f"interrupted; {kept}") from None
        except BaseException as error:
            refusal = None if isinstance(error, MedvlError) else disk_refusal(error)
            if refusal is not None:
                place = "free space, or name another place with paths.outputs=DIR"
                error = StorageError(f"cannot write to {self.shown}: {refusal}; {place}")
            self._end(f"failed: {str(error).splitlines()[0] if str(error) else type(error).__name__}", start)
            raise error
        self._end("finished", start)

    def _end(self, status: str, start: float) -> None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        facts = {"ended": _now(), "seconds": round(time.monotonic() - start, 1), "peak_memory_gib": round(peak, 2)}
        try:
            self.update(status=status, **facts)
        except StorageError:
            if status == "finished":
                raise
            with suppress(OSError):  # on a full disk there is room for the old file only: write over it
                (self.path / "run.json").write_text(json.dumps(self.record, indent=2), encoding="utf-8")

    def save(self) -> None:
        """Write `run.json`."""
        write_json(self.path / "run.json", self.record)


def point_latest(outputs: Path, run: Path) -> None:
    """Make `outputs/latest` the newest training run."""
    link = outputs / "latest"
    temporary = outputs / f".latest-{os.getpid()}"
    try:
        temporary.symlink_to(os.path.relpath(run, outputs))
        temporary.replace(link)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StorageError(f"cannot point {link} at the run: {os.strerror(error.errno or 0)}") from error


HYPERPARAMETERS = ("seed", "lora", "task_mix", "optim", "benchmark")


def hyperparameters(composed: dict[str, Any]) -> dict[str, Any]:
    """What loggers get of a configuration: no path, host or file name can be among it."""
    chosen = {name: composed[name] for name in HYPERPARAMETERS}
    chosen["trainer"] = {k: v for k, v in composed["trainer"].items() if k != "extra"}
    chosen["model"], chosen["data"] = composed["model"]["name"], composed["data"]["name"]
    chosen["batch_size"] = composed["data"]["batch_size"]
    return chosen


def _versions() -> dict[str, str]:
    found = {}
    for name in VERSIONS_OF:
        with suppress(PackageNotFoundError):  # an extra that is not installed
            found[name] = version(name)
    return found


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
