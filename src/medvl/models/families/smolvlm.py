"""SmolVLM (arXiv:2504.05299): a picture as tiles and as a whole, its tokens condensed by pixel shuffle."""

from __future__ import annotations

from typing import Any

from medvl.batching.inputs import Companions
from medvl.models.families.family import Abilities, Family, decoder_layers

_LINEAR, _ATTENTION = decoder_layers(r"model\.text_model")
_TOWER = r"model\.vision_model\.encoder\.layers\.\d+"


def _measure(processor: Any, height: int, width: int) -> dict[str, Any]:
    _, rows, columns = processor.image_processor.get_number_of_image_patches(height, width, {})
    return {"rows": [[rows]], "cols": [[columns]]}


SMOLVLM = Family(
    model_type="smolvlm",
    title="SmolVLM",
    roots={
        "language": r"(model\.text_model|lm_head)\.",
        "vision": r"model\.vision_model\.",
        "projector": r"model\.connector\.",
    },
    linear={
        "language": _LINEAR,
        "vision": rf"{_TOWER}\.(self_attn\.(q_proj|k_proj|v_proj|out_proj)|mlp\.fc[12])",
        "projector": r"model\.connector\.modality_projection\.proj",
    },
    attention={
        "language": _ATTENTION,
        "vision": rf"{_TOWER}\.self_attn\.(q_proj|k_proj|v_proj|out_proj)",
    },
    companions=Companions(with_pictures=("pixel_attention_mask",)),
    abilities=Abilities(text_only=True, mixed_rows=True, several_pictures=True, resolution="tiles"),
    measure=_measure,
)
