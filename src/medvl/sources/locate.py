"""Finding the folder of a dataset below the data root, wherever the user unpacked it, and the files in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from medvl.errors import DataError
from medvl.sources.files import Files, one_of

DEPTH = 2
"""Levels below the root that are looked at."""

ARCHIVE_ENDINGS = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".gz", ".7z", ".rar")

PICTURE_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff")
"""Endings by which pictures are told from other files, in lower case."""


def find_where(root: Path, fits: Callable[[Path], bool]) -> Path | None:
    """Find the folder that fits.

    Looks at the root, then one and two levels below, each level in name order, and takes the first.

    Args:
        root: Data root.
        fits: Whether a folder holds the dataset.

    Returns:
        Absolute path, or None.

    Raises:
        DataError: The root is no folder, or the only folder that fits lies behind a link that leads out of the root.
    """
    folder = _first(root, fits)
    if folder is None:
        _refuse_linked(root, fits)
    return folder


def find_folder(root: Path, markers: Sequence[str]) -> Path | None:
    """Find the folder that holds all markers, as `find_where` does.

    Args:
        root: Data root.
        markers: Names of files or folders, relative to the folder sought (`Images`, `labels/train.csv`), any case.

    Returns:
        Absolute path, or None.

    Raises:
        DataError: As for `find_where`.
    """
    return find_where(root, lambda folder: all(holds(folder, marker) for marker in markers))


def find_any(root: Path, markers: Sequence[str]) -> Path | None:
    """Find the folder that holds the first of the markers that lies anywhere, as `find_folder` does."""
    for marker in markers:
        folder = _first(root, partial(holds, relative=marker))
        if folder is not None:
            return folder
    _refuse_linked(root, lambda folder: any(holds(folder, marker) for marker in markers))
    return None


def find_inside(root: Path, name: str, markers: Sequence[str] = ()) -> Path | None:
    """Find the folder of this name that holds all markers, one level deeper than `find_folder` looks."""
    above = find_folder(root, [name, *(f"{name}/{marker}" for marker in markers)])
    return None if above is None else entry(above, name)


def find_archives(root: Path, words: Sequence[str], depth: int = DEPTH) -> list[Path]:
    """Archives whose name holds one of the words, any case, level by level in name order.

    Args:
        root: Where to look.
        words: Words.
        depth: Levels below the root that are looked at too.
    """
    lowered = [word.casefold() for word in words]
    return [
        path
        for folder in _folders(root, depth)
        for name, path in list_files(folder).items()
        if name.casefold().endswith(ARCHIVE_ENDINGS) and any(word in name.casefold() for word in lowered)
    ]


def or_archive(folder: Path | None, root: Path, words: Sequence[str]) -> Path | None:
    """The folder of a dataset, or where there is none that of the first archive that `find_archives` finds, or None.

    Its scan can then say which archive is not unpacked.
    """
    if folder is not None:
        return folder
    archives = find_archives(root, words)
    return archives[0].parent if archives else None


def not_unpacked(root: Path, words: Sequence[str], expected: str) -> list[str]:
    """A sentence for each archive that `find_archives` finds, for a scan that found nothing where it should be.

    Args:
        root: Where to look.
        words: Words in the archive's name.
        expected: What should be there instead of it, with the full stop (`the folder images. Unpack it there.`).
    """
    return [f"{archive} is not unpacked: expected {expected}" for archive in find_archives(root, words)]


def entries(folder: Path, relative: str) -> list[Path]:
    """All files and folders below `folder` with this relative name, any case, in name order."""
    places = [folder]
    for part in relative.split("/"):
        places = [place / name for place in places for name in _names(place) if name.casefold() == part.casefold()]
    return places


def holds(folder: Path, relative: str) -> bool:
    """Whether there is a file or folder below `folder` with this relative name, any case."""
    return bool(entries(folder, relative))


def entry(folder: Path, relative: str) -> Path | None:
    """The existing file or folder below `folder` with this relative name, or None.

    Each part is looked up as `Files.find` does: exactly, else in any case.

    Raises:
        DataError: Several differ in upper and lower case only, and none has exactly this name.
    """
    place = folder
    for part in relative.split("/"):
        alike = entries(place, part)
        if not alike:
            return None
        place = one_of(alike, part, str(folder))
    return place


def list_files(folder: Path) -> Files:
    """Files of one folder, in name order; none when the folder is absent. Hidden ones are passed over."""
    return Files({name: folder / name for name in _names(folder) if not name.startswith(".")})


def list_pictures(folder: Path, endings: tuple[str, ...] = PICTURE_ENDINGS) -> Files:
    """Picture files of one folder, in name order; none when the folder is absent.

    Endings count in any case. Links to files that are not there (pictures not yet fetched) are no pictures.
    """
    files = list_files(folder).items()
    return Files({name: path for name, path in files if name.casefold().endswith(endings) and path.is_file()})


def subfolders(folder: Path, within: Path | None = None, warnings: list[str] | None = None) -> list[Path]:
    """Folders of one folder, in name order; none when it is absent or may not be read.

    Args:
        folder: Where to look.
        within: Links that lead out of this folder (`folder` itself by default) are left out.
        warnings: Takes a sentence for each such link.
    """
    home = (within or folder).resolve()
    found = []
    for path in (folder / name for name in _names(folder) if not name.startswith((".", "__MACOSX"))):
        if not path.is_dir():
            continue
        if path.resolve().is_relative_to(home):
            found.append(path)
        elif warnings is not None:
            warnings.append(f"{path} is a link out of the dataset and not followed. Copy the folder here.")
    return found


def _first(root: Path, fits: Callable[[Path], bool]) -> Path | None:
    return next((folder for folder in _folders(root, DEPTH) if fits(folder)), None)


def _refuse_linked(root: Path, fits: Callable[[Path], bool]) -> None:
    """Refuse a dataset behind a link that leads out of the root: its pictures could not be named below the root."""
    home = root.resolve()
    for folder in _folders(root, DEPTH - 1):
        depth = DEPTH - 1 - len(folder.relative_to(root.absolute()).parts)
        for link in _linked_folders(folder):
            target = link.resolve()
            if not target.is_relative_to(home) and any(fits(behind) for behind in _folders(link, depth)):
                raise DataError(
                    f"{link}: expected a dataset below {root}, found a link that leads out of it, to {target}. Copy "
                    f"the folder there in place of the link, or make {target.parent} the data root."
                )


def _folders(root: Path, depth: int) -> Iterator[Path]:
    if not root.is_dir():
        raise DataError(f"data root {root}: expected a folder, found none. Set data.root to where the datasets lie.")
    level, home = [root.absolute()], root.resolve()
    for below in range(depth + 1):
        yield from level
        if below < depth:
            level = [child for folder in level for child in subfolders(folder, within=home)]


def _linked_folders(folder: Path) -> list[Path]:
    try:
        links = sorted(entry.name for entry in os.scandir(folder) if entry.is_symlink() and entry.is_dir())
    except OSError:
        return []
    return [folder / name for name in links if not name.startswith(".")]


def _names(folder: Path) -> list[str]:
    """Sorted names in a folder; none for what is no folder or may not be read (as `lost+found` of a data disk)."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
