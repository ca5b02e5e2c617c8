"""Adapters as files: written beside their run record, put back on a base, verified."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peft import LoraConfig as PeftLoraConfig
from peft import PeftModel, get_peft_model_state_dict
from safetensors import SafetensorError, safe_open

from medvl.errors import ModelError
from medvl.models.adapter import adapter_weights_fingerprint
from medvl.models.adapter_keys import (
    KEY_MAPS,
    layer_of,
    likely_reason,
    new_name,
    renamed_keys,
    renamed_patterns,
)
from medvl.models.base import Base
from medvl.models.families import Family
from medvl.models.record import WEIGHTS_FILE, read_record, write_record


def save_adapter(model: PeftModel, folder: Path, record: dict[str, Any]) -> None:
    """Write an adapter in PEFT's format with its run record beside it."""
    model.save_pretrained(folder, save_embedding_layers=False)  # "auto" asks the hub for the base's config
    readme = folder / "README.md"
    readme.unlink(missing_ok=True)  # PEFT's empty template says nothing
    write_record(folder, record)


def load_adapter(base: Base, folder: Path) -> PeftModel:
    """Put an adapter that medvl trained on its base model, and verify both by its run record.

    Raises:
        ModelError: No run record, another base, other weights than were trained; also see `put_adapter`.
    """
    record = read_record(folder)
    if record["fingerprints"]["base"] != base.fingerprint:
        raise ModelError(
            f"{folder.name} was trained on another base: {record['base']} (weights {record['fingerprints']['base']}), "
            f"this is {base.label} (weights {base.fingerprint})"
        )
    model = put_adapter(base, folder)
    found = adapter_weights_fingerprint(model)
    if found != record["fingerprints"]["adapter"]:
        raise ModelError(
            f"{folder / WEIGHTS_FILE} is not what was trained: expected weights {record['fingerprints']['adapter']}, "
            f"found {found}; copy the adapter folder again"
        )
    return model


def put_adapter(base: Base, folder: Path) -> PeftModel:
    """Put an adapter on a base model by its files alone, whoever trained it.

    Weights under names of older transformers releases are renamed, see `medvl.models.adapter_keys`.

    Args:
        base: Base model; its layers are replaced in place.
        folder: Adapter folder in PEFT's format.

    Raises:
        ModelError: Weights that are absent or cut short, that match no layer, or layers without weights.
    """
    names = renamed_keys(weight_names(folder), base.family.model_type)
    options: dict[str, Any] = {}
    try:
        kind = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))["peft_type"]
        if kind != "LORA":
            raise ModelError(
                f"{folder.name} does not fit {base.label}: it is of the kind {kind}; LoRA adapters are read"
            )
        if any(old != new for old, new in names.items()):
            options = {
                "config": _renamed_config(folder, sorted(names.values()), base.family),
                "key_mapping": KEY_MAPS[base.family.model_type],
            }
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Found missing adapter keys")  # refused below, with the counts
            warnings.filterwarnings("ignore", message="Model has `tie_word_embeddings")  # see `untie_adapted`
            model = PeftModel.from_pretrained(base.model, folder, **options)
    except ModelError:
        raise
    except Exception as error:  # PEFT and torch raise many kinds for a config or a shape that does not fit
        raise ModelError(
            f"{folder.name} does not fit {base.label}: {' '.join(str(error).split())[:300]}; copy the adapter folder "
            "again"
        ) from error
    expected = set(get_peft_model_state_dict(model, save_embedding_layers=False))
    saved = set(names.values())
    if saved != expected:
        surplus = sorted(old for old, new in names.items() if new not in expected)
        reason = f". Perhaps {likely_reason(surplus, base.family.model_type)}" if surplus else ""
        raise ModelError(
            f"{folder.name}: {len(saved & expected)} of {len(expected)} adapter weights match a layer of {base.label}; "
            f"without a layer: {surplus[:3]} ({len(surplus)}), without weights: {sorted(expected - saved)[:3]} "
            f"({len(expected - saved)}){reason}"
        )
    model.eval()
    return model


def weight_names(folder: Path) -> list[str]:
    """Names of the weights in an adapter's file.

    Raises:
        ModelError: The file is absent, cut short, or of a format that can run code.
    """
    path = folder / WEIGHTS_FILE
    if not path.is_file() and (folder / "adapter_model.bin").is_file():
        raise ModelError(
            f"{WEIGHTS_FILE} is absent: {folder.name} holds adapter_model.bin, a format that can run code and is not "
            "read; have whoever trained it save the adapter again, PEFT writes safetensors by default"
        )
    try:
        with safe_open(path, framework="pt") as file:
            return list(file.keys())
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{path} is absent or cut short: {error}") from None


def _renamed_config(folder: Path, names: Sequence[str], family: Family) -> PeftLoraConfig:
    """The configuration of an adapter with old names; its layers are those that the file has weights for."""
    config = PeftLoraConfig.from_pretrained(folder)
    kind, layers = family.model_type, sorted({layer_of(name) for name in names if ".lora_" in name})
    config.target_modules = "|".join(map(re.escape, layers)) or []
    config.exclude_modules = config.layers_to_transform = config.layers_pattern = None
    config.modules_to_save = [new_name(name, kind) for name in config.modules_to_save or ()] or None
    config.rank_pattern = renamed_patterns(config.rank_pattern or {}, layers, kind, "rank_pattern")
    config.alpha_pattern = renamed_patterns(config.alpha_pattern or {}, layers, kind, "alpha_pattern")
    return config
