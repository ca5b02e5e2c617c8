"""Llama 3.2 Vision: pictures enter the decoder through cross-attention layers, a row holds one token for each."""

from __future__ import annotations

from typing import Any

from medvl.batching.inputs import Companions
from medvl.models.families.family import Abilities, Family, decoder_layers, parts_of

_LINEAR, _ATTENTION = decoder_layers(r"model\.language_model", attention="(self_attn|cross_attn)")
_TOWER = r"model\.vision_model\.(transformer|global_transformer)\.layers\.\d+"


def _cross_tokens(processor: Any, config: Any, height: int, width: int) -> int:
    """States of one picture: patches and the class token of every tile that it is cut into."""
    from transformers.models.mllama.image_processing_mllama import get_optimal_tiled_canvas

    images = processor.image_processor
    tile = images.size["height"]
    canvas_height, canvas_width = get_optimal_tiled_canvas(height, width, images.max_image_tiles, tile)
    tiles = (canvas_height // tile) * (canvas_width // tile)
    return int(tiles * ((tile // config.vision_config.patch_size) ** 2 + 1))


def _limit_tiles(images: Any, most: int) -> None:
    images.max_image_tiles = most


MLLAMA = Family(
    model_type="mllama",
    title="Llama 3.2 Vision",
    roots=parts_of(vision=r"model\.vision_model\.", projector=r"model\.multi_modal_projector(\.|$)"),
    linear={
        "language": _LINEAR,
        "vision": rf"{_TOWER}\.(self_attn\.(q|k|v|o)_proj|mlp\.fc[12])",
        "projector": r"model\.multi_modal_projector",
    },
    attention={"language": _ATTENTION, "vision": rf"{_TOWER}\.self_attn\.(q|k|v|o)_proj"},
    companions=Companions(with_pictures=("aspect_ratio_ids", "aspect_ratio_mask", "cross_attention_mask")),
    abilities=Abilities(
        text_only=True,
        mixed_rows=False,
        several_pictures=True,
        resolution="tiles",
        encodes_pictures_once=True,
        branched_rows=True,
    ),
    measure=None,
    limit_tiles=_limit_tiles,
    cross_tokens=_cross_tokens,
)
