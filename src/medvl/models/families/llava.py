"""LLaVA 1.5 (arXiv:2310.03744), NeXT and OneVision (arXiv:2408.03326): a CLIP or SigLIP tower, any decoder."""

from __future__ import annotations

from typing import Any

import numpy as np

from medvl.batching.inputs import Companions
from medvl.models.families.family import Abilities, Family, decoder_layers

_LINEAR, _ATTENTION = decoder_layers(r"model\.language_model")
_TOWER_LAYERS = r"model\.vision_tower(\.vision_model)?\.encoder\.layers"
_TOWER = rf"{_TOWER_LAYERS}\.\d+"
_ROOTS = {
    "language": r"(model\.language_model|lm_head)\.",
    "vision": r"model\.vision_tower\.",
    "projector": r"model\.(multi_modal_projector\.|image_newline$)",
}
_LINEAR_LAYERS = {
    "language": _LINEAR,
    "vision": rf"{_TOWER}\.(self_attn\.(q_proj|k_proj|v_proj|out_proj)|mlp\.fc[12])",
    "projector": r"model\.multi_modal_projector\.linear_[12]",
}
_ATTENTION_LAYERS = {
    "language": _ATTENTION,
    "vision": rf"{_TOWER}\.self_attn\.(q_proj|k_proj|v_proj|out_proj)",
}


def _idle(config: Any) -> str:
    """Tower layers above the one whose output is taken (LLaVA 1.5 takes the last but one)."""
    depth, taken = config.vision_config.num_hidden_layers, config.vision_feature_layer
    highest = max(i if i >= 0 else depth + 1 + i for i in ([taken] if isinstance(taken, int) else taken))
    above = "|".join(map(str, range(highest, depth))) or "none"
    return rf"{_TOWER_LAYERS}\.({above})\."


def _edges(processor: Any) -> tuple[int, int]:
    """Height and width to which the image processor brings a picture or a tile."""
    images = processor.image_processor
    size = images.crop_size if getattr(images, "do_center_crop", False) and images.crop_size else images.size
    shortest = size.get("shortest_edge")
    return (shortest, shortest) if shortest is not None else (size["height"], size["width"])


def _measure(processor: Any, height: int, width: int) -> dict[str, Any]:
    edges = _edges(processor)
    if not getattr(processor.image_processor, "do_center_crop", False) and not processor.image_processor.size.get(
        "height"
    ):
        scale = min(edges) / min(height, width)  # the shorter edge is brought to size, nothing is cropped
        edges = (max(edges[0], int(height * scale)), max(edges[1], int(width * scale)))
    return {"pixel_values": [np.broadcast_to(np.float32(0), (3, *edges))]}


def _measure_tiles(processor: Any, height: int, width: int) -> dict[str, Any]:
    tile = np.broadcast_to(np.float32(0), (3, *_edges(processor)))
    return {"image_sizes": [[height, width]], "pixel_values": [[tile]], "batch_num_images": [1]}


LLAVA = Family(
    model_type="llava",
    title="LLaVA 1.5",
    roots=_ROOTS,
    linear=_LINEAR_LAYERS,
    attention=_ATTENTION_LAYERS,
    companions=Companions(),
    abilities=Abilities(
        text_only=True, mixed_rows=True, several_pictures=True, resolution="fixed", encodes_pictures_once=True
    ),
    measure=_measure,
    idle=_idle,
)

LLAVA_NEXT = Family(
    model_type="llava_next",
    title="LLaVA-NeXT (1.6)",
    roots=_ROOTS,
    linear=_LINEAR_LAYERS,
    attention=_ATTENTION_LAYERS,
    companions=Companions(with_pictures=("image_sizes",)),
    abilities=Abilities(text_only=True, mixed_rows=True, several_pictures=True, resolution="tiles"),
    measure=_measure_tiles,
    idle=_idle,
)

LLAVA_ONEVISION = Family(
    model_type="llava_onevision",
    title="LLaVA-OneVision",
    roots=_ROOTS,
    linear=_LINEAR_LAYERS,
    attention=_ATTENTION_LAYERS,
    companions=Companions(with_pictures=("image_sizes",)),
    abilities=Abilities(text_only=True, mixed_rows=True, several_pictures=True, resolution="tiles"),
    measure=_measure_tiles,
    idle=_idle,
)
