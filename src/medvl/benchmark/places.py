"""Which files a benchmark may name: those whose path is text and that lie where the user said, links followed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from medvl.sources.record import Record


class Places:
    """Judges the files of records.

    Args:
        within: Folders that files must lie in, links followed; anywhere when empty.
    """

    def __init__(self, within: Sequence[Path] = ()) -> None:
        self._within = within
        self._homes = [os.path.realpath(folder) for folder in within]
        self._is_inside: dict[str, bool] = {}

    def problem(self, record: Record) -> str | None:
        """Why a picture or mask of a record cannot be used, or None."""
        for path in (record.picture, *(s.mask.path for s in record.structures if s.mask is not None)):
            if not _is_text(path):
                shown = str(path).encode("utf-8", errors="backslashreplace").decode()
                return f"{shown}: expected a path in UTF-8, found other bytes. Rename the file or folder."
            if self._homes and not self._holds(path):
                return (
                    f"{path}: expected a file below {self._within[0]}, found a link that leads out of it. "
                    "Copy the file there."
                )
        return None

    def _holds(self, path: Path) -> bool:
        if os.path.islink(path):
            return self._lies_inside(os.path.realpath(path))
        # One look at a folder answers for all its files, of which a dataset has a hundred thousand.
        folder = str(path.parent)
        if folder not in self._is_inside:
            self._is_inside[folder] = self._lies_inside(os.path.realpath(folder))
        return self._is_inside[folder]

    def _lies_inside(self, real: str) -> bool:
        return any(os.path.commonpath([home, real]) == home for home in self._homes)


def _is_text(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True
