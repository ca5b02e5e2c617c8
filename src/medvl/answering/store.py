"""Keeps answers as they come: a killed evaluation goes on where it was, and no question is asked twice.

One folder for each way of asking (weights, prompt, pixels, dtype, scoring), named by a hash of it, holds small Parquet
files that are only ever added. An answer belongs to an item's fingerprint, so neither order nor split nor benchmark
matters, and an item that changed is asked again.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import polars as pl

from medvl.answering.prediction import PREDICTION_SCHEMA, Prediction, frame_to_predictions, predictions_to_frame
from medvl.errors import StorageError

STORE_VERSION = "1"
"""Raised when kept answers mean something else than before."""

ABOUT_FILE = "about.json"
MANY_PARTS = 64
"""Parts above which reading joins them into one."""


def asking_key(about: Mapping[str, str]) -> str:
    """Hash (16 hex digits) of a way of asking.

    Args:
        about: Everything that can change an answer except the item: weights of base and adapter, processor and pixel
            limits, prompt, dtype, scoring, decoding, what stands in the place of the picture.
    """
    return hashlib.sha256(json.dumps([STORE_VERSION, sorted(about.items())]).encode()).hexdigest()[:16]


class AnswerStore:
    """Answers of one way of asking, on disk.

    Several processes may add at once; each part is a file of its own that appears whole or not at all.

    Args:
        root: Folder for all ways of asking.
        about: See `asking_key`.

    Raises:
        StorageError: The folder cannot be made.
    """

    def __init__(self, root: Path, about: Mapping[str, str]) -> None:
        self.folder = root / asking_key(about)
        self.unreadable: list[str] = []
        """Names of parts that were set aside because they cannot be read; their items are asked again."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            path = self.folder / ABOUT_FILE
            if not path.exists():
                path.write_text(json.dumps(dict(sorted(about.items())), indent=2), encoding="utf-8")
        except OSError as error:
            raise StorageError(_cannot(f"make {self.folder}", error)) from error

    def answers(self, wanted: Iterable[str] | None = None) -> dict[str, Prediction]:
        """Item fingerprint -> answer, for the items that were answered.

        Args:
            wanted: Fingerprints of interest; None gives all.
        """
        parts = sorted(self.folder.glob("part-*.parquet"))
        frames = [frame for path in parts if (frame := self._read(path)) is not None]
        if not frames:
            return {}
        table = pl.concat(frames).unique("item_fingerprint", keep="first", maintain_order=True)
        if len(parts) > MANY_PARTS:
            self._join(table, parts)
        if wanted is not None:
            table = table.filter(pl.col("item_fingerprint").is_in(list(wanted)))
        return {answer.item_fingerprint: answer for answer in frame_to_predictions(table)}

    def add(self, answers: Sequence[Prediction]) -> None:
        """Keep answers; when this returns they outlive the process.

        Raises:
            StorageError: They cannot be written (disk full, say). What was kept before is untouched.
        """
        if answers:
            self._write(predictions_to_frame(answers))

    def _write(self, table: pl.DataFrame) -> Path:
        name = uuid.uuid4().hex
        partial, path = self.folder / f".{name}.partial", self.folder / f"part-{name}.parquet"
        try:
            with partial.open("wb") as file:
                file.write(_bytes_of(table))
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise StorageError(_cannot(f"keep {table.height} answers in {self.folder}", error)) from error
        return path

    def _read(self, path: Path) -> pl.DataFrame | None:
        try:
            table = pl.read_parquet(path, glob=False)
            if table.schema == pl.Schema(PREDICTION_SCHEMA):
                return table
        except FileNotFoundError:
            return None  # another process joined the parts just now
        except Exception:  # a torn file can raise anything in the reader
            pass
        self.unreadable.append(path.name)
        path.replace(path.with_suffix(".unreadable"))
        return None

    def _join(self, table: pl.DataFrame, parts: Sequence[Path]) -> None:
        self._write(table)
        for path in parts:
            path.unlink(missing_ok=True)


def _bytes_of(table: pl.DataFrame) -> bytes:
    """Through memory, so that a full disk is the operating system's error and not one of the Parquet writer."""
    buffer = io.BytesIO()
    table.write_parquet(buffer)
    return buffer.getvalue()


def _cannot(what: str, error: OSError) -> str:
    reason = os.strerror(error.errno) if error.errno else str(error)
    return f"cannot {what}: {reason}. Answers kept before are safe; the same command goes on from them"
