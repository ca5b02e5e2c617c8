"""The DataLoader of this project, and a dataset whose elements are whole batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch.utils.data import DataLoader, Dataset

from medvl.batching.collator import Batch
from medvl.batching.dataset import ItemDataset, Sample
from medvl.errors import MedvlError


class WholeBatches(Dataset[list[Sample]]):
    """A dataset in batches that are made beforehand; loaded with `batch_size=None`.

    A batch sampler would do the same, but Lightning cannot share one out among processes.

    Args:
        dataset: Items.
        batches: Numbers of the items of each batch.
    """

    def __init__(self, dataset: ItemDataset, batches: Sequence[Sequence[int]]) -> None:
        self._dataset = dataset
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> list[Sample]:
        return [self._dataset[number] for number in self._batches[index]]


class QuestionLoader(DataLoader[Batch]):
    """A DataLoader of batches: an error in a loading process reads as it does in the main one.

    torch puts the traceback of a loading process into the message; this takes it out.
    """

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]  # Lightning and torch only ask for `next`
        batches: Iterator[Any] = super().__iter__()
        try:
            yield from batches
        except MedvlError as error:
            kind = type(error)
            mark = f"\n{kind.__module__}.{kind.__qualname__}: "
            text = str(error)
            raise kind(text.rsplit(mark, 1)[-1].rstrip("\n")) from None
