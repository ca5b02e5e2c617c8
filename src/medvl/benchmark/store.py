"""The benchmark folder: `items.parquet` and `card.json`, written whole or not at all, verified on every read."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import shutil
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from medvl.benchmark.item import ITEM_SCHEMA, Item, frame_to_items, items_to_frame
from medvl.errors import DataError, StorageError

SCHEMA_VERSION = 3  # 2: the card carries its own hash; 3: it lists leaks with source, side and what was done
ITEMS_FILE = "items.parquet"
CARD_FILE = "card.json"
REQUIRED_CARD_KEYS = ("schema_version", "name", "settings", "sources", "counts", "fingerprints")
REQUIRED_FINGERPRINTS = ("items", "items_file_sha256", "card_sha256")
ATTEMPTS = 8
"""How often a folder is swapped in when another process puts the same benchmark there at the same moment."""


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
        card: Content of the card without `schema_version` and the hashes, which are added.

    Raises:
        DataError: Two items have one id, or something that is no benchmark lies at the target.
        StorageError: The disk refuses the write.
    """
    _check_unique(items)
    table = io.BytesIO()
    items_to_frame(items).write_parquet(table)
    prints = {
        **card.get("fingerprints", {}),
        "items": items_fingerprint(items),
        "items_file_sha256": hashlib.sha256(table.getvalue()).hexdigest(),
    }
    card = {"schema_version": SCHEMA_VERSION, **card, "fingerprints": prints}
    prints["card_sha256"] = _card_sha256(card)
    temporary = folder.parent / f".{folder.name}-{uuid.uuid4().hex[:8]}"
    try:
        _check_replaceable(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.mkdir()
            (temporary / ITEMS_FILE).write_bytes(table.getvalue())
            (temporary / CARD_FILE).write_text(json.dumps(card, indent=2, allow_nan=False), encoding="utf-8")
            _swap_in(temporary, folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise StorageError(f"cannot write the benchmark to {folder}: {error.strerror or error}") from error
    return Benchmark(folder, list(items), card)


def _check_replaceable(folder: Path) -> None:
    """Refuse a folder with other content: a mistyped target must not cost anybody their files."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return
    if names and not {CARD_FILE, ITEMS_FILE} & set(names):
        raise DataError(f"{folder} is not empty and holds no benchmark; name another folder, nothing was written")


def _check_unique(items: Sequence[Item]) -> None:
    seen: dict[str, Item] = {}
    for item in items:
        if (other := seen.setdefault(item.item_id, item)) is not item:
            raise DataError(
                f"two items have the id {item.item_id} ({other.picture} and {item.picture}); "
                "the source gives one record_id to two records"
            )


def _swap_in(new: Path, folder: Path) -> None:
    """Put `new` where `folder` is; what was there is removed once the new one stands."""
    old = new.with_name(f"{new.name}-old")
    try:
        for attempt in range(ATTEMPTS):
            try:
                new.replace(folder)
                return
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or attempt == ATTEMPTS - 1:
                    raise
            with suppress(FileNotFoundError):  # another process was faster
                shutil.rmtree(old, ignore_errors=True)
                folder.rename(old)
    finally:
        shutil.rmtree(old, ignore_errors=True)


def stored_inputs(folder: Path) -> str | None:
    """Fingerprint of what the benchmark in a folder was built from.

    Returns:
        None when there is no benchmark, or one of another schema version: both are to be built.

    Raises:
        DataError: The card is damaged.
    """
    if not (folder / CARD_FILE).is_file() or _load_card(folder).get("schema_version") != SCHEMA_VERSION:
        return None
    return str(read_card(folder)["fingerprints"].get("inputs"))


def read_card(folder: Path) -> dict[str, Any]:
    """Read and check `card.json`.

    Raises:
        DataError: Absent, not JSON, of another version, without a required key, or edited.
    """
    path = folder / CARD_FILE
    card = _load_card(folder)
    if card.get("schema_version") != SCHEMA_VERSION:
        raise DataError(
            f"{path} has schema version {card.get('schema_version')}, this medvl reads {SCHEMA_VERSION}; "
            "delete the folder and build again"
        )
    absent = [key for key in REQUIRED_CARD_KEYS if key not in card]
    prints = card.get("fingerprints")
    if "fingerprints" not in absent:
        known = prints if isinstance(prints, dict) else {}
        absent += [f"fingerprints.{key}" for key in REQUIRED_FINGERPRINTS if key not in known]
    if absent:
        raise DataError(f"{path} lacks {', '.join(absent)}; delete the folder and build again")
    if _card_sha256(card) != card["fingerprints"]["card_sha256"]:
        raise DataError(f"{path} was edited after it was written; delete the folder and build again")
    return card


def read_benchmark(folder: Path) -> Benchmark:
    """Read a benchmark folder and verify it against its card.

    Raises:
        DataError: A file is absent, cut short, has other columns, or is not what the card says.
    """
    card = read_card(folder)
    path = folder / ITEMS_FILE
    if not path.is_file():
        raise DataError(f"{folder} holds no benchmark: {ITEMS_FILE} is absent; delete the folder and build again")
    if _sha256(path) != card["fingerprints"]["items_file_sha256"]:
        raise DataError(
            f"{path} is not the file that {CARD_FILE} describes (changed or cut short); "
            "delete the folder and build again"
        )
    frame = pl.read_parquet(path, glob=False)
    if dict(frame.schema) != {name: pl.Schema({name: kind})[name] for name, kind in ITEM_SCHEMA.items()}:
        raise DataError(
            f"{path} has columns {frame.columns}, expected {list(ITEM_SCHEMA)}; delete the folder and build again"
        )
    return Benchmark(folder, frame_to_items(frame), card)


def _load_card(folder: Path) -> dict[str, Any]:
    path = folder / CARD_FILE
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{folder} holds no benchmark: {CARD_FILE} is absent") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not valid JSON ({error}); delete the folder and build again") from None
    if not isinstance(card, dict):
        raise DataError(f"{path} holds no card but {type(card).__name__}; delete the folder and build again")
    return card


def _card_sha256(card: dict[str, Any]) -> str:
    """Hash of the card's content, its own hash left out."""
    prints = {key: value for key, value in card["fingerprints"].items() if key != "card_sha256"}
    return hashlib.sha256(json.dumps({**card, "fingerprints": prints}, sort_keys=True).encode()).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
