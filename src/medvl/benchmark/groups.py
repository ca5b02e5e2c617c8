"""Normalised group ids, so that `P7` and `p007 ` are one patient."""

from __future__ import annotations

import re

from medvl.errors import DataError
from medvl.sources.record import Record, Source


def group_of(source: Source, record: Record) -> str:
    """Normalised group of a record. A group that its source shares with another one carries that one's name.

    Args:
        source: Source of the record.
        record: A record of it.

    Raises:
        DataError: When nothing is left of the id.
    """
    owner, _, shared_id = record.group.partition(":")
    where = record.where or record.record_id
    if owner in source.shares_groups_with:
        return normalise_group(owner, shared_id, where)
    return normalise_group(source.name, record.group, where)


def normalise_group(source: str, raw: str, where: str) -> str:
    """Group id without case, blanks, separators and leading zeros, prefixed with its source.

    A separator between two digits stays as one `-`: exam `1_23` is not exam `12_3`.

    Args:
        source: Name of the source that gave the id; equal ids of two sources are two groups.
        raw: Id as the dataset writes it.
        where: What to name in an error.

    Raises:
        DataError: When nothing is left of the id.
    """
    text = re.sub(r"(?<=\d)[\s_\-]+(?=\d)", "-", raw).casefold()
    text = re.sub(r"(?<!\d)[\s_\-]+|[\s_\-]+(?!\d)", "", text)
    text = re.sub(r"0*(\d+)", lambda match: match.group(1), text)
    if not text:
        raise DataError(
            f"{source}, {where}: no group id (patient, video or exam); without one the split cannot be kept apart"
        )
    return f"{source}:{text}"
