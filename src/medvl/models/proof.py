"""Proves that an adapter is live: its matrices moved, its answers differ from the base's, merging changes nothing."""

from __future__ import annotations

from typing import Any

import torch
from peft import PeftModel

from medvl.batching.collator import Batch
from medvl.models.adapter import b_norms, without_adapter
from medvl.models.answer_head import logits_at
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
    rows = torch.zeros_like(batch.inputs["input_ids"], dtype=torch.bool)
    rows[torch.arange(len(batch.items), device=rows.device), batch.answer_position] = True
    adapted = logits_at(model, batch.inputs, rows)
    with without_adapter(model):
        plain = logits_at(model, batch.inputs, rows)
    model.merge_adapter()
    merged = logits_at(model, batch.inputs, rows)
    model.unmerge_adapter()
    return {
        "b_norms": b_norms(model, base),
        "logit_change": float((adapted - plain).abs().max()),
        "merge_difference": float((adapted - merged).abs().max()),
    }
