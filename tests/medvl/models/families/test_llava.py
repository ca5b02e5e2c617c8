"""LLaVA's patterns match real layer names, whole and in one part only."""

import re
from types import SimpleNamespace

import pytest

from medvl.models.families.llava import LLAVA

NAMES = {
    "language": ["model.language_model.layers.11.self_attn.q_proj", "model.language_model.layers.0.mlp.down_proj"],
    "vision": [
        "model.vision_tower.encoder.layers.3.self_attn.out_proj",
        "model.vision_tower.vision_model.encoder.layers.22.mlp.fc1",
    ],
    "projector": ["model.multi_modal_projector.linear_1", "model.multi_modal_projector.linear_2"],
}
OUTSIDE = [
    "lm_head",
    "model.language_model.embed_tokens",
    "model.vision_tower.post_layernorm",
    "model.language_model.layers.1.mlp",
]


@pytest.mark.parametrize("part", NAMES)
def test_each_part_matches_its_own_layers(part):
    for owner, names in NAMES.items():
        for name in names:
            assert bool(re.fullmatch(LLAVA.linear[part], name)) == (owner == part), name
    assert not any(re.fullmatch(LLAVA.linear[part], name) for name in OUTSIDE)


@pytest.mark.parametrize("part", LLAVA.attention)
def test_attention_is_a_part_of_the_linear_layers(part):
    attention = [name for name in NAMES[part] if re.fullmatch(LLAVA.attention[part], name)]
    assert attention == [name for name in NAMES[part] if "self_attn" in name]


@pytest.mark.parametrize(
    ("taken", "idle_layers"), [(-1, []), (-2, [23]), (-3, [22, 23]), (24, []), ([-2, -5], [23]), (0, list(range(24)))]
)
def test_tower_layers_above_the_one_that_is_taken_are_idle(taken, idle_layers):
    config = SimpleNamespace(vision_config=SimpleNamespace(num_hidden_layers=24), vision_feature_layer=taken)
    pattern = LLAVA.idle(config)
    idle = [i for i in range(24) if re.match(pattern, f"model.vision_tower.encoder.layers.{i}.mlp.fc1")]
    assert idle == idle_layers
