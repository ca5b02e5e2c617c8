"""Qwen2-VL (arXiv:2409.12191), Qwen2.5-VL (arXiv:2502.13923), Qwen3-VL: pictures of any size, three-axis positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from medvl.batching.inputs import Companions
from medvl.models.families.family import Abilities, Family, decoder_layers, parts_of

_LINEAR, _ATTENTION = decoder_layers(r"model\.language_model")
_BLOCK = r"model\.visual\.blocks\.\d+"
_MERGERS = r"model\.visual\.(merger|deepstack_merger_list)"
_ROOTS = parts_of(vision=r"model\.visual\.(?!(merger|deepstack_merger_list)\.)", projector=rf"{_MERGERS}\.")
_COMPANIONS = Companions(always=("mm_token_type_ids",), with_pictures=("image_grid_thw",))
_ABILITIES = Abilities(
    text_only=True,
    mixed_rows=True,
    several_pictures=True,
    resolution="free",
    encodes_pictures_once=True,
    branched_rows=True,
)


def _measure(processor: Any, height: int, width: int) -> dict[str, Any]:
    return {"image_grid_thw": [np.array(processor.image_processor.get_number_of_image_patches(height, width, {}))]}


def _pixel_rows(config: Any, inputs: dict[str, Any]) -> list[int]:
    return [int(patches) for patches in inputs["image_grid_thw"].prod(dim=-1).tolist()]


def _positions(model: Any, inputs: dict[str, Any]) -> Any:
    names = ("input_ids", "mm_token_type_ids", "image_grid_thw", "attention_mask")
    return model.model.get_rope_index(**{name: inputs[name] for name in names})[0]


def _quicken(model: Any) -> None:
    from medvl.models.vision_tower import quicken_tower

    quicken_tower(model)


def _family(model_type: str, title: str, mlp: str, projector: str) -> Family:
    attention = rf"{_BLOCK}\.attn\.(qkv|proj)"
    return Family(
        model_type=model_type,
        title=title,
        roots=_ROOTS,
        linear={
            "language": _LINEAR,
            "vision": rf"({attention}|{_BLOCK}\.mlp\.({mlp}))",
            "projector": projector,
        },
        attention={"language": _ATTENTION, "vision": attention},
        companions=_COMPANIONS,
        abilities=_ABILITIES,
        measure=_measure,
        pixel_rows=_pixel_rows,
        positions=_positions,
        quicken=_quicken,
    )


QWEN2_VL = _family("qwen2_vl", "Qwen2-VL", r"fc[12]", r"model\.visual\.merger\.mlp\.[02]")
QWEN25_VL = _family("qwen2_5_vl", "Qwen2.5-VL", r"(gate|up|down)_proj", r"model\.visual\.merger\.mlp\.[02]")
QWEN3_VL = _family(
    "qwen3_vl", "Qwen3-VL", r"linear_fc[12]", r"model\.visual\.(merger|deepstack_merger_list\.\d+)\.linear_fc[12]"
)
