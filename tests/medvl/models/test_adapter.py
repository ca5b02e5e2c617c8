import dataclasses
import json
import re
import shutil
import socket
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from mini_batches import make_samples
from peft import PeftModel
from PIL import Image
from safetensors.torch import load_file, save_file
from tiny_adapters import change_config, change_weights, make_old, old_name, write_adapter
from torch.nn import functional as F

from medvl.batching.collator import IGNORED, Collator
from medvl.config.schema import LoraConfig, ModelConfig
from medvl.errors import ModelError
from medvl.models.adapter import (
    adapter_weights_fingerprint,
    attach_adapter,
    b_norms,
    load_adapter,
    matched_layers,
    parameter_counts,
    put_adapter,
    save_adapter,
    without_adapter,
)
from medvl.models.answer_head import logits_at
from medvl.models.base import load_base
from medvl.models.parts import part_of
from medvl.models.proof import prove_adapter
from medvl.models.specimens import SPECIMENS, specimen_folder

ALL = ["language", "vision", "projector"]
PLACE = {
    "language": "model.language_model.layers.",
    "vision": "model.vision_",
    "projector": "model.multi_modal_projector",
}
LORA = LoraConfig(r=4, alpha=16.0, dropout=0.0, parts=ALL)


def train(model, base, steps=2, **options):
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    batch = Collator(base.processor, with_answer=True)(make_samples())
    predicting = F.pad(batch.labels[:, 1:] != IGNORED, (0, 1))
    for _ in range(steps):
        optimizer.zero_grad()
        logits = logits_at(model, batch.inputs, predicting, **options)
        F.cross_entropy(logits, batch.labels[batch.labels != IGNORED]).backward()
        optimizer.step()
    return model.eval()


@torch.inference_mode()
def logits(model, base) -> torch.Tensor:
    batch = Collator(base.processor, with_answer=False)(make_samples())
    return logits_at(model, batch.inputs, batch.inputs["attention_mask"].bool())


@pytest.fixture
def saved(fresh_base, tmp_path):
    """An adapter folder as train.py writes it, and what its model answers."""
    model = train(attach_adapter(fresh_base, LORA, 0), fresh_base)
    prints = {"base": fresh_base.fingerprint, "adapter": adapter_weights_fingerprint(model)}
    record = {"base": fresh_base.label, "fingerprints": prints, "config": {"model": {}}}
    save_adapter(model, tmp_path / "adapter", record)
    return tmp_path / "adapter", logits(model, fresh_base)


def again(folder):
    return load_base(ModelConfig(name="tiny", path=str(folder)))


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


def test_a_saved_adapter_answers_the_same_on_a_fresh_base(saved, family_folder):
    folder, expected = saved
    base = again(family_folder)
    model = load_adapter(base, folder)
    assert torch.equal(logits(model, base), expected)
    assert not model.training


def test_an_adapter_folder_holds_no_path_no_readme_and_no_code(saved, family_folder):
    folder, _ = saved
    assert sorted(path.name for path in folder.iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
        "medvl.json",
    ]
    config = json.loads((folder / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "tiny"
    assert str(family_folder) not in (folder / "adapter_config.json").read_text()


def test_saving_and_loading_ask_no_network(fresh_base, tmp_path, monkeypatch, family_folder):
    calls = []
    monkeypatch.setattr(socket.socket, "connect", lambda *args: calls.append(args))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: calls.append(args) or [])
    monkeypatch.setattr("peft.utils.save_and_load.check_file_exists_on_hf_hub", lambda *args, **kw: calls.append(args))
    model = attach_adapter(fresh_base, LORA, 0)
    prints = {"base": fresh_base.fingerprint, "adapter": adapter_weights_fingerprint(model)}
    save_adapter(model, tmp_path / "a", {"base": "tiny", "fingerprints": prints, "config": {"model": {}}})
    load_adapter(again(family_folder), tmp_path / "a")
    assert calls == []


def test_a_renamed_key_is_refused_with_the_counts(saved, family_folder):
    folder, _ = saved
    path = folder / "adapter_model.safetensors"
    weights = load_file(path)
    moved = {k.replace("language_model.layers.0", "language_model.layer.0"): v for k, v in weights.items()}
    lost = len(set(moved) - set(weights))
    save_file(moved, path)
    with pytest.raises(ModelError) as caught:
        load_adapter(again(family_folder), folder)
    assert f"{len(weights) - lost} of {len(weights)} adapter weights match a layer of tiny" in str(caught.value)
    assert lost > 0


def test_changed_weights_are_refused(saved, family_folder):
    folder, _ = saved
    path = folder / "adapter_model.safetensors"
    save_file({name: weight * 1.01 for name, weight in load_file(path).items()}, path)
    with pytest.raises(ModelError, match="is not what was trained"):
        load_adapter(again(family_folder), folder)


@pytest.mark.parametrize("keep", [0, 0.5, None])
def test_weights_that_are_absent_or_cut_short_are_refused(saved, family_folder, keep):
    folder, _ = saved
    path = folder / "adapter_model.safetensors"
    if keep is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[: int(path.stat().st_size * keep)])
    with pytest.raises(ModelError, match="absent or cut short"):
        load_adapter(again(family_folder), folder)


@pytest.mark.parametrize("edit", [{"r": 8}, {"peft_type": "NOPE"}, {"target_modules": "gone"}, None])
def test_a_configuration_that_does_not_fit_is_refused(saved, family_folder, edit):
    folder, _ = saved
    path = folder / "adapter_config.json"
    path.write_text("{" if edit is None else json.dumps({**json.loads(path.read_text()), **edit}))
    with pytest.raises(ModelError, match="adapter does not fit tiny"):
        load_adapter(again(family_folder), folder)


def test_another_base_is_refused(saved, family_folder, tmp_path):
    other = shutil.copytree(family_folder, tmp_path / "other")
    weights = load_file(other / "model.safetensors")
    next(iter(weights.values())).view(-1)[0] += 1
    save_file(weights, other / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match="was trained on another base: tiny"):
        load_adapter(again(other), saved[0])


def test_the_proof_shows_a_live_adapter_and_a_merge_that_changes_nothing(saved, family_folder):
    folder, _ = saved
    base = again(family_folder)
    model = load_adapter(base, folder)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)) * 0.05)
    batch = Collator(base.processor, with_answer=False)(make_samples())
    before = logits(model, base)
    proof = prove_adapter(model, base, batch)
    assert proof["logit_change"] > 0.05
    assert proof["merge_difference"] < 1e-4
    assert {part: n["zero"] for part, n in proof["b_norms"].items()} == dict.fromkeys(ALL, 0)
    assert torch.allclose(logits(model, base), before, atol=1e-4)


def test_a_merged_model_that_is_saved_answers_as_the_adapter(saved, family_folder, tmp_path):
    folder, expected = saved
    base = again(family_folder)
    merged = load_adapter(base, folder).merge_and_unload()
    merged.save_pretrained(tmp_path / "merged")
    base.processor.save_pretrained(tmp_path / "merged")
    plain = again(tmp_path / "merged")
    assert torch.allclose(logits(plain.model, plain), expected, atol=1e-4)
    assert (logits(plain.model, plain) - logits(again(family_folder).model, plain)).abs().max() > 1e-3


def test_the_proof_shows_a_dead_adapter(fresh_base):
    model = attach_adapter(fresh_base, LORA, 0).eval()
    proof = prove_adapter(model, fresh_base, Collator(fresh_base.processor, with_answer=False)(make_samples()))
    assert proof["logit_change"] == 0
    assert all(n["zero"] == n["matrices"] for n in proof["b_norms"].values())


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


def test_an_adapter_under_old_names_answers_as_it_was_trained(saved, family_folder, family_base):
    folder, expected = saved
    make_old(folder, family_base.family.model_type)
    base = again(family_folder)
    assert torch.equal(logits(load_adapter(base, folder), base), expected)


def test_an_old_name_without_a_layer_is_refused_with_the_counts_and_a_reason(saved, family_folder, family_base):
    folder, _ = saved
    make_old(folder, family_base.family.model_type)
    change_weights(
        folder, lambda name, tensor: (name.replace("_model.model.layers.0", "_model.model.blocks.0"), tensor)
    )
    with pytest.raises(
        ModelError, match=r"adapter weights match a layer of tiny; .*Perhaps it was trained on another base"
    ):
        load_adapter(again(family_folder), folder)


def test_a_scale_of_a_layer_under_its_old_name_keeps_its_meaning(saved, family_folder, family_base):
    folder, expected = saved
    layer = "model.language_model.layers.0.mlp.up_proj"
    change_config(folder, alpha_pattern={layer: 64})
    base = again(family_folder)
    scaled = logits(load_adapter(base, folder), base)
    assert not torch.equal(scaled, expected)
    make_old(folder, family_base.family.model_type)
    change_config(folder, alpha_pattern={old_name(layer, family_base.family.model_type): 64})
    base = again(family_folder)
    assert torch.equal(logits(load_adapter(base, folder), base), scaled)


def test_an_adapter_of_another_trainer_is_put_on_its_base_but_never_judged(saved, family_folder):
    folder, expected = saved
    (folder / "medvl.json").unlink()
    base = again(family_folder)
    assert torch.equal(logits(put_adapter(base, folder), base), expected)
    with pytest.raises(ModelError, match=r"no medvl\.json"):
        load_adapter(again(family_folder), folder)


def test_weights_in_a_format_that_runs_code_are_refused(saved, family_folder):
    folder, _ = saved
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
    with pytest.raises(ModelError, match="a format that can run code"):
        load_adapter(again(family_folder), folder)


def test_plain_peft_loads_what_was_saved(saved, family_folder):
    from transformers import AutoModelForImageTextToText

    folder, expected = saved
    model = PeftModel.from_pretrained(AutoModelForImageTextToText.from_pretrained(family_folder), folder)
    assert torch.equal(logits(model.eval(), again(family_folder)), expected)


def test_the_language_part_is_saved_under_the_names_that_servers_expect(saved):
    names = [name for name in load_file(saved[0] / "adapter_model.safetensors") if "language_model" in name]
    expected = r"base_model\.model\.model\.language_model\.layers\.\d+\.\w+\.\w+\.lora_[AB]\.weight"
    assert names
    assert all(re.fullmatch(expected, name) for name in names)


PLAIN = """
import sys, torch
from pathlib import Path
from peft import PeftModel
from transformers import AutoModelForImageTextToText
for folder in map(Path, sys.argv[1:]):
    base = (folder / "base.txt").read_text()
    bare = AutoModelForImageTextToText.from_pretrained(base, dtype=torch.float32)
    model = PeftModel.from_pretrained(bare, folder / "adapter").eval()
    with torch.inference_mode():
        torch.save(model(**torch.load(folder / "inputs.pt")).logits, folder / "logits.pt")
assert not [name for name in sys.modules if name.startswith("medvl")]
"""


def asked(base):
    """Inputs for one picture and one word, as the processor alone makes them."""
    picture = np.random.default_rng(0).integers(0, 255, (60, 90, 3), dtype=np.uint8)
    talk = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Which?"}]}]
    text = base.processor.apply_chat_template(talk, add_generation_prompt=True)
    return dict(base.processor(text=[text], images=[[Image.fromarray(picture)]], return_tensors="pt"))


@pytest.mark.slow
def test_without_medvl_the_adapters_of_all_families_load_and_answer_the_same(tmp_path):
    expected = {}
    for name in SPECIMENS:
        folder = tmp_path / name
        write_adapter(folder / "adapter", f"specimen:{name}")
        base = load_base(ModelConfig(name="tiny", path=f"specimen:{name}"))
        (folder / "base.txt").write_text(str(specimen_folder(name)))
        torch.save(asked(base), folder / "inputs.pt")
        model = load_adapter(base, folder / "adapter")
        with torch.inference_mode():
            expected[folder] = model(**asked(base)).logits
    done = subprocess.run(
        [sys.executable, "-c", PLAIN, *map(str, expected)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for folder, logits_here in expected.items():
        assert torch.equal(torch.load(folder / "logits.pt"), logits_here), folder.name


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECIMENS)
def test_every_familys_old_names_answer_as_todays(name, tmp_path):
    folder = write_adapter(tmp_path / "a", f"specimen:{name}", train_parts=["projector"])
    base, other = (load_base(ModelConfig(name="tiny", path=f"specimen:{name}")) for _ in range(2))
    names = [key for key in load_file(folder / "adapter_model.safetensors") if part_of(key, base.family) == "language"]
    decoder = r"model\.(language|text)_model\.layers\.\d+\.\w+\.\w+"
    assert all(re.fullmatch(rf"base_model\.model\.{decoder}\.lora_[AB]\.weight", key) for key in names)
    inputs = asked(base)
    with torch.inference_mode():
        expected = load_adapter(base, folder)(**inputs).logits
        plain = other.model(**inputs).logits
        make_old(folder, base.family.model_type)
        (folder / "medvl.json").unlink()
        found = put_adapter(other, folder)(**inputs).logits
    assert torch.equal(found, expected)
    assert not torch.equal(found, plain)
