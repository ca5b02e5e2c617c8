"""How a message names several files at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from medvl.sources.record import Record


def counted(names: Sequence[str], noun: str) -> str:
    """`2 pictures (a.png, b.png)`: how many, and the first three by name."""
    shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return f"{len(names)} {noun}{'' if len(names) == 1 else 's'} ({shown})"


def warn_of(place: Path | str, names: Sequence[str], noun: str, what: str) -> list[str]:
    """`images: 2 pictures (a.png, b.png) without a mask.` as a list of one sentence, empty when there are no names.

    Args:
        place: Folder or table that the sentence is about.
        names: What is counted and named.
        noun: What one of them is.
        what: The rest of the sentence.
    """
    return [f"{place}: {counted(names, noun)} {what}"] if names else []


def without_structures(records: Sequence[Record]) -> list[str]:
    """Ids of the records whose picture is there and has no marked structure."""
    return [record.record_id for record in records if record.is_present and not record.structures]
