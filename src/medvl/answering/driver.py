"""Asks a model on this machine batch by batch, whatever the way of asking."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, Self, TypeVar

import torch

from medvl.answering.prediction import Prediction
from medvl.benchmark.item import Item
from medvl.errors import ModelError
from medvl.models.modes import in_evaluation


class Askable(Protocol):
    """Questions made ready for a model."""

    @property
    def items(self) -> tuple[Item, ...]:
        """What is asked."""

    def to(self, device: torch.device | str) -> Self:
        """The same on a device."""


AskedBatch = TypeVar("AskedBatch", bound=Askable)


def ask_all(
    model: Any,
    batches: Iterable[AskedBatch],
    ask: Callable[[AskedBatch], list[Prediction]],
    device: torch.device | str,
    progress: Callable[[int], None] | None = None,
    keep: Callable[[list[Prediction]], None] | None = None,
) -> list[Prediction]:
    """Ask every batch with the model in evaluation mode; the modes of its modules are restored afterwards.

    Args:
        model: The model that `ask` uses.
        batches: Question batches.
        ask: Answers a batch on the device, one prediction an item, in order.
        device: Where the model is.
        progress: Called with the number of items answered so far.
        keep: Called with the answers of each batch as it is done.

    Raises:
        ModelError: The memory does not hold a batch; names its items.
    """
    predictions: list[Prediction] = []
    with in_evaluation(model):
        for batch in batches:
            answers = _within_memory(ask, batch, device)
            if keep is not None:
                keep(answers)
            predictions += answers
            if progress is not None:
                progress(len(predictions))
    return predictions


def check_finite(items: Sequence[Item], is_lost: Iterable[bool]) -> None:
    """Refuse logits that are no numbers; they would count as an answer otherwise.

    Args:
        items: Items of a batch.
        is_lost: Whether the logits of each are not finite.

    Raises:
        ModelError: There are some; names the items.
    """
    if lost := [item for item, lost in zip(items, is_lost, strict=True) if lost]:
        raise ModelError(
            f"the model's logits are not finite for items {_names(lost)}; its numbers overflow in this precision or "
            "its weights are broken: try model.dtype=float32"
        )


def _within_memory(
    ask: Callable[[AskedBatch], list[Prediction]], batch: AskedBatch, device: torch.device | str
) -> list[Prediction]:
    try:
        return ask(batch.to(device))
    except RuntimeError as error:
        # torch.OutOfMemoryError is one of a GPU only; the allocator of the CPU has no type of its own.
        if not isinstance(error, torch.OutOfMemoryError) and "DefaultCPUAllocator" not in str(error):
            raise
        raise ModelError(
            f"the memory of device {device} does not hold a batch of {len(batch.items)} questions "
            f"({_names(batch.items)}); lower eval.batch_tokens or eval.batch_size, or the pixel limits of the model"
        ) from error


def _names(items: Sequence[Item], most: int = 5) -> str:
    rest = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(item.item_id for item in items[:most]) + rest
