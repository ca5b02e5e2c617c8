"""Looks after a few steps whether every part of an adapter learns, before hours are spent on one that cannot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytorch_lightning as pl

from medvl.batching.collator import Batch
from medvl.errors import TrainingError
from medvl.models.base import Base
from medvl.models.modes import in_evaluation
from medvl.models.proof import signs_of_life

STEPS = 2
"""Optimiser steps before the first look: after one, B has moved by its first gradient only."""

PATIENCE = 12
"""Steps after which a part that has not moved is dead. Until then 16-bit precision may still be looking for its scale,
and leaves steps out (`torch.amp.GradScaler` halves 65,536 at each)."""


class FirstStepsCallback(pl.Callback):
    """Proves the adapter live after the first steps, or stops the run.

    Args:
        model: The model with its adapter.
        base: Its base.
        record: Called once with `b_norms` and `logit_change` (see `prove_adapter`) and the `step` they were found at.
    """

    def __init__(self, model: Any, base: Base, record: Callable[[dict[str, Any]], None]) -> None:
        self._model = model
        self._base = base
        self._record = record
        self._is_done = False

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Batch, batch_idx: int
    ) -> None:
        """Look at the adapter, once it had its first steps.

        Raises:
            TrainingError: A part of the adapter did not move at all.
        """
        if self._is_done or trainer.global_step < STEPS:
            return
        with in_evaluation(self._model):
            signs = signs_of_life(self._model, self._base, batch)
        dead = [part for part, norms in signs["b_norms"].items() if norms["zero"] == norms["matrices"]]
        if dead and trainer.global_step < PATIENCE:
            return
        self._is_done = True
        self._record({"step": trainer.global_step, **signs})
        if dead:
            raise TrainingError(
                f"after {trainer.global_step} steps no matrix of the adapter on {', '.join(dead)} has moved: no "
                "gradient reaches it. Another precision (trainer.precision=bf16-mixed or 32-true) may help; else leave "
                "the part out of lora.parts"
            )
