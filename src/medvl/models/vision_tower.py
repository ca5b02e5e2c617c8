"""Vision towers of Qwen-VL that do the same work in fewer and larger steps, on any device.

transformers runs the patch filters as a convolution over patches that are already cut out, and calls attention once for
each window (Qwen2.5-VL) or picture, in each layer. Here the filters are the matrix product that they amount to, queries
and keys are turned together, and windows of one length (pictures of one size) go through attention together. Results
are the same up to rounding. Modules change their class, nothing else: names, weights, adapters and files stay as they
are.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl as qwen25
from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen2
from transformers.models.qwen3_vl import modeling_qwen3_vl as qwen3
from transformers.utils.generic import is_flash_attention_requested

SCORES = 2**20
"""Most scores a head in one call of eager attention, which holds them all in memory; one window may have more."""


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a batch of pictures, those of one length one after the other.

    Attributes:
        runs: (number of windows, patches in each) of every run of equal windows.
        order: int64 [patches]: where each patch of the runs comes from; None where it stands there already.
        back: The reverse of `order`.
    """

    runs: list[tuple[int, int]]
    order: Tensor | None = None
    back: Tensor | None = None


def windows_of(bounds: Tensor) -> Windows:
    """Windows between bounds, int [number of windows + 1], which start at 0 (`cu_seqlens`)."""
    lengths = bounds.diff()
    listed = lengths.tolist()
    runs = [(len(list(run)), length) for length, run in groupby(listed)]
    counts = Counter(listed)
    if len(runs) == len(counts):
        return Windows(runs)
    order = lengths.repeat_interleave(lengths, output_size=sum(listed)).argsort(stable=True)
    return Windows([(counts[length], length) for length in sorted(counts)], order, order.argsort())


class PatchFilters(nn.Conv3d):
    """Filters over patches of just their size."""

    def forward(self, patches: Tensor) -> Tensor:
        """Pixels [patches, channels, frames, height, width] -> [patches, D, 1, 1, 1]."""
        return nn.functional.linear(patches.flatten(1), self.weight.flatten(1), self.bias)[..., None, None, None]


class WindowedAttention(nn.Module):
    """Attention with one call for all windows of one length."""

    def forward(
        self: Any,
        hidden_states: Tensor,
        cu_seqlens: Any,
        position_embeddings: tuple[Tensor, Tensor],
        max_seqlen: int | None = None,
        **kwargs: Any,
    ) -> Tensor:
        """States [patches, D] -> [patches, D]; `cu_seqlens` as in `windows_of`, cosines and sines [patches, head]."""
        if is_flash_attention_requested(self.config):  # which takes all windows in one call as it is
            plain: Tensor = super().forward(
                hidden_states, cu_seqlens, position_embeddings, max_seqlen=max_seqlen, **kwargs
            )
            return plain
        # Kept with the tensor that all layers of a pass are handed: reading it once waits for the GPU once.
        if not hasattr(cu_seqlens, "windows"):
            cu_seqlens.windows = windows_of(cu_seqlens)
        windows: Windows = cu_seqlens.windows
        states, (cos, sin) = self.qkv(hidden_states), position_embeddings
        if windows.order is not None:
            states, cos, sin = (tensor[windows.order] for tensor in (states, cos, sin))
        heads = (self.num_heads, self.head_dim)
        query_key, value = states.reshape(-1, 3, *heads).split((2, 1), dim=1)
        inputs = (*_turned(query_key, cos, sin).unbind(1), value.squeeze(1))
        calls = _calls(windows.runs, eager=self.config._attn_implementation == "eager")
        pieces = zip(*(tensor.split([count * length for count, length in calls]) for tensor in inputs), strict=True)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, qwen2.eager_attention_forward)
        found = [
            attend(
                self,
                *(tensor.unflatten(0, call).transpose(1, 2) for tensor in piece),  # [windows, heads, patches, head]
                attention_mask=None,
                scaling=self.scaling,
                dropout=self.attention_dropout if self.training else 0.0,
                is_causal=False,
                **kwargs,
            )[0].flatten(0, 1)
            for call, piece in zip(calls, pieces, strict=True)
        ]
        result = (found[0] if len(found) == 1 else torch.cat(found)).flatten(1)
        projected: Tensor = self.proj(result if windows.back is None else result[windows.back])
        return projected


def _calls(runs: list[tuple[int, int]], *, eager: bool) -> list[tuple[int, int]]:
    """(number of windows, patches in each) of every call of attention."""
    if not eager:
        return runs
    calls = []
    for count, length in runs:
        most = max(1, SCORES // length**2)
        calls += [(min(most, count - done), length) for done in range(0, count, most)]
    return calls


def _turned(states: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions (arXiv:2104.09864), computed in float32: states [patches, 2, heads, head]."""
    first, second = states.float().chunk(2, dim=-1)
    (cos_first, cos_second), (sin_first, sin_second) = (
        angles.float()[:, None, None].chunk(2, dim=-1) for angles in (cos, sin)
    )
    halves = (
        torch.addcmul(first * cos_first, second, sin_first, value=-1),
        torch.addcmul(second * cos_second, first, sin_second),
    )
    return torch.cat(halves, dim=-1).to(states.dtype)


class Qwen2Attention(WindowedAttention, qwen2.VisionAttention):  # type: ignore[misc]
    """Of Qwen2-VL."""


class Qwen25Attention(WindowedAttention, qwen25.Qwen2_5_VLVisionAttention):  # type: ignore[misc]
    """Of Qwen2.5-VL."""


class Qwen3Attention(WindowedAttention, qwen3.Qwen3VLVisionAttention):  # type: ignore[misc]
    """Of Qwen3-VL."""


_QUICK = {quick.__bases__[1]: quick for quick in (Qwen2Attention, Qwen25Attention, Qwen3Attention)}


def quicken_tower(model: Any) -> None:
    """Let the tower of a Qwen-VL model compute the same in less time.

    Args:
        model: The transformers model, without an adapter; changed in place.
    """
    tower = model.model.visual
    tower.patch_embed.proj.__class__ = PatchFilters
    for block in tower.blocks:
        block.attn.__class__ = _QUICK[type(block.attn)]
