"""Logits at chosen positions only: a multiple-choice answer needs one or two of the hundreds in a row."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from medvl.models.families import FAMILIES
from medvl.models.pictures import encode_once, row_inputs

ROWS_AT_ONCE = 16_384
"""Rows of the output layer that are brought to float32 together when nothing is learnt."""


def logits_at(
    model: Any, inputs: dict[str, Tensor], positions: Tensor, *, picture_of: Sequence[int] | None = None
) -> Tensor:
    """Output logits at chosen positions.

    The hidden states are gathered before the output layer, so that logits of a whole row over a vocabulary of 150,000
    never exist. The result equals the same positions of the model's full logits, except that without gradients a
    half-precision output layer is applied in float32: bfloat16 logits near 20 lie 0.125 apart, so that options tie and
    the first of them would win.

    Args:
        model: A transformers image-text model, with or without a PEFT adapter.
        inputs: What its processor made, with `input_ids` [B, T], each picture once.
        positions: bool [B, T].
        picture_of: `Batch.picture_of`. None: row n shows picture n.

    Returns:
        float32 [N, V] for the N chosen positions, row by row.
    """
    bare = model.get_base_model() if hasattr(model, "get_base_model") else model
    family = FAMILIES.get(bare.config.model_type)
    if family is not None:
        family.companions.check(inputs, pictures="pixel_values" in inputs)
    if picture_of is not None and family is not None:
        inputs = encode_once(bare, family, inputs, picture_of)
    elif picture_of is not None:
        inputs = row_inputs(bare, inputs, picture_of)
    hidden = bare.model(**inputs, use_cache=False).last_hidden_state
    return apply_head(bare, hidden[positions])


def answer_mask(inputs: dict[str, Tensor], answer_position: Tensor) -> Tensor:
    """Bool [B, T]: the answer position (int64 [B]) of each row, for `logits_at`."""
    mask = torch.zeros_like(inputs["input_ids"], dtype=torch.bool)
    mask[torch.arange(len(mask), device=mask.device), answer_position] = True
    return mask


def apply_head(bare: Any, hidden: Tensor) -> Tensor:
    """The output layer in float32; with gradients, in the number format of the model.

    Args:
        bare: A transformers image-text model without the wrapper of an adapter.
        hidden: Last hidden states [N, D].

    Returns:
        float32 [N, V].
    """
    if torch.is_grad_enabled():
        logits: Tensor = bare.lm_head(hidden)
        return logits.to(torch.float32)
    with torch.autocast(hidden.device.type, enabled=False):
        return _head_in_float32(bare.lm_head, hidden.to(torch.float32))


def _head_in_float32(head: torch.nn.Linear, hidden: Tensor) -> Tensor:
    if type(head) is not torch.nn.Linear:  # an adapter of its own sits on it: leave the sum to that
        adapted: Tensor = head(hidden.to(head.weight.dtype))
        return adapted.to(torch.float32)
    if head.weight.dtype == torch.float32:
        logits: Tensor = head(hidden)
        return logits
    bias = itertools.repeat(None) if head.bias is None else torch.split(head.bias, ROWS_AT_ONCE)
    parts = zip(torch.split(head.weight, ROWS_AT_ONCE), bias, strict=False)
    return torch.cat([F.linear(hidden, w.float(), None if b is None else b.float()) for w, b in parts], dim=-1)
