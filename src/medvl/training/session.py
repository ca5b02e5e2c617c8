"""What both entry files do with a model and a benchmark: ask the questions of a split and keep what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from medvl.answering.letters import answer_all
from medvl.answering.prediction import Prediction
from medvl.batching.collator import Batch
from medvl.benchmark.item import Item
from medvl.errors import ConfigError
from medvl.sources.record import Split
from medvl.training.results import metrics_of, write_answers


class Questions(Protocol):
    """Where the items of a split and their batches come from (a DataModule)."""

    def items(self, split: Split) -> list[Item]:
        """Items of a split."""

    def question_loader(self, split: Split) -> Iterable[Batch]:
        """Question batches of a split, in the order of its items."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One model's answers to the questions of one split.

    Attributes:
        items: What was asked.
        predictions: One answer an item, in order.
        metrics: Content of `metrics.json`.
    """

    items: list[Item]
    predictions: list[Prediction]
    metrics: dict[str, Any]

    def write(self, folder: Path) -> None:
        """Write `predictions.parquet` and `metrics.json`."""
        write_answers(folder, self.predictions, self.metrics)


def ask(
    model: Any,
    questions: Questions,
    split: Split,
    letter_ids: dict[str, int],
    fingerprints: dict[str, str],
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Ask a model all questions of a split.

    Args:
        model: The model, on its device.
        questions: The benchmark's questions.
        split: Which of them.
        letter_ids: Letter -> token id at the answer position.
        fingerprints: What the figures are made from.
        progress: Called with (items answered, items in all).
    """
    items = questions.items(split)
    device = next(model.parameters()).device
    report = None if progress is None else lambda done: progress(done, len(items))
    predictions = answer_all(model, questions.question_loader(split), letter_ids, device, report)
    return Evaluation(items, predictions, metrics_of(items, predictions, fingerprints))


def choose_device(accelerator: str) -> torch.device:
    """The GPU when there is one and it is not declined, else the CPU.

    Raises:
        ConfigError: A GPU was asked for and there is none.
    """
    has_gpu = torch.cuda.is_available()
    if accelerator == "gpu" and not has_gpu:
        raise ConfigError(["trainer.accelerator=gpu: torch sees no GPU on this machine; use trainer=cpu"])
    return torch.device("cuda" if accelerator != "cpu" and has_gpu else "cpu")
