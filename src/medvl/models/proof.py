"""Proves that an adapter is live: its matrices moved, its answers differ from the base's, merging changes nothing."""

from __future__ import annotations

from typing import Any

import torch
from peft import PeftModel
from torch import Tensor

from medvl.batching.collator import Batch
from medvl.models.adapter import b_norms, without_adapter
from medvl.models.answer_head import answer_mask, logits_at
from medvl.models.base import Base


@torch.inference_mode()
def prove_adapter(model: PeftModel, base: Base, batch: Batch) -> dict[str, Any]:
    """Facts that show an adapter at work, for `run.json`.

    Merges the adapter into the base and takes it out again, which changes the base's weights in the last bits: call it
    when nothing more is asked of the model.

    Args:
        model: The trained model, in evaluation mode.
        base: Its base.
        batch: Some questions, on the model's device.

    Returns:
        `b_norms` by part; `logit_change`: largest change of an answer logit by the adapter; `merge_difference`: largest
        difference of an answer logit between merged and unmerged.
    """
    adapted = _answer_logits(model, batch)
    model.merge_adapter()
    merged = _answer_logits(model, batch)
    model.unmerge_adapter()
    return {**signs_of_life(model, base, batch), "merge_difference": float((adapted - merged).abs().max())}


@torch.inference_mode()
def signs_of_life(model: PeftModel, base: Base, batch: Batch) -> dict[str, Any]:
    """`b_norms` and `logit_change` of `prove_adapter`, which leave the weights as they are."""
    adapted = _answer_logits(model, batch)
    with without_adapter(model):
        plain = _answer_logits(model, batch)
    return {"b_norms": b_norms(model, base), "logit_change": float((adapted - plain).abs().max())}


def _answer_logits(model: PeftModel, batch: Batch) -> Tensor:
    return logits_at(model, batch.inputs, answer_mask(batch.inputs, batch.answer_position), picture_of=batch.picture_of)
