"""SmolVLM (arXiv:2504.05299): a picture as tiles and as a whole, its tokens condensed by pixel shuffle."""

from __future__ import annotations

import math
from typing import Any

from medvl.batching.inputs import Companions
from medvl.models.families.family import Abilities, Family, decoder_layers, encoder_layers, parts_of

_LINEAR, _ATTENTION = decoder_layers(r"model\.text_model")
_TOWER_LINEAR, _TOWER_ATTENTION = encoder_layers(r"model\.vision_model\.encoder\.layers")


def _measure(processor: Any, height: int, width: int) -> dict[str, Any]:
    _, rows, columns = processor.image_processor.get_number_of_image_patches(height, width, {})
    return {"rows": [[rows]], "cols": [[columns]]}


def _limit_tiles(images: Any, most: int) -> None:
    """Tiles come from the length of the longer edge, so the most is a square of them."""
    images.do_image_splitting = most > 1
    images.size = {"longest_edge": images.max_image_size["longest_edge"] * max(1, math.isqrt(most))}


SMOLVLM = Family(
    model_type="smolvlm",
    title="SmolVLM",
    roots=parts_of(decoder=r"model\.text_model", vision=r"model\.vision_model\.", projector=r"model\.connector\."),
    linear={
        "language": _LINEAR,
        "vision": _TOWER_LINEAR,
        "projector": r"model\.connector\.modality_projection\.proj",
    },
    attention={"language": _ATTENTION, "vision": _TOWER_ATTENTION},
    companions=Companions(with_pictures=("pixel_attention_mask",)),
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
)
