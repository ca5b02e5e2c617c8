"""Labels of own data under the names that the vocabulary knows."""

from __future__ import annotations

from collections.abc import Iterable

from medvl.config.nearest import or_what
from medvl.config.own_data import OwnDataConfig
from medvl.errors import DataError


def check_labels(config: OwnDataConfig, names: Iterable[str], where: str) -> None:
    """Refuse a renaming of what does not occur.

    Args:
        config: Its `labels` rename classes.
        names: All classes that the data have.
        where: What to name in a message.

    Raises:
        DataError: `labels` names something else.
    """
    known = set(names)
    unknown = sorted(set(config.labels) - known)
    if unknown:
        raise DataError(
            f"{where}: expected the class {unknown[0]!r} that 'labels' of '{config.name}' names, "
            f"found none{or_what(unknown[0], known)}"
        )
