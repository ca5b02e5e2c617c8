"""What a recipe will train, counted on a model without weights: layers and parameters, part by part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from medvl.config.schema import LoraConfig
from medvl.models.adapter import matched_layers
from medvl.models.families import Family
from medvl.models.parts import part_sizes, whole_modules


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """What is trained of a model.

    Attributes:
        sizes: Part -> parameters of the base; tied ones count once.
        layers: Part -> full names of the linear layers that get an adapter.
        adapter: Part -> parameters of the adapter.
        full: Part -> parameters that are trained in full (`model.train_parts`).
    """

    sizes: dict[str, int]
    layers: dict[str, list[str]]
    adapter: dict[str, int]
    full: dict[str, int]

    @property
    def total(self) -> int:
        """Parameters of the base."""
        return sum(self.sizes.values())

    @property
    def trained(self) -> int:
        """Parameters that are trained."""
        return sum(self.adapter.values()) + sum(self.full.values())


def plan_training(model: Any, family: Family, lora: LoraConfig, train_parts: Sequence[str] = ()) -> TrainingPlan:
    """Count what a recipe trains.

    Args:
        model: The base model without an adapter; it may be on the meta device (`empty_model`).
        family: Its architecture.
        lora: The recipe.
        train_parts: Parts that are trained in full.

    Raises:
        ModelError: The recipe does not fit the architecture, see `matched_layers` and `whole_modules`.
    """
    layers = matched_layers(model, family, lora)
    return TrainingPlan(
        sizes=part_sizes(model, family),
        layers=layers,
        adapter={part: sum(_adapter_size(model, name, lora) for name in names) for part, names in layers.items()},
        full={
            part: sum(
                parameter.numel()
                for name in whole_modules(model, family, [part])
                for parameter in model.get_submodule(name).parameters()
            )
            for part in train_parts
        },
    )


def _adapter_size(model: Any, name: str, lora: LoraConfig) -> int:
    """Parameters of the adapter of one linear layer: A [r, in], B [out, r], and DoRA's magnitudes [out]."""
    layer = model.get_submodule(name)
    magnitudes = layer.out_features if lora.dora else 0
    return int(lora.r * (layer.in_features + layer.out_features) + magnitudes)
