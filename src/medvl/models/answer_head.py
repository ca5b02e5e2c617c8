"""Logits at chosen positions only: a multiple-choice answer needs one or two of the hundreds in a row."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def logits_at(model: Any, inputs: dict[str, Tensor], positions: Tensor) -> Tensor:
    """Output logits at chosen positions.

    The hidden states are gathered before the output layer, so that logits of a whole row over a vocabulary of 150,000
    never exist. The result equals the same positions of the model's full logits.

    Args:
        model: A transformers image-text model, with or without a PEFT adapter.
        inputs: What its processor made, with `input_ids` [B, T].
        positions: bool [B, T].

    Returns:
        float32 [N, V] for the N chosen positions, row by row.
    """
    bare = model.get_base_model() if hasattr(model, "get_base_model") else model
    hidden = bare.model(**inputs, use_cache=False).last_hidden_state
    logits: Tensor = bare.lm_head(hidden[positions])
    return logits.to(torch.float32)
