"""What an adapter is, by its files alone: base, recipe, layers and sizes by part, and how it can be served."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from medvl.errors import ModelError
from medvl.models.adapter_base import record_of
from medvl.models.adapter_files import weight_names
from medvl.models.adapter_keys import layer_of, new_name
from medvl.models.families import FAMILIES, Family
from medvl.models.parts import part_of
from medvl.models.record import WEIGHTS_FILE

UNKNOWN = "unknown"


@dataclass(slots=True)
class PartSummary:
    """What an adapter holds of one part.

    Attributes:
        layers: Layers with low-rank matrices.
        whole: Layers that are held in full (`model.train_parts`).
        parameters: Numbers in all.
        b_norms: Norms of the B matrices. B starts at zero, so a norm of 0 never got a gradient.
    """

    layers: int
    whole: int
    parameters: int
    b_norms: list[float]


@dataclass(frozen=True, slots=True)
class AdapterSummary:
    """What an adapter is.

    Attributes:
        folder: Its folder.
        config: Content of `adapter_config.json`.
        record: Its run record; None for an adapter that medvl did not train.
        parts: Part -> what it holds of it.
        has_old_names: Whether its keys are those of an older transformers.
    """

    folder: Path
    config: dict[str, Any]
    record: dict[str, Any] | None
    parts: dict[str, PartSummary]
    has_old_names: bool

    @property
    def base(self) -> str:
        """Name of the base."""
        return str(self.config.get("base_model_name_or_path") if self.record is None else self.record["base"])

    @property
    def recipe(self) -> str:
        """Rank, scale and kind on one line."""
        config = self.config
        kinds = [name for key, name in (("use_dora", "DoRA"), ("use_rslora", "rsLoRA")) if config.get(key)]
        return ", ".join(
            [
                f"r {config.get('r')}",
                f"alpha {config.get('lora_alpha')}",
                f"dropout {config.get('lora_dropout')}",
                *kinds,
            ]
        )

    @property
    def serving(self) -> str:
        """How the adapter can be served."""
        if beyond := [part for part in sorted(self.parts) if part != "language"]:
            return (
                f"it has a {' and a '.join(beyond)} part: merge it, or drop that part: vLLM takes adapters on the "
                "language part only"
            )
        if any(part.whole for part in self.parts.values()):
            return "it holds layers in full: merge it, vLLM takes low-rank matrices only"
        if self.config.get("use_dora"):
            return "it is a DoRA adapter: merge it, vLLM takes plain LoRA only"
        if self.has_old_names:
            return "its keys are those of an older transformers: merge it, or check that your server knows them"
        rank = self.config.get("r")
        return f"language part only: vLLM can take it beside its base (--enable-lora --max-lora-rank {rank})"


def summarise_adapter(adapter: Path) -> AdapterSummary:
    """Read an adapter's files.

    Raises:
        ModelError: There is no adapter, or a file of it cannot be read.
    """
    record = record_of(adapter)
    try:
        config = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))
        config["peft_type"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(
            f"{adapter / 'adapter_config.json'} cannot be read ({error!r}); copy the adapter again"
        ) from None
    names = weight_names(adapter)
    family = _fitting_family(names)
    parts: dict[str, PartSummary] = {}
    layers: dict[str, set[str]] = {}
    try:
        with safe_open(adapter / WEIGHTS_FILE, framework="pt") as file:
            for name in names:
                part = parts.setdefault(_part(name, family), PartSummary(0, 0, 0, []))
                tensor = file.get_tensor(name)
                part.parameters += tensor.numel()
                if "lora_B" in name:
                    part.b_norms.append(float(torch.linalg.vector_norm(tensor.to(torch.float32))))
                kind = "layers" if ".lora_" in name else "whole"
                seen = layers.setdefault(f"{_part(name, family)} {kind}", set())
                seen.add(layer_of(name))
                setattr(part, kind, len(seen))
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{adapter / WEIGHTS_FILE} is absent or cut short: {error}") from None
    is_old = family is not None and any(new_name(name, family.model_type) != name for name in names)
    return AdapterSummary(adapter, config, record, parts, is_old)


def _fitting_family(names: list[str]) -> Family | None:
    """A family whose parts all layers belong to. Several may fit; those that do put a layer in the same part."""
    for family in FAMILIES.values():
        try:
            for name in names:
                part_of(new_name(name, family.model_type), family)
        except ModelError:
            continue
        return family
    return None


def _part(name: str, family: Family | None) -> str:
    return UNKNOWN if family is None else part_of(new_name(name, family.model_type), family)
