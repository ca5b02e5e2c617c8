"""What Lightning's callbacks ask of its Trainer, for a training that another library leads.

So a checkpoint and early stopping are Lightning's own under every engine, and mean the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Checkpoint
from pytorch_lightning.strategies import SingleDeviceStrategy
from pytorch_lightning.trainer.states import TrainerFn
from torch import Tensor


class StandIn:
    """Tells callbacks of Lightning what happens in a training, and answers what they ask of a Trainer.

    Attributes:
        global_step: Optimiser steps taken.
        current_epoch: From 0.
        callback_metrics: Figures of the last validation.
        should_stop: Whether a callback wants to stop.

    Args:
        module: What is trained.
        optimizer: Its optimiser, for checkpoints.
        schedule: The schedule of the rate, for checkpoints.
        callbacks: Callbacks that act at batches and validations.
        loggers: Loggers.
        run: Run folder.
    """

    def __init__(
        self,
        module: pl.LightningModule,
        optimizer: torch.optim.Optimizer,
        schedule: torch.optim.lr_scheduler.LRScheduler,
        callbacks: Sequence[pl.Callback],
        loggers: Sequence[Any],
        run: Path,
    ) -> None:
        self.optimizer, self.schedule, self._module = optimizer, schedule, module
        self.callbacks = sorted(callbacks, key=lambda one: isinstance(one, Checkpoint))  # as Lightning does: last
        self.global_step = 0
        self.current_epoch = 0
        self.callback_metrics: dict[str, Tensor] = {}
        self.should_stop = False
        self.loggers = list(loggers)
        self.default_root_dir = str(run)
        self.strategy = SingleDeviceStrategy(next(module.parameters()).device)
        self.state = SimpleNamespace(fn=TrainerFn.FITTING)
        self.is_global_zero, self.global_rank, self.world_size = True, 0, 1
        self.sanity_checking = self.fast_dev_run = False
        self.check_val_every_n_epoch = None  # validations count batches, not epochs
        self.val_check_interval = 1
        self.ckpt_path = None

    def tell(self, hook: str, *what: Any) -> None:
        """Call a hook of every callback.

        Args:
            hook: Its name (`on_validation_end`).
            what: What it takes beside the Trainer and the module.
        """
        for callback in self.callbacks:
            getattr(callback, hook)(self, self._module, *what)

    def save_checkpoint(self, path: str, weights_only: bool | None = False) -> None:
        """Write the adapter and the state of its optimiser, in the form of Lightning's checkpoints.

        Args:
            path: File to write; it is replaced at once or not at all.
            weights_only: Leave the optimiser out.
        """
        checkpoint: dict[str, Any] = {
            "epoch": self.current_epoch,
            "global_step": self.global_step,
            "pytorch-lightning_version": version("pytorch-lightning"),
            "state_dict": self._module.state_dict(),
        }
        if not weights_only:
            checkpoint["optimizer_states"] = [self.optimizer.state_dict()]
            checkpoint["lr_schedulers"] = [self.schedule.state_dict()]
        self._module.on_save_checkpoint(checkpoint)
        self.strategy.save_checkpoint(checkpoint, path)
