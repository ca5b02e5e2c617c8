"""Attaches, saves, loads and proves LoRA adapters."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig as PeftLoraConfig
from peft import PeftModel, get_peft_model
from safetensors import SafetensorError, safe_open

from medvl.config.schema import LoraConfig
from medvl.errors import ModelError
from medvl.models.base import Base
from medvl.models.record import WEIGHTS_FILE, read_record, write_record


def patterns(base: Base, config: LoraConfig) -> dict[str, str]:
    """Part -> regular expression that matches its wanted layers and nothing else.

    Raises:
        ModelError: A part that has no such layers.
    """
    table = base.family.linear if config.layers == "all_linear" else base.family.attention
    absent = [part for part in config.parts if part not in table]
    if absent:
        raise ModelError(
            f"lora.parts={config.parts}: {base.family.model_type} has no {config.layers} layers in "
            f"{', '.join(absent)}; it has {', '.join(table)}"
        )
    idle = "" if base.family.idle is None else f"(?!{base.family.idle(base.model.config)})"
    return {part: f"{idle}(?:{table[part]})" for part in config.parts}


def matched_layers(base: Base, config: LoraConfig) -> dict[str, list[str]]:
    """Part -> full names of the linear layers that will get an adapter.

    Raises:
        ModelError: A part in which nothing matches, or a match that is not a linear layer.
    """
    table = patterns(base, config)
    matched: dict[str, list[str]] = {part: [] for part in config.parts}
    for name, module in base.model.named_modules():
        for part in config.parts:
            if re.fullmatch(table[part], name):
                if not isinstance(module, torch.nn.Linear):
                    raise ModelError(f"lora.parts: {name} is a {type(module).__name__}, expected a linear layer")
                matched[part].append(name)
    empty = [part for part, names in matched.items() if not names]
    if empty:
        raise ModelError(
            f"lora.parts: no layer of {base.label} matches the pattern of {', '.join(empty)} "
            f"({', '.join(table[part] for part in empty)})"
        )
    return matched


def attach_adapter(base: Base, config: LoraConfig, seed: int) -> PeftModel:
    """Put a fresh adapter on a base model. It changes nothing until it is trained.

    Args:
        base: Base model; its layers are replaced in place.
        config: Rank, scale, dropout, parts.
        seed: Seed of the adapter's first weights.
    """
    matched_layers(base, config)
    torch.manual_seed(seed)
    peft_config = PeftLoraConfig(
        r=config.r,
        lora_alpha=config.alpha,
        lora_dropout=config.dropout,
        target_modules="|".join(patterns(base, config).values()),
        bias="none",
        task_type="CAUSAL_LM",
    )
    model = get_peft_model(base.model, peft_config)
    model.peft_config["default"].base_model_name_or_path = base.label
    return model


def parameter_counts(model: PeftModel, base: Base) -> dict[str, int]:
    """Part -> trainable adapter parameters, plus `trainable` and `total` of the whole model."""
    counts: Counter[str] = Counter()
    for name, parameter in model.named_parameters():
        counts["total"] += parameter.numel()
        if parameter.requires_grad:
            counts["trainable"] += parameter.numel()
            counts[_part_of(name, base)] += parameter.numel()
    return dict(counts)


def save_adapter(model: PeftModel, folder: Path, record: dict[str, Any]) -> None:
    """Write an adapter in PEFT's format with its run record beside it."""
    model.save_pretrained(folder, save_embedding_layers=False)  # "auto" asks the hub for the base's config
    readme = folder / "README.md"
    readme.unlink(missing_ok=True)  # PEFT's empty template says nothing
    write_record(folder, record)


def load_adapter(base: Base, folder: Path) -> PeftModel:
    """Put a saved adapter on its base model.

    Raises:
        ModelError: Another base, weights that are absent or cut short, or keys that match no layer.
    """
    record = read_record(folder)
    if record["fingerprints"]["base"] != base.fingerprint:
        raise ModelError(
            f"{folder.name} was trained on another base: {record['base']} (weights {record['fingerprints']['base']}), "
            f"this is {base.label} (weights {base.fingerprint})"
        )
    try:
        with safe_open(folder / WEIGHTS_FILE, framework="pt") as file:
            saved = set(file.keys())
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{folder / WEIGHTS_FILE} is absent or cut short: {error}") from None
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Found missing adapter keys")  # refused below, with the counts
            model = PeftModel.from_pretrained(base.model, folder)
    except Exception as error:  # PEFT and torch raise many kinds for a config or a shape that does not fit
        raise ModelError(
            f"{folder.name} does not fit {base.label}: {' '.join(str(error).split())[:300]}; copy the adapter folder "
            "again"
        ) from error
    expected = {name.replace(".default", "") for name, _ in model.named_parameters() if "lora_" in name}
    if saved != expected:
        raise ModelError(
            f"{folder.name}: {len(saved & expected)} of {len(expected)} adapter weights match a layer of {base.label}; "
            f"without a layer: {sorted(saved - expected)[:3]}, without weights: {sorted(expected - saved)[:3]}"
        )
    found = adapter_weights_fingerprint(model)
    if found != record["fingerprints"]["adapter"]:
        raise ModelError(
            f"{folder / WEIGHTS_FILE} is not what was trained: expected weights {record['fingerprints']['adapter']}, "
            f"found {found}; copy the adapter folder again"
        )
    model.eval()
    return model


def adapter_weights_fingerprint(model: PeftModel) -> str:
    """Hash of the adapter's weights as they are now (16 hex digits)."""
    digest = hashlib.sha256()
    for name, parameter in sorted(model.named_parameters()):
        if "lora_" in name:
            digest.update(name.encode())
            digest.update(parameter.detach().to(torch.float32).cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


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
            norms.setdefault(_part_of(name, base), []).append(float(parameter.detach().float().norm()))
    return {
        part: {"matrices": len(v), "zero": sum(n == 0 for n in v), "smallest": min(v), "largest": max(v)}
        for part, v in norms.items()
    }


def _part_of(name: str, base: Base) -> str:
    bare = name.removeprefix("base_model.model.").split(".lora_")[0]
    return next((p for p, pattern in base.family.linear.items() if re.fullmatch(pattern, bare)), "other")
