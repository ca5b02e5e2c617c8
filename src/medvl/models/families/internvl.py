"""InternVL 3 in the layout of transformers (arXiv:2504.10479): a picture is cut into tiles, 256 tokens each."""

from __future__ import annotations

from typing import Any

from medvl.batching.inputs import Companions
from medvl.models.families.family import Abilities, Family, decoder_layers, parts_of

_LINEAR, _ATTENTION = decoder_layers(r"model\.language_model")
_TOWER = r"model\.vision_tower\.encoder\.layer\.\d+"


def _measure(processor: Any, height: int, width: int) -> dict[str, Any]:
    settings = processor._merge_kwargs()["images_kwargs"]  # crop_to_patches is a default of the processor's call
    return {"num_patches": [processor.image_processor.get_number_of_image_patches(height, width, settings)]}


def _limit_tiles(images: Any, most: int) -> None:
    images.max_patches, images.min_patches = most, min(images.min_patches, most)


def _pixel_rows(config: Any, inputs: dict[str, Any]) -> list[int]:
    """Tiles, told by the tokens that stand for them: each has as many."""
    tokens = (inputs["input_ids"] == config.image_token_id).sum(dim=1)
    return [int(tiles) for tiles in (tokens * len(inputs["pixel_values"]) // tokens.sum()).tolist()]


INTERNVL = Family(
    model_type="internvl",
    title="InternVL 3",
    roots=parts_of(vision=r"model\.vision_tower\.", projector=r"model\.multi_modal_projector\."),
    linear={
        "language": _LINEAR,
        "vision": rf"{_TOWER}\.(attention\.(q_proj|k_proj|v_proj|projection_layer)|mlp\.fc[12])",
        "projector": r"model\.multi_modal_projector\.linear_[12]",
    },
    attention={
        "language": _ATTENTION,
        "vision": rf"{_TOWER}\.attention\.(q_proj|k_proj|v_proj|projection_layer)",
    },
    companions=Companions(),
    abilities=Abilities(
        text_only=True,
        mixed_rows=True,
        several_pictures=True,
        resolution="tiles",
        encodes_pictures_once=True,
        branched_rows=True,
    ),
    measure=_measure,
    limit_tiles=_limit_tiles,
    pixel_rows=_pixel_rows,
)
