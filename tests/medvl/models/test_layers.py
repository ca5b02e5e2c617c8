import pytest

from medvl.config.schema import LoraConfig
from medvl.models.adapter import attach_adapter
from medvl.models.layers import transformer_layers


def test_each_part_has_its_layers_and_no_other(family_base):
    config = family_base.model.config
    language = transformer_layers(family_base.model, family_base.family, "language")
    vision = transformer_layers(family_base.model, family_base.family, "vision")
    assert len(language) == config.text_config.num_hidden_layers
    assert len(vision) == config.vision_config.num_hidden_layers + getattr(config.vision_config, "num_global_layers", 0)
    assert all(name.startswith("model.language_model.layers.") for name in language)
    assert all(name.startswith("model.vision_") for name in vision)
    assert all("Layer" in type(layer).__name__ for layer in [*language.values(), *vision.values()])


@pytest.mark.parametrize("part", ["language", "vision"])
def test_an_adapter_changes_none_of_it(fresh_base, part):
    before = transformer_layers(fresh_base.model, fresh_base.family, part)
    attach_adapter(fresh_base, LoraConfig(parts=["language", "vision"]), 0)
    assert transformer_layers(fresh_base.model, fresh_base.family, part) == before


def test_of_layers_that_are_trained_in_full_the_trained_copies_are_found(fresh_base):
    before = transformer_layers(fresh_base.model, fresh_base.family, "vision")
    attach_adapter(fresh_base, LoraConfig(), 0, ["vision"])
    after = transformer_layers(fresh_base.model, fresh_base.family, "vision")
    assert len(after) == len(before)
    assert not {id(layer) for layer in after.values()} & {id(layer) for layer in before.values()}
    assert all(p.requires_grad for layer in after.values() for p in layer.parameters())
