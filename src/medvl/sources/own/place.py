"""Where own data lie, and finding the pictures that they name."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from medvl.config.own_data import OwnDataConfig
from medvl.errors import DataError
from medvl.sources.files import Files
from medvl.sources.locate import ARCHIVE_ENDINGS, list_files

LONGEST_NAME = 1000
"""Characters of a picture's name from which it is taken for the picture itself (base64)."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where own data lie.

    Attributes:
        folder: Holds the data and the pictures.
        path: File or folder of the data.
        pictures: Folder that picture names are relative to.
        cache: Folder for pictures that lie as bytes in a file.
    """

    folder: Path
    path: Path
    pictures: Path
    cache: Path | None


def find_place(config: OwnDataConfig, root: Path) -> Path:
    """The folder that holds the data and the pictures.

    Raises:
        DataError: A path is absent or of the wrong kind.
    """
    folder = Path(os.path.normpath(root.absolute() / _common(config)))
    place = place_in(config, folder)
    for key, path in (("path", place.path), ("pictures", place.pictures)):
        wants_file = key == "path" and config.is_file
        if not (path.is_file() if wants_file else path.is_dir()):
            kind = "file" if wants_file else "folder"
            raise DataError(f"{key}: expected the {kind} {path}, found {_found(path)}. Correct {key} or data.root.")
    return folder


def _found(path: Path) -> str:
    """What lies at a path, or beside it packed."""
    if path.is_dir():
        return "a folder"
    packed = {f"{path.name}{ending}".casefold() for ending in ("", *ARCHIVE_ENDINGS)}
    archives = [n for n in list_files(path.parent) if n.casefold() in packed and n.casefold().endswith(ARCHIVE_ENDINGS)]
    if archives:
        return f"the archive {archives[0]}, which is not unpacked"
    return "a file" if path.exists() else "nothing"


def place_in(config: OwnDataConfig, folder: Path) -> Place:
    """All places, from the folder that `find_place` gave."""
    common = _common(config)

    def below(path: str) -> Path:
        return Path(os.path.normpath(folder / os.path.relpath(path, common or ".")))

    return Place(
        folder,
        below(config.path),
        below(_pictures(config)),
        None if config.cache is None else below(config.cache),
    )


def _pictures(config: OwnDataConfig) -> str:
    return config.pictures or (os.path.dirname(config.path) if config.is_file else config.path) or "."


def _common(config: OwnDataConfig) -> str:
    """The deepest folder above data and pictures, as far as the configuration tells."""
    home = (os.path.dirname(config.path) if config.is_file else config.path) or "."
    pictures = _pictures(config)
    return os.path.commonpath([home, pictures])


@dataclass(frozen=True, slots=True)
class FoundPicture:
    """What a name stands for.

    Attributes:
        name: Path relative to the folder of the pictures, with `/`; as on disk where the picture is present.
        path: Absolute path.
        is_present: Whether the file is there.
        listed_as: The path as it was asked for, with `/`.
    """

    name: str
    path: Path
    is_present: bool
    listed_as: str = ""


@dataclass(slots=True)
class PictureFinder:
    """Finds pictures by relative path, each part exactly or else in any case, listing each folder once.

    Attributes:
        folder: Folder that names are relative to.
    """

    folder: Path
    _found: dict[str, FoundPicture] = field(default_factory=dict)
    _listings: dict[Path, tuple[Files, dict[Path, os.DirEntry[str]]]] = field(default_factory=dict)

    def find(self, name: str, where: str) -> FoundPicture:
        """The picture of a name.

        Args:
            name: Relative path, its parts separated by slashes of either kind, or an absolute one below the folder.
            where: What to name in a message.

        Raises:
            DataError: The name is no path below the folder, leads out of it through a link, or fits several files in
                another case and none exactly.
        """
        known = self._found.get(name)
        if known is None:
            known = self._found[name] = self._look(name, where)
        return known

    def _look(self, name: str, where: str) -> FoundPicture:
        parts = self._parts(name, where)
        asked = "/".join(parts)
        place, is_link, is_file = self.folder, False, False
        for part in parts:
            files, entries = self._listing(place)
            path = files.find(part, where)
            if path is None:
                return FoundPicture(asked, self.folder.joinpath(*parts), is_present=False, listed_as=asked)
            place, is_link, is_file = path, is_link or entries[path].is_symlink(), entries[path].is_file()
        if is_link and not place.resolve().is_relative_to(self.folder.resolve()):
            raise DataError(
                f"{where}: expected a picture below {self.folder}, found {name!r}, a link that leads out of it. "
                "Copy the picture there, or set pictures to a folder above."
            )
        return FoundPicture(place.relative_to(self.folder).as_posix(), place, is_file, asked)

    def _parts(self, name: str, where: str) -> list[str]:
        text = name.strip().replace("\\", "/")
        if len(text) > LONGEST_NAME:
            raise DataError(
                f"{where}: expected the path of a picture, found {len(text)} characters ({text[:20]}...), perhaps the "
                "picture itself as base64. Save the pictures as files and name them."
            )
        if re.match(r"[a-z][a-z0-9+.\-]+://", text, re.IGNORECASE):
            raise DataError(f"{where}: expected a file, found the address {name!r}. Download the picture and name it.")
        home = self.folder.as_posix().rstrip("/") + "/"
        if text.startswith(home):
            text = text[len(home) :]
        parts = [part for part in text.split("/") if part not in ("", ".")]
        is_absolute = text.startswith("/") or re.match(r"[a-z]:/", text, re.IGNORECASE)
        if not parts or is_absolute or ".." in parts or "\0" in text:
            raise DataError(
                f"{where}: expected a path relative to {self.folder}, found {name!r}. Correct it, or set pictures to "
                "the folder that it is relative to."
            )
        return parts

    def _listing(self, folder: Path) -> tuple[Files, dict[Path, os.DirEntry[str]]]:
        """What lies in a folder, by name and by path."""
        if folder not in self._listings:
            try:
                entries = {folder / entry.name: entry for entry in sorted(os.scandir(folder), key=lambda e: e.name)}
            except OSError:
                entries = {}
            self._listings[folder] = (Files({entry.name: path for path, entry in entries.items()}), entries)
        return self._listings[folder]
