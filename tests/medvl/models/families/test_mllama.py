"""Llama 3.2 Vision's patterns reach the cross-attention, and both stacks of the tower."""

import re

import pytest

from medvl.models.families.mllama import MLLAMA

NAMES = {
    "language": [
        "model.language_model.layers.3.cross_attn.k_proj",
        "model.language_model.layers.4.self_attn.v_proj",
        "model.language_model.layers.4.mlp.gate_proj",
    ],
    "vision": [
        "model.vision_model.transformer.layers.31.self_attn.q_proj",
        "model.vision_model.global_transformer.layers.7.mlp.fc2",
    ],
    "projector": ["model.multi_modal_projector"],
}


@pytest.mark.parametrize("part", NAMES)
def test_each_part_matches_its_own_layers(part):
    for owner, names in NAMES.items():
        for name in names:
            assert bool(re.fullmatch(MLLAMA.linear[part], name)) == (owner == part), name


def test_attention_only_keeps_the_cross_attention():
    matched = [name for name in NAMES["language"] if re.fullmatch(MLLAMA.attention["language"], name)]
    assert matched == NAMES["language"][:2]
