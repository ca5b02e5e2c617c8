"""Which pictures of own data must not cross a split."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from medvl.config.own_data import PICTURE_GROUP, OwnDataConfig
from medvl.errors import DataError

ROBOFLOW_COPY = re.compile(r"(?P<original>.+)\.rf\.[0-9a-zA-Z]{8,}$")
"""Name of one of several augmented copies that Roboflow writes of a picture."""


def group_of(config: OwnDataConfig, picture: str, stated: object, where: str) -> str:
    """Group of one picture.

    Args:
        config: Says the rule.
        picture: Path of the picture relative to its folder.
        stated: What the data state (column or key); None where they have no such column.
        where: What to name in a message.

    Raises:
        DataError: Nothing states the group, or what states it is empty here.
    """
    if config.group == PICTURE_GROUP:
        return picture_group(picture)
    if config.group_pattern is not None:
        match = re.search(config.group_pattern, picture)
        if match is None or not match[1]:
            raise DataError(
                f"{where}: expected a name that fits group_pattern {config.group_pattern!r} of '{config.name}', "
                f"found {picture!r}. Correct the pattern or the name."
            )
        return match[1]
    if stated is None:
        raise DataError(
            f"{where}: expected a group (patient, exam or video) for each picture of '{config.name}', found none. "
            "Without it pictures of one patient can lie in train and in test. Say group: COLUMN where the data state "
            "it, group_pattern: '^(P\\d+)_' where file names do, or group: picture if each picture is of another "
            "patient."
        )
    text = str(stated).strip()
    if not text:
        raise DataError(f"{where}: expected a group (patient, exam or video), found an empty field. Fill it in.")
    return text


def picture_group(picture: str) -> str:
    """The picture itself; augmented copies of one picture share a group."""
    path = PurePosixPath(picture)
    match = ROBOFLOW_COPY.fullmatch(path.stem)
    return picture if match is None else match["original"]
