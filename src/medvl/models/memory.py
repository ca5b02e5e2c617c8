"""How much memory a training run will need, estimated from shapes before any weight is loaded.

An estimate, made to tell a run that fits from one that does not: the worst batch (every row as long as the longest,
every picture another one), one device, AdamW. See `layer_memory` for what a layer keeps.

Measured on a CPU on random models of about 20 million parameters (a decoder of 6 layers of width 512; Qwen2.5-VL,
Llama 3.2 Vision and Gemma 3; float32 and bfloat16, with and without dropout, with and without checkpointing, 8 rows of
200 to 245 tokens), the estimated activations are 6 to 18 % above the peak of the tensors that are alive. What an
allocator loses between tensors and what a GPU's libraries take are shares that nobody has measured (`LOST_SHARE`,
`OVERHEAD_BYTES`); no GPU has confirmed the sum. The projector, class tokens and rotary tables are not counted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from medvl.config.schema import LoraConfig, ModelConfig
from medvl.models.answer_head import ROWS_AT_ONCE
from medvl.models.families import Family
from medvl.models.layer_memory import LayerMemory, Numbers, Setting, layer_memory
from medvl.models.layers import transformer_layers
from medvl.models.longest import RowSize
from medvl.models.plan import TrainingPlan

NF4_BYTES = 0.5 + 1 / 64 + 4 / (64 * 256)
"""Bytes of a weight in NF4: 4 bits, an 8-bit scale for 64 of them, a 32-bit one for 256 scales (arXiv:2305.14314)."""

OVERHEAD_BYTES = {"cuda": 2**30, "cpu": 2**28}
"""Libraries and their work space."""

LOST_SHARE = 0.05
"""Share of the activations that lies unused between tensors."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes by purpose.

    Attributes:
        weights: Weights of the base.
        trained: Adapter, copies of parts that are trained in full, and their gradients.
        optimiser: AdamW's two moments of each trained number.
        activations: Most that a training batch keeps and works on.
        asking: Most that a batch of questions works on in evaluation. It and the activations are never there together.
        overhead: The rest.
    """

    weights: int
    trained: int
    optimiser: int
    activations: int
    asking: int
    overhead: int

    @property
    def total(self) -> int:
        """Peak of the run."""
        return self.weights + self.trained + self.optimiser + max(self.activations, self.asking) + self.overhead


@dataclass(frozen=True, slots=True)
class Load:
    """What a device has to bear at once.

    Attributes:
        row: Size of the longest row.
        rows: Rows of a training batch.
        asked: Rows of a batch of questions.
        precision: `trainer.precision`.
        attention: Attention implementation that is used.
        device: `cuda` or `cpu`.
    """

    row: RowSize
    rows: int
    asked: int
    precision: str
    attention: str
    device: str


def estimate_memory(
    model: Any, family: Family, plan: TrainingPlan, config: ModelConfig, lora: LoraConfig, load: Load
) -> Memory:
    """Estimate the peak of a training run.

    Args:
        model: The base model on the meta device.
        family: Its architecture.
        plan: What is trained of it.
        config: Number format, quantisation and checkpointing.
        lora: The recipe.
        load: Batch and device.
    """
    stored = 4 if config.dtype == "float32" else 2
    in_4_bits = quantised_size(model, family) if config.quantization == "nf4" else 0
    adapter, full = sum(plan.adapter.values()), sum(plan.full.values())
    kept = _activations(model, family, plan, config, lora, load)
    activations = int(kept * (1 + LOST_SHARE))
    return Memory(
        weights=int((plan.total - in_4_bits) * stored + in_4_bits * NF4_BYTES),
        trained=2 * (4 * adapter + stored * full),  # PEFT holds adapters in float32
        optimiser=2 * (4 * adapter + stored * full),
        activations=activations,
        asking=_asking(model, family, config, lora, load),
        overhead=OVERHEAD_BYTES[load.device],
    )


def quantised_size(model: Any, family: Family) -> int:
    """Parameters that `model.quantization=nf4` holds in 4 bits: the weights of the language part's linear layers."""
    return sum(m.weight.numel() for m in _linear(model, family, "language"))


def numbers_of(dtype: str, precision: str) -> Numbers:
    """Bytes of one number for a `model.dtype` and a `trainer.precision`."""
    mixed = precision.endswith("mixed")
    compute = 4 if dtype == "float32" and precision == "32-true" else 2
    return Numbers(
        compute=compute,
        adapter=2 if mixed or precision == "bf16-true" else 4,
        norm=4 if mixed else compute,
    )


def _activations(
    model: Any, family: Family, plan: TrainingPlan, config: ModelConfig, lora: LoraConfig, load: Load
) -> int:
    """Most that a training batch keeps and works on, in bytes."""
    setting = _setting(plan, config, lora, load)
    kept = again = working = 0
    for part in ("language", "vision"):
        layers = _layers(model, family, part, setting, load.row, trained=part in plan.full)
        widest = max(layers, key=lambda layer: layer.kept + layer.working)
        if part == "language" or part in plan.adapter or part in plan.full:
            kept += sum(layer.entry if part in config.checkpointing else layer.kept for layer in layers)
            again = max(again, widest.kept if part in config.checkpointing else 0)
        working = max(working, widest.working)
    vocabulary, numbers = model.get_output_embeddings().out_features, setting.numbers
    logits = load.row.answer * vocabulary * (numbers.compute + 3 * 4)  # as they come; in float32, twice for the loss
    fixed = 0
    if config.quantization == "nf4":  # one weight at a time is unpacked
        fixed = 2 * max(m.weight.numel() for m in _linear(model, family, "language"))
    if config.dtype == "float32" and numbers.compute == 2:  # autocast keeps a half-precision copy of frozen weights
        fixed += 2 * sum(m.weight.numel() for m in _linear(model, family, "language"))
    return int(load.rows * (kept + again + working + logits) + fixed)


def _asking(model: Any, family: Family, config: ModelConfig, lora: LoraConfig, load: Load) -> int:
    """Most that a batch of questions works on, in bytes; nothing is kept from layer to layer."""
    nothing = TrainingPlan({}, {}, {}, {})
    setting = _setting(
        nothing, config, lora, replace(load, precision="32-true")
    )  # questions are asked without autocast
    passing = max(
        layer.passing
        for part in ("language", "vision")
        for layer in _layers(model, family, part, setting, load.row, trained=False)
    )
    head = model.get_output_embeddings()
    in_float32 = 0 if config.dtype == "float32" else min(ROWS_AT_ONCE, head.out_features) * head.in_features * 4
    return int(load.asked * (passing + head.out_features * 4) + in_float32)


def _setting(plan: TrainingPlan, config: ModelConfig, lora: LoraConfig, load: Load) -> Setting:
    return Setting(
        numbers=numbers_of(config.dtype, load.precision),
        adapted=frozenset(name for names in plan.layers.values() for name in names),
        rank=lora.r,
        dropout=lora.dropout > 0,
        dora=lora.dora,
        attention=load.attention,
        padded=load.rows > 1,
        mask_bytes=1 if load.device == "cuda" else 0,
    )


def _layers(
    model: Any, family: Family, part: str, setting: Setting, row: RowSize, *, trained: bool
) -> list[LayerMemory]:
    tokens = row.tokens
    if part == "vision":
        tokens, setting = row.patches, replace(setting, padded=False)
    return [
        layer_memory(layer, name, family.attention[part], setting, tokens, row.states, trained=trained)
        for name, layer in transformer_layers(model, family, part).items()
    ]


def _linear(model: Any, family: Family, part: str) -> list[Any]:
    return [
        module
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and re.fullmatch(family.linear[part], name)
    ]
