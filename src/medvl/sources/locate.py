"""Finding the folder of a dataset below the data root, wherever the user unpacked it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from medvl.errors import DataError

DEPTH = 2
"""Levels below the root that are looked at."""

ARCHIVE_ENDINGS = (".zip", ".tar", ".tar.gz", ".tgz", ".gz", ".7z", ".rar")


def find_folder(root: Path, markers: Sequence[str]) -> Path | None:
    """Find the folder that holds all markers.

    Looks at the root, then one and two levels below, each level in name order, and takes the first. Links that lead out
    of the root are not followed.

    Args:
        root: Data root.
        markers: Names of files or folders, relative to the folder sought (`Images`, `labels/train.csv`), any case.

    Returns:
        Absolute path, or None.

    Raises:
        DataError: The root is no folder.
    """
    return next((f for f in _folders(root) if all(entry(f, marker) is not None for marker in markers)), None)


def find_archives(root: Path, words: Sequence[str]) -> list[Path]:
    """Archives at most two levels below the root whose name holds one of the words, any case, in name order.

    For messages such as "training_set.zip lies there: unpack it".
    """
    lowered = [word.casefold() for word in words]
    return [
        folder / name
        for folder in _folders(root)
        for name in _names(folder)
        if name.casefold().endswith(ARCHIVE_ENDINGS) and any(word in name.casefold() for word in lowered)
    ]


def entry(folder: Path, relative: str) -> Path | None:
    """The existing file or folder below `folder` with this relative name, any case, or None."""
    place = folder
    for part in relative.split("/"):
        names = _names(place)
        match = part if part in names else next((n for n in names if n.casefold() == part.casefold()), None)
        if match is None:
            return None
        place = place / match
    return place


def list_files(folder: Path) -> dict[str, Path]:
    """Files of one folder by lower-case name, in name order; empty when the folder is absent."""
    return {name.casefold(): folder / name for name in _names(folder) if not name.startswith(".")}


def _folders(root: Path) -> Iterator[Path]:
    if not root.is_dir():
        raise DataError(f"data root {root}: expected a folder, found none. Set data.root to where the datasets lie.")
    level, home = [root.absolute()], root.resolve()
    for depth in range(DEPTH + 1):
        yield from level
        if depth < DEPTH:
            level = [child for folder in level for child in _subfolders(folder, home)]


def _subfolders(folder: Path, home: Path) -> list[Path]:
    children = [folder / name for name in _names(folder) if not name.startswith((".", "__MACOSX"))]
    return [child for child in children if child.is_dir() and child.resolve().is_relative_to(home)]


def _names(folder: Path) -> list[str]:
    """Sorted names in a folder; none for what is no folder or may not be read (as `lost+found` of a data disk)."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
