"""Llama 3.2 Vision: pictures enter the decoder through cross-attention layers."""

from medvl.models.families.family import Family

_DECODER = r"model\.language_model\.layers\.\d+"
_TOWER = r"model\.vision_model\.(transformer|global_transformer)\.layers\.\d+"

MLLAMA = Family(
    model_type="mllama",
    linear={
        "language": rf"{_DECODER}\.((self_attn|cross_attn)\.(q|k|v|o)_proj|mlp\.(gate|up|down)_proj)",
        "vision": rf"{_TOWER}\.(self_attn\.(q|k|v|o)_proj|mlp\.fc[12])",
        "projector": r"model\.multi_modal_projector",
    },
    attention={
        "language": rf"{_DECODER}\.(self_attn|cross_attn)\.(q|k|v|o)_proj",
        "vision": rf"{_TOWER}\.self_attn\.(q|k|v|o)_proj",
    },
)
