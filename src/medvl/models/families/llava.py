"""LLaVA 1.5 (arXiv:2310.03744), NeXT and OneVision (arXiv:2408.03326): a CLIP or SigLIP tower, any decoder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from medvl.batching.inputs import Companions
from medvl.models.families.family import Abilities, Family, decoder_layers, encoder_layers, parts_of

_LINEAR, _ATTENTION = decoder_layers(r"model\.language_model")
_TOWER = r"model\.vision_tower(\.vision_model)?\.encoder\.layers"
_TOWER_LINEAR, _TOWER_ATTENTION = encoder_layers(_TOWER)


def _idle(config: Any) -> str:
    """Tower layers above the one whose output is taken (LLaVA 1.5 takes the last but one)."""
    depth, taken = config.vision_config.num_hidden_layers, config.vision_feature_layer
    highest = max(i if i >= 0 else depth + 1 + i for i in ([taken] if isinstance(taken, int) else taken))
    above = "|".join(map(str, range(highest, depth))) or "none"
    return rf"{_TOWER}\.({above})\."


def _edges(processor: Any) -> tuple[int, int]:
    """Height and width to which the image processor brings a tile."""
    size = processor.image_processor.size
    shortest = size.get("shortest_edge")
    return (shortest, shortest) if shortest is not None else (size["height"], size["width"])


def _measure(processor: Any, height: int, width: int) -> dict[str, Any]:
    images = processor.image_processor
    if getattr(images, "do_center_crop", False):
        edges = images.crop_size["height"], images.crop_size["width"]
    elif (shortest := images.size.get("shortest_edge")) is not None:  # the shorter edge is brought to it
        scale = shortest / min(height, width)
        edges = max(shortest, int(height * scale)), max(shortest, int(width * scale))
    else:
        edges = images.size["height"], images.size["width"]
    return {"pixel_values": [np.broadcast_to(np.float32(0), (3, *edges))]}


def _measure_tiles(processor: Any, height: int, width: int) -> dict[str, Any]:
    tile = np.broadcast_to(np.float32(0), (3, *_edges(processor)))
    return {"image_sizes": [[height, width]], "pixel_values": [[tile]], "batch_num_images": [1]}


LLAVA = Family(
    model_type="llava",
    title="LLaVA 1.5",
    roots=parts_of(vision=r"model\.vision_tower\.", projector=r"model\.(multi_modal_projector\.|image_newline$)"),
    linear={
        "language": _LINEAR,
        "vision": _TOWER_LINEAR,
        "projector": r"model\.multi_modal_projector\.linear_[12]",
    },
    attention={"language": _ATTENTION, "vision": _TOWER_ATTENTION},
    companions=Companions(),
    abilities=Abilities(
        text_only=True,
        mixed_rows=True,
        several_pictures=True,
        resolution="fixed",
        encodes_pictures_once=True,
        branched_rows=True,
    ),
    measure=_measure,
    idle=_idle,
)

LLAVA_NEXT = replace(
    LLAVA,
    model_type="llava_next",
    title="LLaVA-NeXT (1.6)",
    companions=Companions(with_pictures=("image_sizes",)),
    abilities=replace(LLAVA.abilities, resolution="tiles"),
    measure=_measure_tiles,
)

LLAVA_ONEVISION = replace(LLAVA_NEXT, model_type="llava_onevision", title="LLaVA-OneVision")
