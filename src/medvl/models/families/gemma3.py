"""Gemma 3 (arXiv:2503.19786) and MedGemma: a SigLIP tower at one size, 256 tokens a picture that see each other."""

from __future__ import annotations

from typing import Any

from medvl.batching.inputs import Companions
from medvl.models.families.family import Abilities, Family, decoder_layers, encoder_layers, parts_of

_LINEAR, _ATTENTION = decoder_layers(r"model\.language_model")
_TOWER_LINEAR, _TOWER_ATTENTION = encoder_layers(r"model\.vision_tower(\.vision_model)?\.encoder\.layers")


def _measure(processor: Any, height: int, width: int) -> dict[str, Any]:
    """Without crops: pan-and-scan is off by default, and medvl leaves it off."""
    return {"num_crops": [0]}


def _blocks(inputs: dict[str, Any]) -> Any:
    from transformers.models.gemma3.modeling_gemma3 import get_block_sequence_ids_for_mask

    return get_block_sequence_ids_for_mask(inputs["token_type_ids"])


# The projector is one bare matrix, no linear layer: an adapter cannot be put on it, full training can (train_parts).
GEMMA3 = Family(
    model_type="gemma3",
    title="Gemma 3",
    roots=parts_of(vision=r"model\.vision_tower\.", projector=r"model\.multi_modal_projector\."),
    linear={"language": _LINEAR, "vision": _TOWER_LINEAR},
    attention={"language": _ATTENTION, "vision": _TOWER_ATTENTION},
    companions=Companions(always=("token_type_ids",)),
    abilities=Abilities(
        text_only=True,
        mixed_rows=True,
        several_pictures=True,
        resolution="fixed",
        encodes_pictures_once=True,
        branched_rows=True,
    ),
    measure=_measure,
    blocks=_blocks,
)
