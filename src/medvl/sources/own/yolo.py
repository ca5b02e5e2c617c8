"""YOLO datasets: one text file a picture with `class cx cy width height` in shares of the picture.

Pictures lie in folders `images`, texts beside them in `labels` (`images/train/` with `labels/train/`, or
`train/images/` with `train/labels/`, or without sides). Class names come from `data.yaml` or `classes.txt`. Lines with
corners of an outline give its enclosing box.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from medvl.config.own_data import OwnDataConfig
from medvl.errors import DataError
from medvl.sources.files import Files
from medvl.sources.listing import counted
from medvl.sources.locate import entry
from medvl.sources.own.asked import SIDES, official, read_side, warn_of_validation
from medvl.sources.own.boxes import Box, box_from_corners
from medvl.sources.own.groups import group_of
from medvl.sources.own.labels import check_labels
from medvl.sources.own.pictures import list_tree
from medvl.sources.own.place import Place
from medvl.sources.record import Domain, Record, SourceScan, Split, Structure
from medvl.sources.sizes import size_if_readable

NAME_FILES = ("data.yaml", "dataset.yaml", "data.yml", "dataset.yml", "classes.txt", "labels/classes.txt")
"""Where class names are looked for, in this order."""
NOT_LABELS = ("classes.txt", "train.txt", "val.txt", "valid.txt", "test.txt", "readme.txt")


@dataclass(frozen=True, slots=True)
class _Line:
    """One object: class and box in shares of the picture, and what to name in a message."""

    label: str
    corners: Box
    where: str


def scan(config: OwnDataConfig, place: Place) -> SourceScan:
    """Read a YOLO dataset.

    Returns:
        One record per picture, in the order of their paths; pictures without a text carry no structure.

    Raises:
        DataError: There are no class names or no pictures, a line is no object, or a box leaves its picture.
    """
    warnings: list[str] = []
    names = _names(place.path)
    check_labels(config, names.values(), str(place.path))
    pictures, found = list_tree(place.path, warnings)
    labels = Files({name: path for name, path in found.items() if _is_label(name)})
    texts = _texts(place.path, [name for name in pictures if "images" in name.casefold().split("/")[:-1]], labels)
    if not texts:
        raise DataError(
            f"{place.path}: expected pictures in a folder 'images' beside a folder 'labels', found none. "
            f"Say the folder above them as path of '{config.name}'."
        )
    used = {text for text in texts.values() if text is not None}
    strays = [os.path.basename(name) for name in labels.unused(used)]
    if strays:
        warnings.append(f"{place.path}: {counted(strays, 'label file')} without a picture; left out.")
    bare = [name for name, text in texts.items() if text is None]
    if bare:
        warnings.append(f"{place.path}: {counted(bare, 'picture')} without a label file; no question is asked on them.")
    records = []
    sides: dict[str, Split | None] = {}
    for name, text in texts.items():
        lines = [] if text is None else _lines(config, text, names)
        sides[name] = _side(name) if config.use_split else None
        records.append(
            Record(
                source=config.name,
                record_id=name,
                picture=pictures[name],
                group=group_of(config, name, None, name),
                domain=Domain(config.domain),
                structures=_structures(pictures[name], lines),
                official_split=official(sides[name]),
                where=name,
            )
        )
    warn_of_validation([name for name, side in sides.items() if side is Split.VAL], warnings)
    return SourceScan(records, warnings)


def _texts(folder: Path, names: Sequence[str], labels: Files) -> dict[str, Path | None]:
    """Picture -> its label file, or None."""
    texts: dict[str, Path | None] = {}
    owners: dict[str, str] = {}
    for name in names:
        text = labels.find(_text_of(name), name)
        key = _text_of(name) if text is None else text.relative_to(folder).as_posix()
        known = owners.setdefault(key, name)
        if known != name:
            raise DataError(f"{folder / name}: expected one picture for {key}, found {known} too. Remove one of them.")
        texts[name] = text
    return texts


def _text_of(name: str) -> str:
    """Relative path of the text that belongs to a picture: the last `images` becomes `labels`."""
    parts = os.path.splitext(name)[0].split("/")
    last = max((index for index, part in enumerate(parts[:-1]) if part.casefold() == "images"), default=None)
    if last is not None:
        parts[last] = "labels"
    return "/".join(parts) + ".txt"


def _is_label(name: str) -> bool:
    *folders, file_name = name.casefold().split("/")
    return "labels" in folders and file_name not in NOT_LABELS


def _side(name: str) -> Split | None:
    """Side of a picture by a folder of its path (`train/images/`, `images/val/`)."""
    sides = [part for part in name.casefold().split("/")[:-1] if part in SIDES]
    return read_side(sides[0], name) if sides else None


def _names(folder: Path) -> dict[int, str]:
    for file_name in NAME_FILES:
        path = entry(folder, file_name)
        if path is not None:
            return _read_names(path)
    raise DataError(
        f"{folder}: expected class names in {' or '.join(NAME_FILES[:1] + NAME_FILES[4:5])}, found neither. "
        "Write one name a line into classes.txt, in the order of their numbers."
    )


def _read_names(path: Path) -> dict[int, str]:
    try:
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise DataError(f"{path}: the class names cannot be opened ({error.strerror}). Check the file.") from error
    if path.suffix.casefold() == ".txt":
        lines = text.rstrip().splitlines()
        names = {index: line.strip() for index, line in enumerate(lines)}
    else:
        try:
            content = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise DataError(f"{path}: expected YAML, found {error}. Correct the file.") from error
        listed = content.get("names") if isinstance(content, Mapping) else None
        if isinstance(listed, list):
            listed = dict(enumerate(listed))
        if not isinstance(listed, Mapping) or not all(str(key).isdigit() for key in listed):
            raise DataError(f"{path}: expected 'names', a list of class names, found {listed!r}. Add it.")
        names = {int(key): str(name).strip() for key, name in listed.items()}
    if not names or not all(names.values()):
        raise DataError(f"{path}: expected a name for each class, found {list(names.values())}. Fill them in.")
    return names


def _lines(config: OwnDataConfig, path: Path, names: Mapping[int, str]) -> list[_Line]:
    try:
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise DataError(f"{path}: the labels cannot be opened ({error.strerror}). Check the file.") from error
    lines = []
    for number, line in enumerate(text.splitlines(), start=1):
        fields = line.split()
        if not fields:
            continue
        where = f"{path.name} line {number}"
        try:
            index, *shares = int(fields[0]), *(float(field) for field in fields[1:])
        except ValueError:
            index, shares = -1, []
        if len(shares) != 4 and (len(shares) < 6 or len(shares) % 2):
            raise DataError(
                f"{where}: expected a class and cx, cy, width, height, or the corners of an outline, found "
                f"{line.strip()[:60]!r}. Predictions with a confidence are no labels. Correct {path}."
            )
        if index not in names:
            raise DataError(
                f"{where}: expected a class of {', '.join(map(str, sorted(names)))}, found {fields[0]}. Correct {path}."
            )
        lines.append(_Line(config.labels.get(names[index], names[index]), _corners(shares), where))
    return lines


def _corners(shares: list[float]) -> Box:
    if len(shares) == 4:
        cx, cy, width, height = shares
        return cx - width / 2, cy - height / 2, cx + width / 2, cy + height / 2
    xs, ys = shares[0::2], shares[1::2]
    return min(xs), min(ys), max(xs), max(ys)


def _structures(picture: Path, lines: list[_Line]) -> tuple[Structure, ...]:
    if not lines:
        return ()
    size = size_if_readable(picture)
    if size is None:
        # The build reads a picture before its boxes and lists this one as broken; the box is never looked at.
        return tuple(Structure(line.label, (0.0, 0.0, 1.0, 1.0)) for line in lines)
    found = []
    for line in lines:
        x0, y0, x1, y1 = line.corners
        corners = (x0 * size[0], y0 * size[1], x1 * size[0], y1 * size[1])
        found.append(Structure(line.label, box_from_corners(corners, size, line.where)))
    return tuple(found)
