"""Scores each validation and logs it under the names of the design, to every logger alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pytorch_lightning as pl

from medvl.answering.prediction import Prediction
from medvl.benchmark.item import Item
from medvl.evaluation.logged import logged_metrics
from medvl.training.results import metrics_of
from medvl.training.sft_module import SftModule


class EvaluationCallback(pl.Callback):
    """Scores each validation.

    The figures go to the loggers as they are; `trainer.callback_metrics` gets the same for checkpoints and early
    stopping.

    Args:
        items: Val items in the order of the loader.
        fingerprints: What the figures are made from.
        report: Called with (step, figures) after each validation.
    """

    def __init__(
        self,
        items: Sequence[Item],
        fingerprints: dict[str, str],
        report: Callable[[int, dict[str, float]], None],
    ) -> None:
        self._items = list(items)
        self._fingerprints = fingerprints
        self._report = report
        self._history: list[dict[str, float]] = []

    def best(self, name: str) -> float:
        """Largest value of a figure over all validations so far; NaN when none has it."""
        return max((figures[name] for figures in self._history if name in figures), default=math.nan)

    def score(self, predictions: Sequence[Prediction], loggers: Sequence[Any], step: int) -> dict[str, float]:
        """Score one validation, log and report its figures, and return them.

        Args:
            predictions: An answer for each item.
            loggers: Who gets the figures.
            step: Optimiser steps taken.
        """
        figures = logged_metrics(metrics_of(self._items, predictions, self._fingerprints), "val")
        self._history.append(figures)
        log_everywhere(loggers, figures, step)
        self._report(step, figures)
        return figures

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Score what Lightning's validation answered."""
        figures = self.score(cast(SftModule, pl_module).val_predictions, trainer.loggers, trainer.global_step)
        for name, value in figures.items():
            pl_module.log(name, value, logger=False, batch_size=len(self._items))


def log_everywhere(loggers: Sequence[Any], figures: dict[str, float], step: int) -> None:
    """Send figures to every logger at an optimiser step."""
    for logger in loggers:
        logger.log_metrics(figures, step=step)
        logger.save()


def watchable(
    callbacks: Mapping[str, dict[str, Any] | None], figures: Mapping[str, float]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Callback nodes that watch only figures which this benchmark has.

    Args:
        callbacks: Name -> `_target_` node.
        figures: What the first validation gave. `val/macro_accuracy` is absent when no task of val has two answers.

    Returns:
        (nodes, a sentence for each one that had to watch `val/loss` instead).
    """
    nodes, remarks = [], []
    for name, node in callbacks.items():
        if node is None:
            continue
        monitor = node.get("monitor")
        if monitor is not None and monitor not in figures:
            remarks.append(f"callbacks.{name}: val has no {monitor}; val/loss is watched instead")
            node = {**node, "monitor": "val/loss", "mode": "min"}
        nodes.append(node)
    return nodes, remarks
