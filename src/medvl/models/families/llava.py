"""LLaVA 1.5 (arXiv:2310.03744): a CLIP or SigLIP tower, a two-layer projector, any decoder."""

from typing import Any

from medvl.models.families.family import Family

_DECODER = r"model\.language_model\.layers\.\d+"
_TOWER_LAYERS = r"model\.vision_tower(\.vision_model)?\.encoder\.layers"
_TOWER = rf"{_TOWER_LAYERS}\.\d+"


def _idle(config: Any) -> str:
    """Tower layers above the one whose output is taken (LLaVA 1.5 takes the last but one)."""
    depth, taken = config.vision_config.num_hidden_layers, config.vision_feature_layer
    highest = max(i if i >= 0 else depth + 1 + i for i in ([taken] if isinstance(taken, int) else taken))
    above = "|".join(map(str, range(highest, depth))) or "none"
    return rf"{_TOWER_LAYERS}\.({above})\."


LLAVA = Family(
    model_type="llava",
    linear={
        "language": rf"{_DECODER}\.(self_attn\.(q|k|v|o)_proj|mlp\.(gate|up|down)_proj)",
        "vision": rf"{_TOWER}\.(self_attn\.(q_proj|k_proj|v_proj|out_proj)|mlp\.fc[12])",
        "projector": r"model\.multi_modal_projector\.linear_[12]",
    },
    attention={
        "language": rf"{_DECODER}\.self_attn\.(q|k|v|o)_proj",
        "vision": rf"{_TOWER}\.self_attn\.(q_proj|k_proj|v_proj|out_proj)",
    },
    encodes_pictures_once=True,
    idle=_idle,
)
