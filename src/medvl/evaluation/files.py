"""Reading and writing `metrics.json`, `details.json` and `comparison.json`.

Keys may be added within a `schema_version`, so a reader takes an absent key that is not required here as null.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from pathlib import Path
from typing import Any

from medvl.errors import DataError, StorageError
from medvl.evaluation import details
from medvl.evaluation.summary import DOMAINS, SCHEMA_VERSION, TASK_ORDER, TIERS

_METRICS_KEYS = (
    *("schema_version", "split", "scoring", "overall", "tasks", "tiers", "domains", "sources", "classes"),
    *("letters", "fingerprints"),
)
_METRICS_CELL = (
    *("accuracy", "ci95", "n", "n_groups", "chance", "always_a", "majority", "invalid_rate", "uncommitted_rate"),
)
_DETAILS_KEYS = ("schema_version", "split", "scoring", "few", "items", "overall", "tasks", "fingerprints")
_DETAILS_WHOLE = ("counts", "unknown", "option_counts")
_DETAILS_COUNTS = ("n", "right", "wrong", "invalid", "uncommitted")
_DETAILS_TABLES = ("domains", "sources", "devices", "operators", "centres")
_COMPARISON_KEYS = ("schema_version", "split", "scoring", "overall", "tasks", "box_tiers", "domains", "fingerprints")
_COMPARISON_OVERALL = ("zero_shot", "fine_tuned", "difference", "n", "n_groups")
_COMPARISON_CELL = (
    *("zero_shot", "fine_tuned", "chance", "n", "n_groups", "ci95_zero_shot", "ci95_fine_tuned", "difference"),
)


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write a JSON file as a whole or not at all; a file that was there stays until the new one is complete.

    Args:
        path: File to write. Its folder is made when absent.
        data: Plain JSON types. Key order is kept.

    Raises:
        DataError: A figure is not a finite number.
        StorageError: The disk is full, read-only or refuses the write.
    """
    bad = _first_non_finite(data, "")
    if bad is not None:
        raise DataError(f"{path.name} cannot hold a figure that is not a finite number, got one at '{bad}'.")
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        reason = error.strerror or str(error)
        raise StorageError(f"Could not write {path}: {reason}. Free or unlock the place, or choose another.") from error


def read_metrics(path: Path) -> dict[str, Any]:
    """Read and check a `metrics.json`.

    Raises:
        DataError: The file is absent, no JSON, of another version, or lacks a key; the message names which.
    """
    data = read_checked(path, _METRICS_KEYS)
    require_keys(path, data["overall"], ("macro_accuracy", *_METRICS_CELL), "overall")
    _require_names(path, data, {"tiers": TIERS, "domains": DOMAINS})
    require_cells(path, data, ("tasks", "tiers", "domains", "sources"), _METRICS_CELL)
    return data


def read_details(path: Path) -> dict[str, Any]:
    """Read and check a `details.json`.

    Raises:
        DataError: The file is absent, no JSON, of another version, lacks a key, or counts that do not add up.
    """
    data = read_checked(path, _DETAILS_KEYS, details.SCHEMA_VERSION)
    require_keys(path, data["tasks"], (), "tasks")
    _require_whole(path, data["overall"], "overall")
    for task, part in data["tasks"].items():
        _require_whole(path, part, f"tasks.{task}")
        require_keys(path, part, _DETAILS_TABLES, f"tasks.{task}")
        require_cells(path, part, ("option_counts", *_DETAILS_TABLES), _METRICS_CELL)
    return data


def read_comparison(path: Path) -> dict[str, Any]:
    """Read and check a `comparison.json`.

    Raises:
        DataError: The file is absent, no JSON, of another version, or lacks a key; the message names which.
    """
    data = read_checked(path, _COMPARISON_KEYS)
    require_keys(path, data["overall"], _COMPARISON_OVERALL, "overall")
    for arm in ("zero_shot", "fine_tuned"):
        require_keys(path, data["overall"][arm], ("accuracy", "macro_accuracy", "ci95"), f"overall.{arm}")
    require_keys(path, data["overall"]["difference"], ("estimate", "ci95", "p"), "overall.difference")
    _require_names(path, data, {"tasks": TASK_ORDER, "box_tiers": TIERS, "domains": DOMAINS})
    require_cells(path, data, ("tasks", "box_tiers", "domains"), _COMPARISON_CELL)
    for table in ("tasks", "box_tiers", "domains"):
        for name, cell in data[table].items():
            if cell is not None:
                require_keys(path, cell["difference"], ("estimate", "ci95", "p"), f"{table}.{name}.difference")
    return data


def read_checked(path: Path, keys: tuple[str, ...], newest: int = SCHEMA_VERSION) -> dict[str, Any]:
    """Read a JSON file that has these keys and no newer schema than `newest`.

    Raises:
        DataError: It is absent, damaged, newer, or lacks a key.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataError(f"There is no file {path}. Run evaluate.py to make it, or name another.") from error
    except OSError as error:
        raise DataError(f"Could not read {path}: {error.strerror or error}.") from error
    except ValueError as error:  # not JSON, or not UTF-8
        raise DataError(f"{path} is not a JSON file ({error}). Run evaluate.py to make it again.") from error
    if not isinstance(data, dict):
        raise DataError(f"{path} should hold a JSON object, got {type(data).__name__}.")
    version = data.get("schema_version")
    if version != newest:
        raise DataError(
            f"{path} has schema_version {version!r}, this version reads {newest}. "
            "Run evaluate.py again on its predictions."
        )
    require_keys(path, data, keys, "the file")
    return data


def require_keys(path: Path, node: Any, keys: tuple[str, ...], where: str) -> None:
    """Refuse a part of a file that is no object with these keys.

    Args:
        path: The file, for the message.
        node: The part.
        keys: What it must have.
        where: Its place in the file, for the message.

    Raises:
        DataError: It is no object, or lacks a key.
    """
    if not isinstance(node, dict):
        raise DataError(f"{path}: '{where}' should be an object, got {type(node).__name__}. Run evaluate.py again.")
    absent = [key for key in keys if key not in node]
    if absent:
        raise DataError(f"{path}: {where} lacks {', '.join(absent)}. Run evaluate.py again on its predictions.")


def _require_names(path: Path, data: dict[str, Any], fixed: dict[str, tuple[str, ...]]) -> None:
    for table, names in fixed.items():
        require_keys(path, data[table], names, table)


def _require_whole(path: Path, part: Any, where: str) -> None:
    require_keys(path, part, _DETAILS_WHOLE, where)
    require_keys(path, part["counts"], _DETAILS_COUNTS, f"{where}.counts")
    n, *parts = (part["counts"][key] for key in _DETAILS_COUNTS)
    if not all(isinstance(count, int) for count in (n, *parts)) or n != sum(parts):
        raise DataError(
            f"{path}: {where}.counts should add up to n={n}, got {parts}. Run evaluate.py again on its predictions."
        )


def require_cells(path: Path, data: dict[str, Any], tables: tuple[str, ...], keys: tuple[str, ...]) -> None:
    """Refuse tables with a cell that lacks one of these keys; absent cells are null.

    Raises:
        DataError: See `require_keys`.
    """
    for table in tables:
        require_keys(path, data[table], (), table)
        for name, cell in data[table].items():
            if cell is not None:
                require_keys(path, cell, keys, f"{table}.{name}")


def _first_non_finite(node: Any, where: str) -> str | None:
    if isinstance(node, float):
        return None if math.isfinite(node) else where
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list | tuple) else ()
    for key, child in children:
        found = _first_non_finite(child, f"{where}.{key}" if where else str(key))
        if found is not None:
            return found
    return None
