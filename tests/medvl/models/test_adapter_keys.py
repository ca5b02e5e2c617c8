import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvl.errors import ModelError
from medvl.models.adapter_keys import KEY_MAPS, layer_of, likely_reason, new_name, renamed_keys, renamed_patterns
from medvl.models.families import FAMILIES

LLAVA_LIKE = ("gemma3", "llava", "llava_next", "llava_onevision", "internvl", "mllama")
QWEN_2 = ("qwen2_vl", "qwen2_5_vl")
LORA = ".lora_A.weight"
OLD_AND_NEW = [
    *(
        (kind, f"language_model.model.layers.3.{layer}", f"model.language_model.layers.3.{layer}")
        for kind in LLAVA_LIKE
        for layer in ("self_attn.q_proj", "mlp.down_proj")
    ),
    *((kind, "language_model.lm_head", "lm_head") for kind in LLAVA_LIKE),
    *((kind, "language_model.model.embed_tokens", "model.language_model.embed_tokens") for kind in LLAVA_LIKE),
    *(
        (
            kind,
            f"{before}vision_tower.vision_model.encoder.layers.1.mlp.fc1",
            "model.vision_tower.encoder.layers.1.mlp.fc1",
        )
        for kind in ("gemma3", "llava", "llava_next", "llava_onevision")
        for before in ("", "model.")
    ),
    *(
        (kind, "multi_modal_projector.linear_1", "model.multi_modal_projector.linear_1")
        for kind in ("llava", "internvl")
    ),
    (
        "internvl",
        "vision_tower.encoder.layer.0.attention.q_proj",
        "model.vision_tower.encoder.layer.0.attention.q_proj",
    ),
    ("mllama", "language_model.model.layers.3.cross_attn.k_proj", "model.language_model.layers.3.cross_attn.k_proj"),
    (
        "mllama",
        "vision_model.global_transformer.layers.0.mlp.fc2",
        "model.vision_model.global_transformer.layers.0.mlp.fc2",
    ),
    ("mllama", "multi_modal_projector", "model.multi_modal_projector"),
    *(
        (kind, old, new)
        for kind in QWEN_2
        for old, new in (
            ("model.layers.27.self_attn.o_proj", "model.language_model.layers.27.self_attn.o_proj"),
            ("model.embed_tokens", "model.language_model.embed_tokens"),
            ("visual.blocks.4.attn.qkv", "model.visual.blocks.4.attn.qkv"),
            ("visual.merger.mlp.0", "model.visual.merger.mlp.0"),
        )
    ),
]


@pytest.mark.parametrize(("kind", "old", "new"), OLD_AND_NEW)
def test_an_old_name_becomes_todays_with_and_without_the_prefix(kind, old, new):
    assert new_name(old, kind) == new
    assert new_name(f"base_model.model.{old}{LORA}", kind) == f"base_model.model.{new}{LORA}"


@pytest.mark.parametrize(("kind", "old", "new"), OLD_AND_NEW)
def test_todays_names_stay(kind, old, new):
    assert new_name(new, kind) == new
    assert new_name(f"base_model.model.{new}{LORA}", kind) == f"base_model.model.{new}{LORA}"


def test_every_family_has_a_table():
    assert set(KEY_MAPS) == set(FAMILIES)


@given(st.sampled_from(OLD_AND_NEW), st.from_regex(r"(\.[a-zA-Z_0-9]+){1,4}", fullmatch=True))
def test_renaming_twice_is_renaming_once(names, end):
    kind, old, new = names
    once = new_name(old + end, kind)
    assert once == new + end
    assert new_name(once, kind) == once


def test_a_word_that_only_begins_like_a_part_stays():
    assert new_name("visual_extra.x", "qwen2_vl") == "visual_extra.x"
    assert new_name("language_model.modeling.x", "llava") == "language_model.modeling.x"


def test_both_names_of_one_layer_in_a_file_are_refused():
    old, new = (
        f"base_model.model.{name}.layers.0.mlp{LORA}" for name in ("language_model.model", "model.language_model")
    )
    assert renamed_keys([old], "llava") == {old: new}
    with pytest.raises(ModelError, match="two adapters"):
        renamed_keys([old, new], "llava")


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        (f"base_model.model.model.visual.merger.mlp.0{LORA}", "model.visual.merger.mlp.0"),
        ("base_model.model.x.lora_magnitude_vector", "x"),
        ("base_model.model.lm_head.weight", "lm_head"),
        ("base_model.model.model.connector.norm.bias", "model.connector.norm"),
    ],
)
def test_the_layer_of_a_weight(name, layer):
    assert layer_of(name) == layer


def test_scale_patterns_are_renamed_too_and_ends_of_names_stay():
    layers = ["model.language_model.layers.0.self_attn.q_proj", "lm_head"]
    patterns = {"q_proj": 8, "language_model.model.layers.0.self_attn.q_proj": 4, "language_model.lm_head": 2}
    assert renamed_patterns(patterns, layers, "llava", "alpha_pattern") == {"q_proj": 8, layers[0]: 4, "lm_head": 2}
    assert renamed_patterns({}, [], "llava", "alpha_pattern") == {}


def test_a_scale_pattern_that_no_layer_matches_any_more_is_refused():
    layers = ["model.language_model.layers.0.self_attn.q_proj"]
    with pytest.raises(ModelError, match=r"alpha_pattern of its adapter_config\.json names \^language_model"):
        renamed_patterns({r"^language_model\.model\.layers.*": 4}, layers, "llava", "alpha_pattern")


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("llava", f"base_model.model.model.layers.0.self_attn.q_proj{LORA}", "LLaVA's authors' own code"),
        ("qwen2_vl", "base_model.model.lm_head.weight", "its own lm_head"),
        ("mllama", f"base_model.model.model.layers.0.self_attn.q_proj{LORA}", "another base or architecture"),
    ],
)
def test_what_may_be_the_reason_is_said(kind, name, said):
    assert said in likely_reason([name], kind)
