"""LLaVA 1.5 (arXiv:2310.03744): a CLIP or SigLIP tower, a two-layer projector, any decoder."""

from medvl.models.families.family import Family

_DECODER = r"model\.language_model\.layers\.\d+"
_TOWER = r"model\.vision_tower(\.vision_model)?\.encoder\.layers\.\d+"

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
)
