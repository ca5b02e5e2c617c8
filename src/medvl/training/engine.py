"""Runs the Lightning engine on an adapter and leaves the model with the best weights it reached."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint, RichProgressBar

from medvl.config.schema import TrainerConfig
from medvl.errors import ModelError, TrainingError
from medvl.training.sft_module import SftModule


def build_trainer(
    config: TrainerConfig, callbacks: Sequence[pl.Callback], loggers: Sequence[Any], batches_per_epoch: int, run: Path
) -> pl.Trainer:
    """A Lightning Trainer as the configuration says.

    Args:
        config: Trainer settings.
        callbacks: Callbacks besides the progress bar.
        loggers: Loggers.
        batches_per_epoch: Training batches of one process in one epoch.
        run: Run folder.
    """
    shows_progress = config.progress and sys.stderr.isatty()
    return pl.Trainer(
        accelerator=config.accelerator,
        devices=config.devices,
        precision=config.precision,
        max_epochs=math.ceil(planned_steps(config, batches_per_epoch) * config.accumulate_batches / batches_per_epoch),
        max_steps=config.max_steps,
        accumulate_grad_batches=config.accumulate_batches,
        gradient_clip_val=config.gradient_clip,
        val_check_interval=val_interval(config, batches_per_epoch),
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
        log_every_n_steps=config.log_every_steps,
        callbacks=[*callbacks, *([_Bar()] if shows_progress else [])],
        logger=list(loggers),
        enable_progress_bar=shows_progress,
        enable_checkpointing=any(isinstance(callback, ModelCheckpoint) for callback in callbacks),
        enable_model_summary=False,
        enable_autolog_hparams=False,
        default_root_dir=run,
        **config.extra,
    )


def val_interval(config: TrainerConfig, batches_per_epoch: int) -> int:
    """Batches between two validations: about `val_every_steps` optimiser steps, spread so that one falls on the end."""
    steps = planned_steps(config, batches_per_epoch)
    rounds = max(1, round(steps / config.val_every_steps))
    return max(1, steps // rounds) * config.accumulate_batches


def planned_steps(config: TrainerConfig, batches_per_epoch: int) -> int:
    """Optimiser steps that will be taken, unless training stops early."""
    if config.max_steps >= 0:
        return config.max_steps
    return config.max_epochs * math.ceil(batches_per_epoch / config.accumulate_batches)


def fit(trainer: pl.Trainer, module: SftModule, datamodule: pl.LightningDataModule) -> None:
    """Train; afterwards the module holds the weights of the best validation, or the last ones without a checkpoint.

    Raises:
        KeyboardInterrupt: Ctrl-C; the last checkpoint is kept.
        TrainingError: The loss is not finite, or nothing is supervised.
        ModelError: The best checkpoint cannot be read back.
    """
    try:
        trainer.fit(module, datamodule=datamodule)
    except SystemExit:
        if trainer.interrupted:
            raise KeyboardInterrupt from None
        raise
    if trainer.global_step == 0:
        raise TrainingError("not one optimiser step was taken: trainer.max_steps or trainer.max_epochs leaves none")
    best = next((c.best_model_path for c in trainer.callbacks if isinstance(c, ModelCheckpoint)), "")  # type: ignore[attr-defined]
    if best:
        load_weights(module, Path(best))


def load_weights(module: SftModule, checkpoint: Path) -> None:
    """Put the adapter of a checkpoint into the module.

    Raises:
        ModelError: The file is cut short or holds other weights than the adapter's.
    """
    try:
        state = torch.load(checkpoint, map_location="cpu", weights_only=True)["state_dict"]
    except Exception as error:  # torch raises many kinds for a file cut short
        raise ModelError(f"the checkpoint {checkpoint.name} cannot be read: {error}") from error
    expected = {name for name, parameter in module.named_parameters() if parameter.requires_grad}
    if set(state) != expected:
        raise ModelError(
            f"the checkpoint {checkpoint.name} holds {len(state)} weights, the adapter has {len(expected)}"
        )
    module.load_state_dict(state, strict=False)


def close_loggers(loggers: Sequence[Any]) -> None:
    """End every logger's run, so that the next job of a sweep starts its own."""
    for logger in loggers:
        logger.finalize("success")
        finish = getattr(logger.experiment, "finish", None)
        if finish is not None:
            finish()


class _Bar(RichProgressBar):
    """Lightning's bar without its version number."""

    def get_metrics(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> dict[str, Any]:
        metrics: dict[str, Any] = super().get_metrics(trainer, pl_module)
        metrics.pop("v_num", None)
        return metrics
