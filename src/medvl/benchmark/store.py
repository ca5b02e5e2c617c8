"""The benchmark folder: `items.parquet` and `card.json`, written whole or not at all, verified on every read."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from medvl.benchmark.item import ITEM_SCHEMA, Item, frame_to_items, items_to_frame
from medvl.errors import DataError, StorageError

SCHEMA_VERSION = 1
ITEMS_FILE = "items.parquet"
CARD_FILE = "card.json"
REQUIRED_CARD_KEYS = ("schema_version", "name", "settings", "sources", "counts", "fingerprints")


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark as read from its folder.

    Attributes:
        folder: Where it lies.
        items: All items.
        card: Content of `card.json`.
    """

    folder: Path
    items: list[Item]
    card: dict[str, Any]

    @property
    def fingerprint(self) -> str:
        """Hash of every item and its split: the same for the same questions, wherever they lie."""
        return str(self.card["fingerprints"]["items"])


def items_fingerprint(items: Sequence[Item]) -> str:
    """Hash over item ids, what is asked, what is right, and the split (16 hex digits)."""
    lines = sorted(f"{item.item_id} {item.fingerprint()} {item.split}" for item in items)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def write_benchmark(folder: Path, items: Sequence[Item], card: dict[str, Any]) -> Benchmark:
    """Write a benchmark folder in one move.

    Args:
        folder: Target; an older benchmark there is replaced.
        items: All items.
        card: Content of the card without `schema_version` and `fingerprints`' file hash, which are added.

    Raises:
        StorageError: The disk refuses the write.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            items_to_frame(items).write_parquet(temporary / ITEMS_FILE)
            prints = {
                **card.get("fingerprints", {}),
                "items": items_fingerprint(items),
                "items_file_sha256": _sha256(temporary / ITEMS_FILE),
            }
            card = {"schema_version": SCHEMA_VERSION, **card, "fingerprints": prints}
            (temporary / CARD_FILE).write_text(json.dumps(card, indent=2, allow_nan=False), encoding="utf-8")
            os.chmod(temporary, 0o755)
            if folder.exists():
                shutil.rmtree(folder)
            temporary.replace(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise StorageError(f"cannot write the benchmark to {folder}: {os.strerror(error.errno or 0)}") from error
    return Benchmark(folder, list(items), card)


def read_card(folder: Path) -> dict[str, Any]:
    """Read and check `card.json`.

    Raises:
        DataError: Absent, not JSON, of another version, or without a required key.
    """
    path = folder / CARD_FILE
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{folder} holds no benchmark: {CARD_FILE} is absent") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not valid JSON ({error}); delete the folder and build again") from None
    if card.get("schema_version") != SCHEMA_VERSION:
        raise DataError(
            f"{path} has schema version {card.get('schema_version')}, this medvl reads {SCHEMA_VERSION}; build again"
        )
    if absent := [key for key in REQUIRED_CARD_KEYS if key not in card]:
        raise DataError(f"{path} lacks {', '.join(absent)}; delete the folder and build again")
    return dict(card)


def read_benchmark(folder: Path) -> Benchmark:
    """Read a benchmark folder and verify it against its card.

    Raises:
        DataError: A file is absent, cut short, has other columns, or is not what the card says.
    """
    card = read_card(folder)
    path = folder / ITEMS_FILE
    if not path.is_file():
        raise DataError(f"{folder} holds no benchmark: {ITEMS_FILE} is absent")
    if _sha256(path) != card["fingerprints"]["items_file_sha256"]:
        raise DataError(f"{path} is not the file that {CARD_FILE} describes (changed or cut short); build again")
    frame = pl.read_parquet(path)
    if dict(frame.schema) != {name: pl.Schema({name: kind})[name] for name, kind in ITEM_SCHEMA.items()}:
        raise DataError(f"{path} has columns {frame.columns}, expected {list(ITEM_SCHEMA)}; build again")
    return Benchmark(folder, frame_to_items(frame), card)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
