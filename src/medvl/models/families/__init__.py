"""Model families: what medvl must know of an architecture, one file each, found by `model_type` of config.json."""

from medvl.models.families.family import Family
from medvl.models.families.llava import LLAVA
from medvl.models.families.mllama import MLLAMA

FAMILIES: dict[str, Family] = {family.model_type: family for family in (LLAVA, MLLAMA)}

__all__ = ["FAMILIES", "Family"]
