"""The rows that a configuration asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medvl.config.nearest import or_what
from medvl.config.own_data import OwnDataConfig
from medvl.errors import DataError


def is_selected(config: OwnDataConfig, values: Mapping[str, Any], where: str) -> bool:
    """Whether a row has one of the values that `only` names, for each of its columns.

    Raises:
        DataError: The row lacks such a column.
    """
    for column, wanted in config.only.items():
        if column not in values:
            raise DataError(
                f"{where}: expected the column {column!r} that 'only' of '{config.name}' names, found none"
                f"{or_what(column, values)}"
            )
        if str(values[column]).strip() not in wanted:
            return False
    return True
