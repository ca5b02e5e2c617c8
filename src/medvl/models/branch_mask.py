"""Which token of a branched row sees which, in the form that each decoder of transformers takes it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

ONE_MASK = ("llama", "mistral", "mllama_text_model", "qwen3_vl_text")
"""Decoders (`model_type` of the text configuration) that take one mask for all layers."""

MASK_PER_LAYER_TYPE = ("gemma3_text", "qwen2", "qwen2_5_vl_text", "qwen2_vl_text", "qwen3")
"""Decoders that take one for each type of layer."""

_LAYER_TYPES = {"full_attention", "sliding_attention"}


def takes_branches(text: Any) -> bool:
    """Whether a decoder can be given branched rows.

    Args:
        text: Its configuration.
    """
    if getattr(text, "use_bidirectional_attention", False):
        return False
    if text.model_type in MASK_PER_LAYER_TYPE:
        return set(text.layer_types) <= _LAYER_TYPES
    return text.model_type in ONE_MASK


def branch_mask(
    text: Any, ends: Tensor, depths: Tensor, blocks: Tensor | None, dtype: torch.dtype | None
) -> Tensor | dict[str, Tensor]:
    """Attention masks for branched rows (see `branches.Branched`).

    Args:
        text: Configuration of the decoder, one that `takes_branches`.
        ends: int64 [B, T]. Where rows are filled up, the number of the next token, so that nothing else sees it.
        depths: int64 [B, T].
        blocks: int64 [B, T]: number of the picture whose tokens all see each other, -1 for the others. None where
            there are none.
        dtype: Number format of a mask that is added to the scores (eager attention). None for True and False (sdpa).

    Returns:
        [B, 1, T, T], the asking token before the one that is seen; or type of layer -> such a mask.
    """
    number = torch.arange(ends.shape[1], device=ends.device)
    asking, seen = number[None, :, None], number[None, None, :]
    full = (seen <= asking) & (asking < ends[:, None, :])
    if blocks is not None:
        full |= (blocks[:, :, None] == blocks[:, None, :]) & (blocks >= 0)[:, :, None]

    def mask(window: int | None) -> Tensor:
        sees = full if window is None else full & (depths[:, None, :] > depths[:, :, None] - window)
        sees = sees[:, None]
        return (
            sees if dtype is None else torch.zeros_like(sees, dtype=dtype).masked_fill_(~sees, torch.finfo(dtype).min)
        )

    if text.model_type in MASK_PER_LAYER_TYPE:
        windows = {"full_attention": None, "sliding_attention": getattr(text, "sliding_window", None)}
        return {kind: mask(windows[kind]) for kind in set(text.layer_types)}
    return mask(text.sliding_window if text.model_type == "mistral" else None)
