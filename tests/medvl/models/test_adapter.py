import dataclasses
import json
import re
import shutil
import warnings

import pytest
import torch
from mini_batches import make_samples
from torch.nn import functional as F
from trained_adapter import ALL, LORA, again, logits, train

from medvl.batching.collator import IGNORED, Collator
from medvl.config.schema import LoraConfig
from medvl.errors import ModelError
from medvl.models.adapter import (
    adapter_weights_fingerprint,
    attach_adapter,
    b_norms,
    matched_layers,
    parameter_counts,
    without_adapter,
)
from medvl.models.answer_head import logits_at

PLACE = {
    "language": "model.language_model.layers.",
    "vision": "model.vision_",
    "projector": "model.multi_modal_projector",
}


@pytest.mark.parametrize("part", ALL)
def test_a_part_gets_its_linear_layers_and_nothing_outside_of_it(family_base, part):
    names = matched_layers(family_base.model, family_base.family, LoraConfig(parts=[part]))[part]
    linear = {n for n, m in family_base.model.named_modules() if isinstance(m, torch.nn.Linear)}
    inside = {name for name in linear if name.startswith(PLACE[part])}
    assert set(names) == inside
    assert names


def test_the_language_part_of_mllama_reaches_the_cross_attention(family_base):
    names = matched_layers(family_base.model, family_base.family, LoraConfig(parts=["language"]))["language"]
    crossing = [name for name in names if "cross_attn" in name]
    assert len(crossing) == (4 if family_base.family.model_type == "mllama" else 0)


@pytest.mark.parametrize("part", ["language", "vision"])
def test_attention_only_leaves_the_feed_forward_layers_out(family_base, part):
    names = matched_layers(family_base.model, family_base.family, LoraConfig(parts=[part], layers="attention"))[part]
    assert names
    assert all("attn" in name and "mlp" not in name for name in names)


def test_attention_of_a_projector_is_refused(family_base):
    with pytest.raises(ModelError, match="has no attention layers in projector; it has them in language, vision"):
        matched_layers(
            family_base.model, family_base.family, LoraConfig(parts=["language", "projector"], layers="attention")
        )


def test_a_pattern_that_matches_nothing_is_refused(family_base):
    family = dataclasses.replace(
        family_base.family, linear={**family_base.family.linear, "vision": r"model\.gone\.\d+"}
    )
    base = dataclasses.replace(family_base, family=family)
    with pytest.raises(ModelError, match=r"no layer of this .* matches the pattern of vision"):
        attach_adapter(base, LoraConfig(parts=["language", "vision"]), 0)


def test_a_pattern_that_names_a_container_is_refused(family_base):
    family = dataclasses.replace(family_base.family, linear={"language": r"model\.language_model\.layers\.\d+"})
    with pytest.raises(ModelError, match=r"model\.language_model\.layers\.0 is a .*, expected a linear layer"):
        matched_layers(family_base.model, family, LoraConfig(parts=["language"]))


@pytest.mark.parametrize("parts", [["language"], ["vision"], ["projector"], ALL])
def test_adapters_sit_on_the_matched_layers_only_and_are_counted_by_part(fresh_base, parts):
    wanted = matched_layers(fresh_base.model, fresh_base.family, LoraConfig(parts=parts))
    model = attach_adapter(fresh_base, LoraConfig(r=4, parts=parts), 0)
    trainable = {name for name, p in model.named_parameters() if p.requires_grad}
    bare = {re.sub(r"^base_model\.model\.|\.lora_[AB]\.default\.weight$", "", name) for name in trainable}
    assert bare == {name for names in wanted.values() for name in names}
    counts = parameter_counts(model, fresh_base)
    assert set(counts) == {*parts, "trainable", "total"}
    assert counts["trainable"] == sum(counts[part] for part in parts)
    assert counts["total"] == sum(p.numel() for p in model.parameters())


def test_a_fresh_adapter_changes_nothing(fresh_base):
    before = logits(fresh_base.model, fresh_base)
    model = attach_adapter(fresh_base, LORA, 0).eval()
    assert torch.equal(logits(model, fresh_base), before)


def test_the_seed_decides_the_first_weights(family_folder):
    prints = [adapter_weights_fingerprint(attach_adapter(again(family_folder), LORA, seed)) for seed in (0, 0, 1)]
    assert prints[0] == prints[1] != prints[2]


@pytest.mark.parametrize("checkpointing", [False, True])
def test_two_steps_move_every_b_matrix(fresh_base, checkpointing):
    model = attach_adapter(fresh_base, LORA, 0)
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    assert all(n["zero"] == n["matrices"] for n in b_norms(model, fresh_base).values())
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        train(model, fresh_base)
    norms = b_norms(model, fresh_base)
    assert set(norms) == set(ALL)
    assert all(n["zero"] == 0 and 0 < n["smallest"] <= n["largest"] for n in norms.values())
    wanted = matched_layers_count(model)
    assert sum(n["matrices"] for n in norms.values()) == wanted


def matched_layers_count(model) -> int:
    return sum("lora_B" in name for name, _ in model.named_parameters())


def test_without_the_adapter_the_model_answers_as_its_base(fresh_base):
    before = logits(fresh_base.model, fresh_base)
    with without_adapter(fresh_base.model):
        assert torch.equal(logits(fresh_base.model, fresh_base), before)
    model = train(attach_adapter(fresh_base, LORA, 0), fresh_base)
    assert (logits(model, fresh_base) - before).abs().max() > 1e-3
    with without_adapter(model):
        assert torch.equal(logits(model, fresh_base), before)


def test_a_tower_layer_whose_output_is_not_taken_gets_no_adapter(tiny_folder, tmp_path):
    folder = shutil.copytree(tiny_folder, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "vision_feature_layer": -2}))
    base = again(folder)
    names = matched_layers(base.model, base.family, LORA)["vision"]
    assert names
    assert all(".layers.0." in name for name in names)
    norms = b_norms(train(attach_adapter(base, LORA, 0), base), base)
    assert all(n["zero"] == 0 for n in norms.values())


def test_the_published_size_of_llama_32_has_the_published_number_of_adapter_parameters():
    from transformers import MllamaConfig, MllamaForConditionalGeneration

    from medvl.models.base import Base
    from medvl.models.families import FAMILIES

    config = MllamaConfig(
        text_config={
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 40,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "vocab_size": 128256,
            "cross_attention_layers": list(range(3, 39, 5)),
        },
        vision_config={
            "hidden_size": 1280,
            "intermediate_size": 5120,
            "num_hidden_layers": 32,
            "num_global_layers": 8,
            "attention_heads": 16,
            "image_size": 560,
            "vision_output_dim": 7680,
            "intermediate_layers_indices": [3, 7, 15, 23, 30],
        },
    )
    with torch.device("meta"):
        bare = MllamaForConditionalGeneration(config)
        bare.requires_grad_(False)
        base = Base(bare, None, FAMILIES["mllama"], "llama32_11b", "0")
        model = attach_adapter(base, LoraConfig(r=16, parts=["language"]), 0)
    counts = parameter_counts(model, base)
    assert counts["trainable"] == counts["language"] == 52_428_800
    assert counts["total"] - counts["trainable"] == 10_670_220_835


def test_a_memorised_answer_is_generated_and_ends(fresh_base):
    model = attach_adapter(fresh_base, LORA, 0)
    sample = make_samples()[2]
    batch = Collator(fresh_base.processor, with_answer=True)([sample])
    predicting = F.pad(batch.labels[:, 1:] != IGNORED, (0, 1))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-2)
    for _ in range(30):
        optimizer.zero_grad()
        loss = F.cross_entropy(logits_at(model, batch.inputs, predicting), batch.labels[batch.labels != IGNORED])
        loss.backward()
        optimizer.step()
    question = Collator(fresh_base.processor, with_answer=False)([sample])
    written = model.eval().generate(**question.inputs, max_new_tokens=8, do_sample=False)
    new = written[0, question.inputs["input_ids"].shape[1] :].tolist()
    assert new == list(Collator(fresh_base.processor, with_answer=True).tokens.ending_ids[sample.item.answer_letter])
