import re

import pytest
import torch
from torch import nn
from trained_adapter import logits

from medvl.config.schema import LoraConfig
from medvl.errors import ModelError
from medvl.models.adapter import attach_adapter
from medvl.models.parts import part_of, part_sizes, whole_modules


def test_a_parameter_belongs_to_the_part_it_lies_in(family_base):
    family = family_base.family
    assert part_of("model.language_model.layers.0.mlp.up_proj.weight", family) == "language"
    assert part_of("lm_head.weight", family) == "language"
    assert part_of("base_model.model.model.language_model.layers.0.mlp.up_proj.lora_A.default.weight", family) == (
        "language"
    )


def test_a_name_from_another_model_belongs_nowhere(family_base):
    with pytest.raises(ModelError, match=r"transformer\.h\.0 belongs to no part of"):
        part_of("transformer.h.0", family_base.family)


def test_sizes_add_up_and_leave_adapters_out(fresh_base):
    before = part_sizes(fresh_base.model, fresh_base.family)
    assert sum(before.values()) == sum(p.numel() for p in fresh_base.model.parameters())
    model = attach_adapter(fresh_base, LoraConfig(r=4), 0)
    assert part_sizes(model, fresh_base.family) == before


def test_a_part_is_covered_by_modules_none_of_which_lies_in_another(family_base):
    for part in family_base.family.roots:
        names = whole_modules(family_base.model, family_base.family, [part])
        assert not [a for a in names for b in names if a != b and a.startswith(b + ".")]
        assert not any(isinstance(family_base.model.get_submodule(name), nn.ModuleList) for name in names)


def test_layers_are_taken_one_by_one(family_base):
    names = whole_modules(family_base.model, family_base.family, ["language"])
    layers = [name for name in names if re.fullmatch(r"model\.language_model\.layers\.\d+", name)]
    assert len(layers) == family_base.model.config.text_config.num_hidden_layers


def test_tied_ends_stay_as_they_are(tiny_base):
    assert tiny_base.model.get_input_embeddings().weight is tiny_base.model.get_output_embeddings().weight
    names = whole_modules(tiny_base.model, tiny_base.family, ["language"])
    assert "lm_head" not in names
    assert not any("embed_tokens" in name for name in names)


def test_a_part_that_is_trained_in_full_changes_answers_and_can_be_switched_off(fresh_base):
    before = logits(fresh_base.model, fresh_base)
    model = attach_adapter(fresh_base, LoraConfig(r=4, parts=["language"]), 0, ["projector"]).eval()
    trained = {name for name, p in model.named_parameters() if p.requires_grad and "lora_" not in name}
    assert trained
    assert {part_of(name, fresh_base.family) for name in trained} == {"projector"}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in trained:
                parameter.mul_(2.0)
    assert (logits(model, fresh_base) - before).abs().max() > 1e-4
    with model.disable_adapter():
        assert torch.equal(logits(model, fresh_base), before)


def test_without_lora_a_part_can_be_trained_in_full(fresh_base):
    model = attach_adapter(fresh_base, LoraConfig(parts=[]), 0, ["projector"])
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    assert trained
    assert all("modules_to_save" in name for name in trained)
