"""Rows of question files: JSON Lines, JSON, CSV, TSV, Parquet, and datasets saved by Hugging Face's `datasets`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from medvl.errors import DataError
from medvl.sources.locate import list_files
from medvl.sources.tables import read_table

SLICE_ROWS = 512
"""Rows held at a time of a Parquet file that has pictures in it."""
SHARD_NAME = re.compile(r"(?P<side>[a-z]+)-\d+-of-\d+", re.IGNORECASE | re.ASCII)
"""Parquet files as hubs name them (`train-00000-of-00002`)."""

DATASET_STATE, DATASET_INFO, SPLITS_FILE = "state.json", "dataset_info.json", "dataset_dict.json"


@dataclass(frozen=True, slots=True)
class Row:
    """One row.

    Attributes:
        where: What to name in a message (`q.jsonl row 17`).
        values: Column -> value.
        side: Name of the split that holds it, "" where the file has none.
    """

    where: str
    values: Mapping[str, Any]
    side: str = ""


def read_rows(path: Path, required: Sequence[str]) -> Iterator[Row]:
    """Rows of a file or folder, in order.

    Args:
        path: `.jsonl`, `.ndjson`, `.json`, `.csv`, `.tsv` or `.parquet` file; a folder of Parquet files; or a folder
            that `save_to_disk` wrote, with or without splits.
        required: Columns that each row must have.

    Raises:
        DataError: The file cannot be read as what its ending says, a column is missing, or it has no row.
    """
    is_empty = True
    for row in _rows(path, required):
        missing = [column for column in required if column not in row.values]
        if missing:
            found = ", ".join(map(repr, row.values)) or "none"
            raise DataError(
                f"{row.where}: expected {', '.join(map(repr, missing))}, found {found}. Correct the row, or say what "
                "the columns are called, e.g. columns: {picture: image}."
            )
        is_empty = False
        yield row
    if is_empty:
        raise DataError(f"{path}: expected rows with questions, found none. Check the file.")


def read_json(path: Path) -> Any:
    """Content of a JSON file.

    Raises:
        DataError: The file cannot be opened or is no JSON.
    """
    try:
        return json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: expected JSON, found {error}. Check that the file is whole.") from error


def objects(path: Path, content: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The objects of a JSON list, or of the one list in a JSON object, each with what to name in a message.

    Raises:
        DataError: There is no such list, or something in it is no object.
    """
    if isinstance(content, Mapping):
        lists = [value for value in content.values() if isinstance(value, list)]
        content = lists[0] if len(lists) == 1 else content
    if not isinstance(content, list):
        raise DataError(f"{path}: expected a list of objects, found {type(content).__name__}. Check the file.")
    for number, value in enumerate(content, start=1):
        where = f"{path.name} row {number}"
        if not isinstance(value, Mapping):
            raise DataError(f"{where}: expected an object, found {type(value).__name__}. Correct it in {path}.")
        yield where, value


def _rows(path: Path, required: Sequence[str]) -> Iterator[Row]:
    if path.is_dir():
        yield from _folder_rows(path)
        return
    ending = path.suffix.casefold()
    if ending in (".jsonl", ".ndjson"):
        yield from _json_lines(path)
    elif ending == ".json":
        for where, values in objects(path, read_json(path)):
            yield Row(where, values)
    elif ending == ".parquet":
        yield from _parquet_rows(path)
    else:
        for row in read_table(path, required, ("\t",) if ending == ".tsv" else (",", ";", "\t")):
            yield Row(row.where, row.values)


def _json_lines(path: Path) -> Iterator[Row]:
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path.name} row {number}"
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: expected one JSON object, found {error}. Correct the line in {path}.") from error
        if not isinstance(values, Mapping):
            raise DataError(f"{where}: expected an object, found {type(values).__name__}. Correct it in {path}.")
        yield Row(where, values)


def _parquet_rows(path: Path, side: str = "") -> Iterator[Row]:
    try:
        table = pl.scan_parquet(path, glob=False)
        count = int(table.select(pl.len()).collect().item())
        step = SLICE_ROWS if any(map(_holds_bytes, table.collect_schema().dtypes())) else max(count, 1)
        for start in range(0, count, step):
            part = table.slice(start, step).collect()
            for number, values in enumerate(part.iter_rows(named=True), start=start + 1):
                yield Row(f"{path.name} row {number}", values, side)
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        raise _unreadable(path, "a Parquet file", error) from error


def _holds_bytes(kind: pl.DataType) -> bool:
    if isinstance(kind, pl.Struct):
        return any(_holds_bytes(field.dtype) for field in kind.fields if isinstance(field.dtype, pl.DataType))
    return isinstance(kind, pl.Binary)


def _folder_rows(folder: Path) -> Iterator[Row]:
    """A folder of Parquet files, or one that `save_to_disk` wrote."""
    if (folder / SPLITS_FILE).is_file():
        splits = read_json(folder / SPLITS_FILE)
        names = splits.get("splits") if isinstance(splits, Mapping) else None
        if not isinstance(names, list) or not names:
            raise DataError(
                f"{folder / SPLITS_FILE}: expected the names of splits, found none. Save the dataset again."
            )
        for name in names:
            yield from _saved_rows(folder / _plain_name(name, folder / SPLITS_FILE), name)
    elif (folder / DATASET_STATE).is_file():
        yield from _saved_rows(folder, "")
    else:
        files = [path for name, path in list_files(folder).items() if name.casefold().endswith(".parquet")]
        if not files:
            raise DataError(
                f"{folder}: expected a dataset that `save_to_disk` wrote ({DATASET_STATE} or {SPLITS_FILE}) or "
                "Parquet files, found neither. Say the file itself as path."
            )
        for path in files:
            shard = SHARD_NAME.fullmatch(path.stem)
            yield from _parquet_rows(path, shard["side"] if shard else "")


def _saved_rows(folder: Path, side: str) -> Iterator[Row]:
    state = read_json(folder / DATASET_STATE)
    files = state.get("_data_files") if isinstance(state, Mapping) else None
    if not isinstance(files, list) or not files:
        raise DataError(f"{folder / DATASET_STATE}: expected the data files, found none. Save the dataset again.")
    if state.get("_indices_data_files"):
        raise DataError(
            f"{folder}: expected rows in order, found an index over them. Call flatten_indices() before save_to_disk()."
        )
    names = _class_names(folder)
    for entry in files:
        file_name = entry.get("filename") if isinstance(entry, Mapping) else None
        path = folder / _plain_name(file_name, folder / DATASET_STATE)
        try:
            table = pl.read_ipc_stream(path)
        except (pl.exceptions.PolarsError, OSError, ValueError) as error:
            raise _unreadable(path, "an Arrow stream", error) from error
        for number, values in enumerate(table.iter_rows(named=True), start=1):
            where = f"{side}/{path.name} row {number}" if side else f"{path.name} row {number}"
            yield Row(where, _named(values, names), side)


def _class_names(folder: Path) -> dict[str, list[str]]:
    """Column -> names of its classes, for columns that hold numbers of classes."""
    if not (folder / DATASET_INFO).is_file():
        return {}
    info = read_json(folder / DATASET_INFO)
    features = info.get("features") if isinstance(info, Mapping) else None
    if not isinstance(features, Mapping):
        return {}
    return {
        column: [str(name) for name in feature["names"]]
        for column, feature in features.items()
        if isinstance(feature, Mapping) and feature.get("_type") == "ClassLabel" and feature.get("names")
    }


def _named(values: dict[str, Any], names: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    for column, known in names.items():
        number = values.get(column)
        if isinstance(number, int) and 0 <= number < len(known):
            values[column] = known[number]
    return values


def _plain_name(name: object, where: Path) -> str:
    if not isinstance(name, str) or not name or "/" in name or "\\" in name or name.startswith("."):
        raise DataError(f"{where}: expected the name of a file beside it, found {name!r}. Save the dataset again.")
    return name


def _text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: the file cannot be opened ({error.strerror or error}). Check the path.") from error
    try:
        return content.decode("utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _unreadable(path: Path, kind: str, error: Exception) -> DataError:
    first_line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return DataError(f"{path}: expected {kind}, found a file that cannot be read ({first_line}). Copy it again.")
