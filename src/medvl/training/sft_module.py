"""Supervised fine-tuning of an adapter: the loss covers the answer and the end of the turn, nothing else."""

from __future__ import annotations

import math
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim.lr_scheduler import LambdaLR

from medvl.answering.letters import score_batch
from medvl.answering.prediction import Prediction
from medvl.batching.collator import IGNORED, Batch
from medvl.config.schema import OptimConfig
from medvl.errors import TrainingError
from medvl.models.adapter import parameter_groups
from medvl.models.families import family_of_model
from medvl.models.shared_prefix import shared_logits


def answer_loss(model: Any, batch: Batch, *, shared_prefix: bool = True) -> Tensor:
    """Mean cross-entropy over the supervised tokens of a batch, in float32.

    Args:
        model: A transformers image-text model with an adapter.
        batch: A training batch.
        shared_prefix: Let the questions of one picture share what they have in common (see `shared_logits`).

    Raises:
        TrainingError: No token of the batch is supervised, or the loss is not finite; names the items.
    """
    if batch.labels is None:
        raise TrainingError("a question batch has no answers to learn from; use a training batch")
    supervised = batch.labels[:, 1:] != IGNORED
    if not supervised.any():
        raise TrainingError(f"no token of the batch is supervised; items: {_names(batch)}")
    predicting = F.pad(supervised, (0, 1))
    logits = shared_logits(model, batch.inputs, predicting, batch.picture_of, shared_prefix=shared_prefix)
    loss = F.cross_entropy(logits, batch.labels[:, 1:][supervised])
    if not torch.isfinite(loss):
        raise TrainingError(
            f"the loss is {loss.item()}; items: {_names(batch)}. Lower optim.lr, or use another trainer.precision"
        )
    return loss


def supervised_tokens(batch: Batch) -> int:
    """Tokens of a training batch that its loss is the mean over."""
    assert batch.labels is not None
    return int((batch.labels[:, 1:] != IGNORED).sum())


class SftModule(pl.LightningModule):
    """A model with an adapter, trained on answers and asked questions at each validation.

    Args:
        model: The model with its adapter.
        optim: Optimiser settings.
        letter_ids: Letter -> token id at the answer position.
        shared_prefix: See `answer_loss`.
        val_shared_prefix: See `score_batch`.
    """

    def __init__(
        self,
        model: Any,
        optim: OptimConfig,
        letter_ids: dict[str, int],
        *,
        shared_prefix: bool = True,
        val_shared_prefix: bool = True,
    ) -> None:
        super().__init__()
        self.model = model
        self._optim = optim
        self._letter_ids = letter_ids
        self._shared_prefix = shared_prefix
        self._val_shared_prefix = val_shared_prefix
        self._tokens = 0  # supervised since the last step
        self.strict_loading = False  # checkpoints hold the adapter only
        self.val_predictions: list[Prediction] = []
        """Answers of the validation that runs or ran last, one for each val item."""

    def on_fit_start(self) -> None:
        """Put the adapter in training mode: transformers loads models in evaluation mode and Lightning keeps that."""
        self.model.train()

    def loss(self, batch: Batch) -> Tensor:
        """Loss of one batch, see `answer_loss`."""
        return answer_loss(self.model, batch, shared_prefix=self._shared_prefix)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Loss of one batch."""
        loss = self.loss(batch)
        tokens = supervised_tokens(batch)
        self.log("train/loss", loss.detach(), prog_bar=True, batch_size=tokens)
        if self.trainer.accumulate_grad_batches == 1:
            return loss
        self._tokens += tokens
        return loss * tokens

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Weigh each supervised token of an accumulated step alike, and log the norm of the gradient before clipping.

        A mean over the means of its batches would weigh a token by how few others are in its batch.
        """
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        if self._tokens:
            torch._foreach_mul_(gradients, self.trainer.accumulate_grad_batches / self._tokens)
            self._tokens = 0
        self.log("train/grad_norm", torch.nn.utils.get_total_norm(gradients))

    def on_validation_epoch_start(self) -> None:
        """Forget the answers of the validation before."""
        self.val_predictions = []

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Answer one batch of questions."""
        self.val_predictions += score_batch(self.model, batch, self._letter_ids, shared_prefix=self._val_shared_prefix)

    def optimizer_and_schedule(self, steps: int) -> tuple[torch.optim.AdamW, LambdaLR]:
        """AdamW over the adapter, and its rate: warm-up, then the schedule.

        Args:
            steps: Optimiser steps in all.
        """
        groups = parameter_groups(self.model, family_of_model(self.model), self._optim.part_lr)
        optimizer = torch.optim.AdamW(groups, lr=self._optim.lr, weight_decay=self._optim.weight_decay)
        warmup = round(steps * self._optim.warmup_share)
        return optimizer, LambdaLR(optimizer, lambda step: rate_factor(step, steps, warmup, self._optim.schedule))

    def configure_optimizers(self) -> Any:
        """See `optimizer_and_schedule`."""
        optimizer, schedule = self.optimizer_and_schedule(int(self.trainer.estimated_stepping_batches))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep the adapter; the base is never written."""
        trainable = {name for name, p in self.named_parameters() if p.requires_grad}
        checkpoint["state_dict"] = {k: v for k, v in checkpoint["state_dict"].items() if k in trainable}


def rate_factor(step: int, steps: int, warmup: int, schedule: str) -> float:
    """Factor on the learning rate at a step: rises linearly from 1/warmup, then follows the schedule towards 0.

    Args:
        step: Optimiser steps done.
        steps: Steps in all.
        warmup: Steps of the rise.
        schedule: `cosine`, `linear` or `constant`.

    Returns:
        A factor in [0, 1].
    """
    if step < warmup:
        return (step + 1) / warmup
    done = min(1.0, (step - warmup) / max(1, steps - warmup))
    if schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * done))
    return 1 - done if schedule == "linear" else 1.0


def _names(batch: Batch) -> str:
    return ", ".join(item.item_id for item in batch.items)
