"""Names of adapter weights: those that older transformers wrote -> those of today, by architecture. Imports no torch.

transformers 4.52 moved language part, tower and projector below `model.`, and a later release took a level out of CLIP
and SigLIP towers. An adapter holds the names of the release that it was trained with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from medvl.errors import ModelError

PREFIX = "base_model.model."
"""What PEFT writes before the name of a layer."""

_END = r"(?=\.|$)"
_LANGUAGE = {rf"^language_model\.model{_END}": "model.language_model", rf"^language_model\.lm_head{_END}": "lm_head"}
_PROJECTOR = {rf"^multi_modal_projector{_END}": "model.multi_modal_projector"}
_CLIP_TOWER = {
    rf"^(model\.)?vision_tower\.vision_model{_END}": "model.vision_tower",
    rf"^vision_tower{_END}": "model.vision_tower",
}
_LLAVA = {**_LANGUAGE, **_CLIP_TOWER, **_PROJECTOR}
_QWEN_2 = {
    rf"^model(?=\.(layers|embed_tokens|norm){_END})": "model.language_model",
    rf"^visual{_END}": "model.visual",
}

KEY_MAPS: dict[str, dict[str, str]] = {
    "mllama": {**_LANGUAGE, rf"^vision_model{_END}": "model.vision_model", **_PROJECTOR},
    "qwen2_vl": _QWEN_2,
    "qwen2_5_vl": _QWEN_2,
    "qwen3_vl": {},
    "gemma3": _LLAVA,
    "llava": _LLAVA,
    "llava_next": _LLAVA,
    "llava_onevision": _LLAVA,
    "internvl": {**_LANGUAGE, rf"^vision_tower{_END}": "model.vision_tower", **_PROJECTOR},
    "smolvlm": {},
}
"""`model_type` -> (regular expression at the beginning of an old name -> what stands there today). The first that
matches counts; empty where the names never changed. PEFT's `key_mapping` takes the same table."""


def new_name(name: str, model_type: str) -> str:
    """Today's name of a layer or weight; names of today stay as they are.

    Args:
        name: Name as an adapter holds it, with PEFT's prefix or without.
        model_type: Architecture, see `KEY_MAPS`.
    """
    prefix = PREFIX if name.startswith(PREFIX) else ""
    bare = name.removeprefix(prefix)
    for pattern, replacement in KEY_MAPS[model_type].items():
        renamed, changed = re.subn(pattern, replacement, bare)
        if changed:
            return prefix + renamed
    return name


def renamed_keys(names: Iterable[str], model_type: str) -> dict[str, str]:
    """Name in the file -> today's name, for all weights of an adapter.

    Raises:
        ModelError: Two weights would get one name.
    """
    table: dict[str, str] = {}
    owner: dict[str, str] = {}
    for name in names:
        table[name] = new_name(name, model_type)
        if (other := owner.setdefault(table[name], name)) != name:
            raise ModelError(
                f"two adapter weights are the same layer under its old and its new name ({other}, {name}); the file "
                "was put together from two adapters: take one of them"
            )
    return table


def layer_of(name: str) -> str:
    """Full name of the layer that an adapter's weight belongs to, without PEFT's prefix.

    Args:
        name: Name of a weight, e.g. `base_model.model.lm_head.weight` or `base_model.model.X.lora_A.weight`.
    """
    bare = name.removeprefix(PREFIX)
    layer, found, _ = bare.partition(".lora_")
    return layer if found else bare.rpartition(".")[0]


def renamed_patterns(
    patterns: Mapping[str, float], layers: Iterable[str], model_type: str, setting: str
) -> dict[str, float]:
    """PEFT's `alpha_pattern` or `rank_pattern` with today's names.

    Args:
        patterns: End of a layer's name, or regular expression -> value.
        layers: Today's names of the adapter's layers.
        model_type: Architecture.
        setting: Name of the setting, for the message.

    Raises:
        ModelError: One that matches no layer any more: the adapter would work with another scale and nobody would know.
    """
    known = list(layers)
    table = {}
    for old, value in patterns.items():
        key = new_name(old, model_type)
        if not any(re.match(rf"(.*\.)?({key})$", layer) for layer in known):
            raise ModelError(
                f"{setting} of its adapter_config.json names {old}, which matches no layer under today's names (such "
                f"as {known[0] if known else '-'}); write the pattern for these names"
            )
        table[key] = value
    return table


def likely_reason(unmatched: Iterable[str], model_type: str) -> str:
    """Why weights of an adapter may have no layer, and what to do; for an error message."""
    layers = {layer_of(name): name for name in unmatched}
    if "llava" in model_type and any(re.match(r"model\.(layers\.|mm_projector)", layer) for layer in layers):
        return (
            "these are names of LLaVA's authors' own code, whose projector lies in another file: merge the adapter "
            "there and convert the whole model to transformers"
        )
    whole = [
        layer for layer, name in layers.items() if ".lora_" not in name and layer.endswith(("embed_tokens", "lm_head"))
    ]
    if whole:
        return (
            f"it brings its own {whole[0]}, as for a base whose vocabulary was extended before training: use that "
            "base, with its tokenizer"
        )
    return "it was trained on another base or architecture, or with other names: say the base that it was trained on"
