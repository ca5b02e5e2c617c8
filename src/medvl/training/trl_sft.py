"""The engine of TRL: its SFTTrainer leads the loop over the batches, loss and optimiser of the Lightning engine.

SFTTrainer would render and tokenise a dataset, count the loss by tokens, write checkpoints and cards, and report to W&B
and to its makers. All of that is replaced by what medvl does under every engine, so that only the loop is another.
"""

from __future__ import annotations

import dataclasses
import os
import pkgutil
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from datasets import Dataset
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from pytorch_lightning.plugins.precision import HalfPrecision, MixedPrecision, Precision
from pytorch_lightning.utilities.seed import isolate_rng
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import PrinterCallback, TrainerCallback, TrainerControl, TrainerState
from trl import SFTConfig, SFTTrainer

from medvl.batching.collator import Batch
from medvl.config.schema import TrainConfig, TrainerConfig
from medvl.errors import ConfigError
from medvl.models.modes import in_evaluation
from medvl.training.engine import extra_problems, planned_steps, val_interval
from medvl.training.evaluation_callback import EvaluationCallback, log_everywhere
from medvl.training.sft_module import SftModule, supervised_tokens
from medvl.training.stand_in import StandIn

PASSED_ON = frozenset(
    {"activation_offloading", "debug", "full_determinism", "neftune_noise_alpha", "tf32", "torch_empty_cache_steps"}
)
"""Settings of SFTConfig that change a training whose batches, loss, optimiser and files are medvl's."""

INSTEAD = {
    "bf16": "trainer.precision",
    "data_seed": "seed",
    "dataloader_num_workers": "data.num_workers",
    "disable_tqdm": "trainer.progress",
    "eval_steps": "trainer.val_every_steps",
    "fp16": "trainer.precision",
    "gradient_accumulation_steps": "trainer.accumulate_batches",
    "gradient_checkpointing": "model.checkpointing",
    "activation_checkpointing": "model.checkpointing",
    "learning_rate": "optim.lr",
    "logging_steps": "trainer.log_every_steps",
    "lr_scheduler_type": "optim.schedule",
    "max_grad_norm": "trainer.gradient_clip",
    "max_steps": "trainer.max_steps",
    "num_train_epochs": "trainer.max_epochs",
    "output_dir": "hydra.run.dir",
    "per_device_train_batch_size": "data.batch_size",
    "report_to": "logger=...",
    "save_strategy": "callbacks=...",
    "seed": "seed",
    "use_cpu": "trainer.accelerator",
    "warmup_steps": "optim.warmup_share",
    "weight_decay": "optim.weight_decay",
}
"""Other settings of SFTConfig -> what says the same in medvl's configuration."""

_AT_VALIDATIONS = {
    ModelCheckpoint: ("every_n_train_steps", "every_n_epochs", "train_time_interval", "save_on_train_epoch_end"),
    EarlyStopping: ("check_on_train_epoch_end",),
}
"""Callback that this engine knows -> its settings that make it act at other times than after a validation."""


def trl_problems(config: TrainConfig) -> list[str]:
    """Sentences about what TRL cannot do; empty when all is well.

    Args:
        config: The whole configuration of a training.
    """
    trainer = config.trainer
    known = {field.name for field in dataclasses.fields(SFTConfig)}
    problems = extra_problems(trainer.extra, "TRL's SFTConfig", known, known - PASSED_ON, INSTEAD)
    has_gpu = trainer.accelerator != "cpu" and torch.cuda.is_available()
    if trainer.precision == "16-mixed" and not has_gpu:
        problems.append("trainer.precision=16-mixed needs a GPU; use 32-true or bf16-mixed")
    if not problems:
        try:
            _arguments(trainer, Path("."), steps=1, on_cpu=not has_gpu)
        except ConfigError as error:
            problems += error.problems
    if os.environ.get("WORLD_SIZE", "1") != "1":
        problems.append("trainer.engine=trl_sft trains in one process; start python train.py without torchrun")
    for name, node in config.callbacks.items():
        if node is None:
            continue
        kind = pkgutil.resolve_name(str(node["_target_"]))
        base = next((one for one in _AT_VALIDATIONS if isinstance(kind, type) and issubclass(kind, one)), None)
        if base is None:
            problems.append(
                f"callbacks.{name}: trainer.engine=trl_sft knows {' and '.join(k.__name__ for k in _AT_VALIDATIONS)} "
                f"only; say callbacks.{name}=null, or use trainer.engine=lightning"
            )
        else:
            problems += [
                f"callbacks.{name}.{key}: trainer.engine=trl_sft acts after validations only; leave it out"
                for key in _AT_VALIDATIONS[base]
                if node.get(key) is not None
            ]
    return problems


def fit_with_trl(
    config: TrainerConfig,
    module: SftModule,
    datamodule: pl.LightningDataModule,
    callbacks: Sequence[pl.Callback],
    loggers: Sequence[Any],
    run: Path,
) -> int:
    """Train; afterwards the module holds its last weights. See `medvl.training.engine.fit`.

    Returns:
        Optimiser steps that were taken.

    Raises:
        ConfigError: TRL refuses its settings.
    """
    batches = _Batches(datamodule.train_dataloader())
    steps = planned_steps(config, len(batches))
    if steps == 0:
        return 0
    device = next(module.parameters()).device
    precision = _precision(config.precision, device)
    precision.convert_module(module)
    stand_in = StandIn(module, *module.optimizer_and_schedule(steps), callbacks, loggers, run)
    with _left_as_it_was(module.model):
        args = _arguments(config, run, steps=steps, on_cpu=device.type == "cpu")
        trainer = _Trainer(args, config, module, precision, stand_in, batches, datamodule)
        stand_in.tell("setup", "fit")
        try:
            trainer.train()
        except BaseException as error:
            stand_in.tell("on_exception", error)
            raise
        stand_in.tell("on_train_end")
    return stand_in.global_step


class _Batches:
    """A training loader as a Trainer takes it: each batch the one entry of a mapping, epochs announced by number."""

    def __init__(self, loader: DataLoader[Batch]) -> None:
        self._loader = loader
        self.epoch = 0

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[dict[str, Batch]]:
        return ({"batch": batch} for batch in self._loader)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch
        self._loader.sampler.set_epoch(epoch)  # type: ignore[attr-defined]  # see `NumberedDraws`


class _Trainer(SFTTrainer):  # type: ignore[misc]  # trl has no types
    """SFTTrainer over medvl's batches, loss, optimiser, validations and logs."""

    loss_is_scaled_for_ga = True  # by `compute_loss`

    def __init__(
        self,
        args: SFTConfig,
        config: TrainerConfig,
        module: SftModule,
        precision: Precision,
        stand_in: StandIn,
        batches: _Batches,
        datamodule: pl.LightningDataModule,
    ) -> None:
        self._config, self._module, self._precision = config, module, precision
        self._stand_in, self._batches = stand_in, batches
        self._val = datamodule.val_dataloader()
        self._interval = val_interval(config, len(batches))
        self._batches_done = 0
        self._batch: Batch | None = None
        self._loss = torch.tensor(torch.nan)
        weights = {p: p.data for p in module.parameters() if p.requires_grad}
        with isolate_rng():  # it seeds anew, and dropout would fall otherwise than under Lightning
            super().__init__(
                module.model,
                args,
                data_collator=list,  # both for its checks only: `get_train_dataloader` gives the batches
                train_dataset=Dataset.from_dict({"batch": range(len(batches))}),
                processing_class=datamodule.processor,  # type: ignore[attr-defined]  # of `QuestionDataModule`
                callbacks=[_Steps(self.batch_end, self.evaluate)],
                optimizers=(stand_in.optimizer, stand_in.schedule),
            )
        for parameter, data in weights.items():
            parameter.data = data  # with a base in 4 bits it casts the adapter to bfloat16
        self.processing_class = None  # with one, `train` would write its special tokens into the model's configuration
        self.remove_callback(PrinterCallback)

    def _send_telemetry(self) -> None:
        """Nothing is sent."""

    def get_train_dataloader(self) -> _Batches:
        """The batches of the DataModule, in its order."""
        return self._batches

    def floating_point_ops(self, inputs: Any) -> int:
        """Not counted: the formula is for rows of tokens alone."""
        return 0

    def get_batch_samples(
        self, epoch_iterator: Iterator[dict[str, Batch]], num_batches: int, device: torch.device
    ) -> tuple[list[dict[str, Batch]], int]:
        """The batches of one step, and the tokens that are supervised in them."""
        batches: list[dict[str, Batch]] = super().get_batch_samples(epoch_iterator, num_batches, device)[0]
        return batches, sum(supervised_tokens(entry["batch"]) for entry in batches)

    def compute_loss(
        self, model: Any, inputs: dict[str, Batch], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Tensor:
        """The loss of the Lightning engine: each supervised token of a step weighs as much as any other."""
        self._batch = inputs["batch"].to(self.args.device)
        with self._precision.forward_context():
            loss = self._module.loss(self._batch)
        self._loss = loss.detach()
        weighed: Tensor = loss * (supervised_tokens(self._batch) / num_items_in_batch)
        return weighed

    def batch_end(self, step: int) -> bool:
        """Tell the callbacks that a batch is done.

        Args:
            step: Optimiser steps taken.

        Returns:
            Whether a validation is due.
        """
        self._stand_in.global_step, self._stand_in.current_epoch = step, self._batches.epoch
        self._stand_in.tell("on_train_batch_end", None, self._batch, self._batches_done % len(self._batches))
        self._batches_done += 1
        return self._batches_done % self._interval == 0

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Ask the questions of val, and let the callbacks keep the weights or stop."""
        module, stand_in = self._module, self._stand_in
        module.on_validation_epoch_start()
        with in_evaluation(module), self._precision.forward_context():
            for number, batch in enumerate(self._val):
                module.validation_step(batch.to(self.args.device), number)
        figures: dict[str, float] = {}
        for scorer in stand_in.callbacks:
            if isinstance(scorer, EvaluationCallback):
                figures |= scorer.score(module.val_predictions, stand_in.loggers, stand_in.global_step)
        stand_in.callback_metrics = {name: torch.tensor(value) for name, value in figures.items()}
        stand_in.tell("on_validation_end")
        self.control.should_evaluate = False
        self.control.should_training_stop |= stand_in.should_stop
        return figures

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log of a training step what Lightning logs, under the same number; TRL's summary of the run is left out."""
        self.control.should_log = False
        if "grad_norm" in logs:
            figures = {"train/loss": self._loss.item(), "train/grad_norm": float(logs["grad_norm"])}
            stand_in = self._stand_in
            log_everywhere(stand_in.loggers, {**figures, "epoch": stand_in.current_epoch}, stand_in.global_step - 1)


class _Steps(TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """Passes on when a batch is done, and asks for a validation when the Lightning engine has one."""

    def __init__(self, batch_end: Callable[[int], bool], evaluate: Callable[[], Any]) -> None:
        self._batch_end, self._evaluate = batch_end, evaluate

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        control.should_evaluate = self._batch_end(state.global_step)

    def on_substep_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        if self._batch_end(state.global_step):  # a validation between two batches of one step
            self._evaluate()


def _precision(name: Any, device: torch.device) -> Precision:
    """What Lightning computes in. accelerate would wrap `model.forward`, which neither loss nor answers go through."""
    if name == "bf16-true":
        return HalfPrecision(name)
    return Precision() if name == "32-true" else MixedPrecision(name, device.type)


def _arguments(config: TrainerConfig, run: Path, *, steps: int, on_cpu: bool) -> SFTConfig:
    """What TRL is told.

    Raises:
        ConfigError: It refuses that.
    """
    shows_progress = config.progress and sys.stderr.isatty()
    try:
        with warnings.catch_warnings(action="ignore", category=FutureWarning):  # of a name that trl itself uses
            args = SFTConfig(
                output_dir=str(run),
                max_steps=steps,
                gradient_accumulation_steps=config.accumulate_batches,
                max_grad_norm=config.gradient_clip or 0.0,
                bf16=False,
                fp16=config.precision == "16-mixed",  # scales the loss; what it computes in is said by `_precision`
                use_cpu=on_cpu,
                gradient_checkpointing=False,  # `model.checkpointing` has been seen to
                dataset_kwargs={"skip_prepare_dataset": True},
                remove_unused_columns=False,
                logging_steps=config.log_every_steps,
                logging_nan_inf_filter=False,
                eval_strategy="no",
                save_strategy="no",
                report_to="none",
                disable_tqdm=not shows_progress,
                **config.extra,
            )
    except (ValueError, TypeError, ImportError, RuntimeError) as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError([f"trainer.engine=trl_sft: TRL refuses the settings of trainer: {said}"]) from error
    if args.n_gpu > 1:
        args._n_gpu = 1  # several GPUs that one process sees would make it spread the model over them
    return args


@contextmanager
def _left_as_it_was(model: Any) -> Iterator[None]:
    """Afterwards a model computes as before: TRL and accelerate wrap its `forward` and switch its cache off."""
    bare = model.get_base_model() if hasattr(model, "get_base_model") else model
    touched = [(one, name) for one in (model, bare) for name in ("forward", "_original_forward")]
    touched.append((bare.config, "use_cache"))
    before = [(vars(one), name, name in vars(one), vars(one).get(name)) for one, name in touched]
    try:
        yield
    finally:
        for values, name, was_there, value in before:
            values.pop(name, None)
            if was_there:
                values[name] = value
