"""Files by name: the one of exactly this name, else the only one whose name differs in upper and lower case."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from medvl.errors import DataError


class Files(Mapping[str, Path]):
    """Files, or folders, by their names as on disk.

    Args:
        paths: Name -> path.
    """

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self._paths = paths

    def __getitem__(self, name: str) -> Path:
        return self._paths[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)

    def find(self, name: str, where: str) -> Path | None:
        """The file of a name in any case, or None.

        Args:
            name: As a table, an annotation or the layout of the dataset writes it.
            where: What to name in a message.

        Raises:
            DataError: None has exactly this name, and several have it in another case.
        """
        exact = self._paths.get(name)
        if exact is not None:
            return exact
        alike = self._in_lower_case.get(name.casefold())
        return None if alike is None else one_of(alike, name, where)

    def unused(self, used: Container[Path]) -> list[str]:
        """Names of the files that are none of these."""
        return [name for name, path in self._paths.items() if path not in used]

    def by_lower_case(self) -> dict[str, Path]:
        """Lower-case name -> file, where nothing but their names says which files belong together.

        Raises:
            DataError: Two names differ in upper and lower case only.
        """
        for one, other, *_ in (alike for alike in self._in_lower_case.values() if len(alike) > 1):
            raise DataError(
                f"{one} and {other}: expected one file, found two whose names differ in upper and lower case only. "
                "Remove the one that is a copy."
            )
        return {name: path for name, (path,) in self._in_lower_case.items()}

    @cached_property
    def _in_lower_case(self) -> dict[str, list[Path]]:
        alike: dict[str, list[Path]] = {}
        for name, path in self._paths.items():
            alike.setdefault(name.casefold(), []).append(path)
        return alike


def one_of(alike: Sequence[Path], name: str, where: str) -> Path:
    """The path of exactly this name, else the only one.

    Args:
        alike: Paths that may be meant, at least one.
        name: Name that is looked for.
        where: What to name in a message.

    Raises:
        DataError: Several may be meant and none has exactly this name.
    """
    exact = next((path for path in alike if path.name == name), None)
    if exact is None and len(alike) > 1:
        found = f"{alike[0]} and {alike[1]}"
        raise DataError(f"{where}: expected one {name}, found {found}. Keep the right one, under exactly this name.")
    return exact or alike[0]
