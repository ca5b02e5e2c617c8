"""Model families: what medvl must know of an architecture, one file each, found by `model_type` of config.json."""

from typing import Any

from medvl.models.families.family import Abilities, Family
from medvl.models.families.gemma3 import GEMMA3
from medvl.models.families.internvl import INTERNVL
from medvl.models.families.llava import LLAVA, LLAVA_NEXT, LLAVA_ONEVISION
from medvl.models.families.mllama import MLLAMA
from medvl.models.families.qwen_vl import QWEN2_VL, QWEN3_VL, QWEN25_VL
from medvl.models.families.smolvlm import SMOLVLM

FAMILIES: dict[str, Family] = {
    family.model_type: family
    for family in (
        MLLAMA,
        QWEN2_VL,
        QWEN25_VL,
        QWEN3_VL,
        GEMMA3,
        LLAVA,
        LLAVA_NEXT,
        LLAVA_ONEVISION,
        INTERNVL,
        SMOLVLM,
    )
}


def family_of_model(model: Any) -> Family:
    """Family of a loaded model, with or without a PEFT adapter."""
    bare = model.get_base_model() if hasattr(model, "get_base_model") else model
    return FAMILIES[bare.config.model_type]


__all__ = ["FAMILIES", "Abilities", "Family", "family_of_model"]
