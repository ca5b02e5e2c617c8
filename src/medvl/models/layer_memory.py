"""What one transformer layer keeps for its backward pass, in bytes, from the shapes of its modules.

The count follows what autograd keeps, operation by operation, in the way of Korthikanti et al. (Reducing Activation
Recomputation in Large Transformer Models, arXiv:2205.05198), for a frozen layer with an adapter (transformers'
modelling code and PEFT's LoRA):

- a frozen linear layer keeps nothing (the gradient of its input needs its weight only); an adapter on it keeps its
  input, a copy of its own where dropout is on or the number format changes; a trained one keeps its input;
- an RMS norm keeps its input in float32, a layer norm as it comes;
- attention by sdpa or flash_attention_2 keeps query, key, value and result, never the square of scores (FlashAttention,
  arXiv:2205.14135). With padded rows, sdpa repeats keys and values for every query head and keeps the mask, [T, T] for
  each row; eager attention keeps the scores of every head;
- a gated feed-forward layer keeps three inner states (gate, its activation, the other branch), a plain one the input of
  its activation.

Left out, all small: rotary tables, gates, the statistics of norms and of attention.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from torch import nn


@dataclass(frozen=True, slots=True)
class Numbers:
    """Bytes of one number.

    Attributes:
        compute: Of activations.
        adapter: Of what an adapter takes in.
        norm: Of what a layer norm takes in (float32 under autocast).
    """

    compute: int
    adapter: int
    norm: int

    @property
    def autocast(self) -> bool:
        """Whether formats are mixed, so that each layer brings its input to half precision for itself."""
        return self.norm != self.compute


@dataclass(frozen=True, slots=True)
class Setting:
    """What decides over a layer's memory beside its shape.

    Attributes:
        numbers: Bytes of one number.
        adapted: Full names of the linear layers with an adapter.
        rank: Rank of the adapter.
        dropout: Whether the adapter drops numbers.
        dora: Whether it is DoRA.
        attention: `sdpa`, `eager` or `flash_attention_2`.
        padded: Whether rows are filled up to one length, so that attention takes a mask.
        mask_bytes: Of one number of dropout's mask: 1 on a GPU; on a CPU it is as wide as what it masks.
    """

    numbers: Numbers
    adapted: frozenset[str]
    rank: int
    dropout: bool
    dora: bool
    attention: str
    padded: bool
    mask_bytes: int


@dataclass(frozen=True, slots=True)
class LayerMemory:
    """Bytes of one layer for one row.

    Attributes:
        kept: Kept from the forward to the backward pass.
        entry: Its input, all that is kept under checkpointing.
        working: At work in its backward pass at one moment, beside what is kept: the gradients of its inner states.
        passing: At work in its forward pass at one moment where nothing is kept: an adapter's output beside its own.
    """

    kept: int
    entry: int
    working: int
    passing: int


def layer_memory(
    layer: Any, name: str, attention: str, setting: Setting, tokens: int, states: int, *, trained: bool
) -> LayerMemory:
    """What a layer keeps of one row.

    Args:
        layer: The layer, possibly on the meta device.
        name: Its full name.
        attention: Pattern of its part's attention layers (`Family.attention`).
        setting: What is trained, and how it is computed.
        tokens: Positions of the row in this part.
        states: States that a cross-attention layer reads beside the row.
        trained: Whether the layer itself is trained in full.
    """
    numbers = setting.numbers
    linear = {n: m for n, m in layer.named_modules() if isinstance(m, nn.Linear)}
    attending = {n: m for n, m in linear.items() if re.fullmatch(attention, f"{name}.{n}")}
    feeding = {n: m for n, m in linear.items() if n not in attending}
    hidden = next(iter(attending.values())).in_features
    inner = max((m.out_features for m in feeding.values()), default=0)
    branches = 3 if len(feeding) > 2 else 2 if _is_quick_gelu(layer) else 1
    length = {n: states if _reads_states(n) else tokens for n in linear}
    kept = _attention_bytes(layer, attending, length, setting, tokens)
    kept += tokens * inner * branches * numbers.compute
    kept += _norm_bytes(layer, linear, setting, tokens, states, hidden, trained=trained)
    kept += _input_bytes(attending, name, length, setting, trained=trained, last_is_kept=True)
    kept += _input_bytes(feeding, name, length, setting, trained=trained, last_is_kept=False)
    return LayerMemory(
        kept=kept,
        entry=tokens * hidden * numbers.norm,
        working=tokens * (3 * inner * numbers.compute + 2 * hidden * 4),
        passing=tokens * (inner * (2 * numbers.compute + 3 * numbers.adapter) + 3 * hidden * 4),
    )


def _attention_bytes(layer: Any, linear: dict[str, Any], length: dict[str, int], setting: Setting, tokens: int) -> int:
    *inputs, last = linear
    width = linear[last].in_features  # of all heads together
    kinds = len(inputs)
    keys = next(length[n] for n in inputs if kinds == 1 or _is_key(n))
    repeats = setting.padded and setting.attention != "flash_attention_2"
    if kinds == 1 or repeats:
        kept = 2 * width * (tokens + keys)
    else:
        kept = width * tokens + sum(linear[n].out_features * length[n] for n in inputs)
    kept *= setting.numbers.compute
    if (
        setting.attention == "sdpa" and setting.padded and keys == tokens
    ):  # the mask of other states is shared by all layers
        kept += tokens * keys * setting.numbers.compute
    if setting.attention == "eager":
        head = getattr(layer.get_submodule(last.rpartition(".")[0]), "head_dim", 64)
        kept += width // head * tokens * keys * (4 if setting.numbers.compute == 4 else 6)
    return int(kept)


def _norm_bytes(
    layer: Any, linear: dict[str, Any], setting: Setting, tokens: int, states: int, hidden: int, *, trained: bool
) -> int:
    kept = 0
    for name, module in layer.named_modules():
        is_rms = "RMSNorm" in type(module).__name__
        if not is_rms and not isinstance(module, nn.LayerNorm):
            continue
        owner, _, own = name.rpartition(".")
        headed = next((m for n, m in linear.items() if n == f"{owner}.{own[0]}_proj"), None)
        width = hidden if headed is None or own[1:] != "_norm" else headed.out_features
        length = states if _reads_states(name) else tokens
        if is_rms:
            kept += length * width * (4 + (setting.numbers.compute if trained else 0))
        else:
            kept += length * width * setting.numbers.norm
    return kept


def _input_bytes(
    linear: dict[str, Any], name: str, length: dict[str, int], setting: Setting, *, trained: bool, last_is_kept: bool
) -> int:
    """What adapters (or trained weights) keep of the inputs of the linear layers of one block."""
    if not linear:
        return 0
    numbers, last = setting.numbers, list(linear)[-1]
    seen: set[tuple[bool, int]] = set()
    kept = 0
    for n, module in linear.items():
        adapted = f"{name}.{n}" in setting.adapted
        if not adapted and not trained:
            continue
        if adapted and (setting.dropout or numbers.adapter != numbers.compute or numbers.autocast):
            mask = 0
            if setting.dropout:
                mask = setting.mask_bytes or max(numbers.adapter, numbers.norm)
            kept += length[n] * module.in_features * (numbers.adapter + mask)
        elif (n == last, length[n]) not in seen and not (n == last and last_is_kept):
            seen.add((n == last, length[n]))
            kept += length[n] * module.in_features * numbers.compute
        if adapted:
            kept += length[n] * setting.rank * numbers.adapter
            if setting.dora:
                kept += length[n] * 2 * module.out_features * numbers.adapter
    return int(kept)


def _is_key(name: str) -> bool:
    return name.rpartition(".")[2].startswith("k_")


def _reads_states(name: str) -> bool:
    """Whether a module of a layer works on what a cross-attention layer attends to, not on the row."""
    return re.search(r"(^|\.)cross_attn\.[kv]_", name) is not None


def _is_quick_gelu(layer: Any) -> bool:
    return any("QuickGELU" in type(module).__name__ for module in layer.modules())
