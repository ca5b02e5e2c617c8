"""Puts a fresh LoRA adapter on a base model, and says what it holds."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from peft import LoraConfig as PeftLoraConfig
from peft import PeftModel, get_peft_model
from peft.utils.constants import DUMMY_TARGET_MODULES

from medvl.config.schema import LoraConfig
from medvl.errors import ModelError
from medvl.models.base import Base
from medvl.models.families import Family
from medvl.models.parts import part_of, whole_modules


def patterns(model: Any, family: Family, config: LoraConfig) -> dict[str, str]:
    """Part -> regular expression that matches its wanted layers and nothing else.

    Args:
        model: The base model; only its configuration is read.
        family: Its architecture.
        config: Parts and layers.

    Raises:
        ModelError: A part that has no such layers.
    """
    table = family.linear if config.layers == "all_linear" else family.attention
    if absent := [part for part in config.parts if part not in table]:
        kind = "linear" if config.layers == "all_linear" else "attention"
        raise ModelError(
            f"lora.parts={config.parts}: {family.title} has no {kind} layers in {', '.join(absent)}; it has them in "
            f"{', '.join(table)}. Name those, and model.train_parts=[{absent[0]}] to train the rest in full"
        )
    idle = "" if family.idle is None else f"(?!{family.idle(model.config)})"
    return {part: f"{idle}(?:{table[part]})" for part in config.parts}


def matched_layers(model: torch.nn.Module, family: Family, config: LoraConfig) -> dict[str, list[str]]:
    """Part -> full names of the linear layers that will get an adapter.

    Args:
        model: The base model, without an adapter; it may be on the meta device.
        family: Its architecture.
        config: Parts and layers.

    Raises:
        ModelError: A part in which nothing matches, or a match that is not a linear layer.
    """
    table = patterns(model, family, config)
    matched: dict[str, list[str]] = {part: [] for part in config.parts}
    for name, module in model.named_modules():
        for part in config.parts:
            if re.fullmatch(table[part], name):
                if not isinstance(module, torch.nn.Linear):
                    raise ModelError(f"lora.parts: {name} is a {type(module).__name__}, expected a linear layer")
                matched[part].append(name)
    if empty := [part for part, names in matched.items() if not names]:
        raise ModelError(
            f"lora.parts: no layer of this {family.title} matches the pattern of {', '.join(empty)} "
            f"({', '.join(table[part] for part in empty)})"
        )
    return matched


def attach_adapter(base: Base, config: LoraConfig, seed: int, train_parts: Sequence[str] = ()) -> PeftModel:
    """Put a fresh adapter on a base model. It changes nothing until it is trained.

    Args:
        base: Base model; its layers are replaced in place.
        config: Rank, scale, dropout, parts.
        seed: Seed of the adapter's first weights.
        train_parts: Parts that are trained in full; the adapter holds a copy of their weights.
    """
    matched_layers(base.model, base.family, config)
    torch.manual_seed(seed)
    peft_config = PeftLoraConfig(
        r=config.r,
        lora_alpha=config.alpha,
        lora_dropout=config.dropout,
        target_modules="|".join(patterns(base.model, base.family, config).values()) or DUMMY_TARGET_MODULES,
        modules_to_save=whole_modules(base.model, base.family, train_parts) or None,
        use_dora=config.dora,
        use_rslora=config.rslora,
        bias="none",
        task_type="CAUSAL_LM",
    )
    model = get_peft_model(base.model, peft_config)
    model.peft_config["default"].base_model_name_or_path = base.label
    return model


def parameter_counts(model: PeftModel, base: Base) -> dict[str, int]:
    """Part -> trainable parameters, plus `trainable` and `total` of the whole model."""
    counts: Counter[str] = Counter()
    for name, parameter in model.named_parameters():
        counts["total"] += parameter.numel()
        if parameter.requires_grad:
            counts["trainable"] += parameter.numel()
            counts[part_of(name, base.family)] += parameter.numel()
    return dict(counts)


def parameter_groups(model: torch.nn.Module, family: Family, part_lr: Mapping[Any, float]) -> list[dict[str, Any]]:
    """Trainable parameters as the optimiser takes them: one group without a rate of its own, one for each in `part_lr`.

    Args:
        model: The model with its adapter.
        family: Its architecture.
        part_lr: Part -> learning rate.

    Raises:
        ModelError: A rate for a part in which nothing is trained.
    """
    of_part: dict[str, list[torch.nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            of_part.setdefault(part_of(name, family), []).append(parameter)
    if idle := sorted(set(part_lr) - set(of_part)):
        raise ModelError(f"optim.part_lr names {', '.join(idle)}, where nothing is trained; trained: {sorted(of_part)}")
    rest = [p for part, parameters in of_part.items() if part not in part_lr for p in parameters]
    groups = [{"params": of_part[part], "lr": rate} for part, rate in part_lr.items()]
    return [{"params": rest}, *groups] if rest else groups


def adapter_weights_fingerprint(model: PeftModel) -> str:
    """Hash of the adapter's weights as they are now (16 hex digits)."""
    digest = hashlib.sha256()
    for name, parameter in sorted(model.named_parameters()):
        if is_trained(name):
            digest.update(name.encode())
            digest.update(parameter.detach().to(torch.float32).cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def is_trained(name: str) -> bool:
    """Whether a parameter of a PEFT model belongs to its adapter, by name."""
    return "lora_" in name or ".modules_to_save." in name


@contextmanager
def without_adapter(model: Any) -> Iterator[None]:
    """Inside, the model answers as its base does."""
    if isinstance(model, PeftModel):
        with model.disable_adapter():
            yield
    else:
        yield


def b_norms(model: PeftModel, base: Base) -> dict[str, dict[str, float]]:
    """Part -> number, smallest and largest norm of the B matrices, and how many are still zero.

    B starts at zero, so a matrix at zero never got a gradient.
    """
    norms: dict[str, list[float]] = {}
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            norms.setdefault(part_of(name, base.family), []).append(float(parameter.detach().float().norm()))
    return {
        part: {"matrices": len(v), "zero": sum(n == 0 for n in v), "smallest": min(v), "largest": max(v)}
        for part, v in norms.items()
    }
