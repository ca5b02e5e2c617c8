import pytest
import torch
from full_size import FULL_SIZE

from medvl.config.schema import LoraConfig
from medvl.errors import ModelError
from medvl.models.adapter import attach_adapter, parameter_counts
from medvl.models.locate import family_of
from medvl.models.page import COUNTED
from medvl.models.plan import plan_training
from medvl.models.quantization import empty_model

ALL = ["language", "vision", "projector"]

PUBLISHED = {
    "Llama-3.2-11B-Vision": (10_670_220_835, 52_428_800),
    "Qwen2.5-VL-3B": (3_754_622_976, 29_933_568),
    "Qwen2.5-VL-7B": (8_292_166_656, 40_370_176),
    "Qwen2.5-VL-32B": (33_452_718_336, 134_217_728),
    "Qwen2.5-VL-72B": (73_410_777_344, 210_534_400),
    "Qwen2-VL-2B": (2_208_985_600, 18_464_768),
    "Qwen2-VL-7B": (8_291_375_616, 40_370_176),
    "Gemma3-4B": (4_300_079_472, 29_802_496),
    "Gemma3-27B": (27_432_406_640, 113_516_544),
    "Qwen3-VL-8B": (8_767_123_696, 43_646_976),
    "HuatuoGPT-Vision-7B": (7_935_646_208, 40_370_176),
}
"""Model -> (parameters, those of a rank-16 adapter on the language part)."""


@pytest.mark.parametrize(
    "recipe", [LoraConfig(r=4, parts=ALL), LoraConfig(r=3, dora=True), LoraConfig(layers="attention")]
)
def test_the_plan_counts_what_the_adapter_has(fresh_base, recipe):
    plan = plan_training(fresh_base.model, fresh_base.family, recipe)
    size = sum(p.numel() for p in fresh_base.model.parameters())
    counts = parameter_counts(attach_adapter(fresh_base, recipe, 0), fresh_base)
    assert plan.adapter == {part: counts[part] for part in recipe.parts}
    assert plan.trained == counts["trainable"]
    assert plan.total == size
    assert plan.full == {}


def test_parts_that_are_trained_in_full_are_counted_beside_the_adapter(fresh_base):
    recipe = LoraConfig(r=4, parts=["language"])
    plan = plan_training(fresh_base.model, fresh_base.family, recipe, ["vision"])
    counts = parameter_counts(attach_adapter(fresh_base, recipe, 0, ["vision"]), fresh_base)
    assert plan.adapter == {"language": counts["language"]}
    assert plan.full == {"vision": counts["vision"]}
    assert plan.trained == counts["trainable"]


def test_a_model_without_weights_gives_the_same_plan(family_base, family_folder):
    empty = empty_model(family_folder)
    assert {p.device for p in empty.parameters()} == {torch.device("meta")}
    recipe = LoraConfig(parts=ALL)
    assert plan_training(empty, family_base.family, recipe) == plan_training(
        family_base.model, family_base.family, recipe
    )


def test_a_recipe_that_does_not_fit_is_refused(family_base):
    with pytest.raises(ModelError, match="no attention layers in projector"):
        plan_training(family_base.model, family_base.family, LoraConfig(parts=["projector"], layers="attention"))


@pytest.mark.parametrize("name", FULL_SIZE)
def test_full_size_models_have_the_known_counts_and_nothing_outside_the_language_part(name, tmp_path):
    FULL_SIZE[name]().save_pretrained(tmp_path)
    model, family = empty_model(tmp_path), family_of(tmp_path)
    plan = plan_training(model, family, LoraConfig(r=16))
    assert (plan.total, plan.trained) == PUBLISHED[name]
    prefix = "model.language_model.layers."
    assert list(plan.layers) == ["language"]
    assert [layer for layer in plan.layers["language"] if not layer.startswith(prefix)] == []
    (row,) = (row for row in COUNTED if row.name == name)
    assert (row.family, row.total, row.language) == (family.model_type, plan.total, plan.trained)
    linear = sum(model.get_submodule(layer).weight.numel() for layer in plan.layers["language"])
    assert row.linear == linear

    def size(**recipe):
        return plan_training(model, family, LoraConfig(r=16, **recipe)).trained

    assert row.attention == size(layers="attention")
    assert row.with_vision == size(parts=["language", "vision"])
    if "projector" in family.linear:
        assert row.everything == size(parts=ALL)
    else:
        assert row.everything is None
