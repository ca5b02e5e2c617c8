"""What was read of pictures, kept between builds: an interrupted build goes on, a later one reads what changed."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from medvl.benchmark.near import SIGNATURE_VERSION
from medvl.config.schema import BoxConfig
from medvl.errors import StorageError
from medvl.sources.record import MaskFile, Record

READER_VERSION = 1
"""Raised whenever the same file no longer gives the same reading."""

READINGS_FILE = "readings.sqlite"
SAVE_EVERY = 200
"""Readings between two writes: what a killed build loses at most."""


def reading_key(record: Record, boxes: BoxConfig) -> str:
    """Hash over everything that a reading depends on: name, size and time of the files, frame, masks and box rule."""
    structures = [
        (s.label, s.bbox_xyxy_px, None if s.mask is None else [_stamp(s.mask.path), *_how(s.mask)])
        for s in record.structures
    ]
    facts = [READER_VERSION, SIGNATURE_VERSION, _stamp(record.picture), record.frame, structures, boxes.model_dump()]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _how(mask: MaskFile) -> list[object]:
    return [mask.value, mask.is_outline, mask.colour, mask.frame, mask.array, mask.may_be_empty]


def _stamp(path: Path) -> list[object]:
    try:
        status = path.stat()
    except OSError:
        return [str(path), None, None]
    return [str(path), status.st_size, status.st_mtime_ns]


class Readings:
    """A small database of readings beside the benchmarks.

    Args:
        path: Database file; None keeps nothing.

    A database that is damaged or of another program is started anew: it holds nothing that cannot be read again.
    """

    def __init__(self, path: Path | None) -> None:
        self._pending: dict[str, bytes] = {}
        self._connection = None if path is None else _open(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.save()
        if self._connection is not None:
            self._connection.close()

    def known(self, keys: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        """Key -> reading, for the keys that are there."""
        if self._connection is None:
            return {}
        found: dict[str, Mapping[str, Any]] = {}
        wanted = list(keys)
        for start in range(0, len(wanted), 500):  # within SQLite's limit of variables
            part = wanted[start : start + 500]
            marks = ",".join("?" * len(part))
            rows = self._connection.execute(f"SELECT key, reading FROM readings WHERE key IN ({marks})", part)
            found.update({key: json.loads(zlib.decompress(reading)) for key, reading in rows})
        return found

    def add(self, key: str, reading: Mapping[str, Any]) -> None:
        """Keep a reading (plain JSON types)."""
        if self._connection is None:
            return
        self._pending[key] = zlib.compress(json.dumps(reading).encode(), 1)
        if len(self._pending) >= SAVE_EVERY:
            self.save()

    def save(self) -> None:
        """Write what is pending.

        Raises:
            StorageError: The disk refuses the write.
        """
        if self._connection is None or not self._pending:
            return
        try:
            with self._connection:
                self._connection.executemany("INSERT OR REPLACE INTO readings VALUES (?, ?)", self._pending.items())
        except sqlite3.Error as error:
            raise StorageError(f"cannot keep what was read of the pictures ({error}); free some space") from error
        self._pending.clear()


def _open(path: Path) -> sqlite3.Connection:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return _connect(path)
        except sqlite3.DatabaseError:
            path.unlink(missing_ok=True)
            return _connect(path)
    except (OSError, sqlite3.Error) as error:
        raise StorageError(
            f"cannot write {path}: {error}; say paths.data=DIR with a folder you may write to"
        ) from error


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=60)
    # Readings can be made again: speed counts more than the last seconds before a power cut.
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=OFF")
    connection.execute("CREATE TABLE IF NOT EXISTS readings (key TEXT PRIMARY KEY, reading BLOB) WITHOUT ROWID")
    connection.execute("SELECT key, reading FROM readings LIMIT 1").fetchall()
    return connection
