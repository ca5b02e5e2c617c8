"""Trains an adapter with the chosen engine and leaves the model with the best weights it reached.

The engines, Lightning's Trainer and TRL's SFTTrainer, lead the same training: the batches of one DataModule in one
order, the loss and the optimiser of one module, the same callbacks and loggers.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint, RichProgressBar

from medvl.config.nearest import or_what
from medvl.config.schema import TrainConfig, TrainerConfig
from medvl.errors import ConfigError, ModelError, TrainingError
from medvl.training.evaluation_callback import EvaluationCallback
from medvl.training.sft_module import SftModule

_HANDED_OVER = ("callbacks", "logger", "enable_progress_bar", "enable_checkpointing", "default_root_dir")


@dataclass(frozen=True, slots=True)
class Fitted:
    """What came of a training.

    Attributes:
        steps: Optimiser steps that were taken.
        best: Largest `val/macro_accuracy` of its validations; NaN when none has it.
    """

    steps: int
    best: float


def check(config: TrainConfig) -> None:
    """Refuse what the chosen engine cannot do, before anything is computed.

    Raises:
        ConfigError: Listing each problem, or the engine is not installed.
    """
    if config.trainer.engine == "trl_sft":
        problems = _trl().trl_problems(config)
    else:
        known = inspect.signature(pl.Trainer).parameters
        ours = {*_settings(config.trainer, 1), *_HANDED_OVER}
        problems = extra_problems(config.trainer.extra, "Lightning's Trainer", known, ours)
    if problems:
        raise ConfigError(problems)


def extra_problems(
    extra: Mapping[str, Any], taker: str, known: Collection[str], ours: Collection[str], instead: Mapping[str, str] = {}
) -> list[str]:
    """Sentences about entries of `trainer.extra` that an engine does not take; empty when all is well.

    Args:
        extra: The entries.
        taker: What they are passed to.
        known: What it takes.
        ours: Those of them that medvl sets itself.
        instead: Some of those -> key of the configuration that decides.
    """
    problems = []
    for name in extra:
        if name not in known:
            problems.append(f"no key '{name}' in trainer.extra: {taker} does not take it{or_what(name, known)}")
        elif name in ours:
            way = f"say {instead[name]} instead" if name in instead else "leave it out"
            problems.append(f"trainer.extra.{name}: medvl decides this itself; {way}")
    return problems


def fit(
    config: TrainerConfig,
    module: SftModule,
    datamodule: pl.LightningDataModule,
    callbacks: Sequence[pl.Callback],
    loggers: Sequence[Any],
    run: Path,
) -> Fitted:
    """Train; afterwards the module holds the weights of the best validation, or the last ones without a checkpoint.

    Args:
        config: Which engine, and its settings; see `check`.
        module: The model, its loss and its optimiser.
        datamodule: Training and question batches.
        callbacks: Callbacks besides the progress bar, an `EvaluationCallback` among them for `Fitted.best`.
        loggers: Loggers.
        run: Run folder.

    Raises:
        KeyboardInterrupt: Ctrl-C; the last checkpoint is kept.
        TrainingError: The loss is not finite, or nothing is supervised.
        ModelError: The best checkpoint cannot be read back.
    """
    lead = _trl().fit_with_trl if config.engine == "trl_sft" else _fit_with_lightning
    steps = lead(config, module, datamodule, callbacks, loggers, run)
    if steps == 0:
        raise TrainingError("not one optimiser step was taken: trainer.max_steps or trainer.max_epochs leaves none")
    best = next((c.best_model_path for c in callbacks if isinstance(c, ModelCheckpoint)), "")
    if best:
        load_weights(module, Path(best))
    scores = [c.best("val/macro_accuracy") for c in callbacks if isinstance(c, EvaluationCallback)]
    return Fitted(steps, scores[0] if scores else math.nan)


def _trl() -> ModuleType:
    try:
        with redirect_stdout(StringIO()):  # transformers prints there that W&B is offline
            from medvl.training import trl_sft
    except (ImportError, RuntimeError) as error:  # RuntimeError: how trl passes on that a package it needs is absent
        raise ConfigError(
            [
                f"trainer.engine=trl_sft needs TRL, which cannot be imported here ({str(error).splitlines()[0]}): "
                "pip install 'medvl[trl]', or use trainer.engine=lightning"
            ]
        ) from error
    return trl_sft


def _fit_with_lightning(
    config: TrainerConfig,
    module: SftModule,
    datamodule: pl.LightningDataModule,
    callbacks: Sequence[pl.Callback],
    loggers: Sequence[Any],
    run: Path,
) -> int:
    shows_progress = config.progress and sys.stderr.isatty()
    trainer = pl.Trainer(
        **_settings(config, len(datamodule.train_dataloader())),
        callbacks=[*callbacks, *([_Bar()] if shows_progress else [])],
        logger=list(loggers),
        enable_progress_bar=shows_progress,
        enable_checkpointing=any(isinstance(callback, ModelCheckpoint) for callback in callbacks),
        default_root_dir=run,
        **config.extra,
    )
    try:
        trainer.fit(module, datamodule=datamodule)
    except SystemExit:
        if trainer.interrupted:
            raise KeyboardInterrupt from None
        raise
    return int(trainer.global_step)


def _settings(config: TrainerConfig, batches_per_epoch: int) -> dict[str, Any]:
    steps = planned_steps(config, batches_per_epoch)
    return {
        "accelerator": config.accelerator,
        "devices": config.devices,
        "precision": config.precision,
        "max_epochs": math.ceil(steps * config.accumulate_batches / batches_per_epoch),
        "max_steps": steps,
        "accumulate_grad_batches": config.accumulate_batches,
        "gradient_clip_val": config.gradient_clip,
        "val_check_interval": val_interval(config, batches_per_epoch),
        "check_val_every_n_epoch": None,
        "num_sanity_val_steps": 0,
        "log_every_n_steps": config.log_every_steps,
        "enable_model_summary": False,
        "enable_autolog_hparams": False,
    }


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
