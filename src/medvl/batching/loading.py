"""The DataLoader of this project: an error in a loading process reads as it does in the main one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader

from medvl.batching.collator import Batch
from medvl.errors import MedvlError


class QuestionLoader(DataLoader[Batch]):
    """A DataLoader of batches. torch puts the traceback of a loading process into the message; this takes it out."""

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]  # Lightning and torch only ask for `next`
        batches: Iterator[Any] = super().__iter__()
        try:
            yield from batches
        except MedvlError as error:
            kind = type(error)
            mark = f"\n{kind.__module__}.{kind.__qualname__}: "
            text = str(error)
            raise kind(text.rsplit(mark, 1)[-1].rstrip("\n")) from None
