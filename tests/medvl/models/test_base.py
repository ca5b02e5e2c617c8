import copy
import json
import logging
import shutil
import socket

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers.pre_tokenizers import Whitespace

from medvl.config.schema import ModelConfig
from medvl.errors import ModelError
from medvl.models import base as module
from medvl.models.base import choose_attention, load_base, processor_fingerprint, weights_fingerprint


@pytest.fixture
def folder(tiny_folder, tmp_path):
    """A copy that a test may break."""
    return shutil.copytree(tiny_folder, tmp_path / "model")


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a network call")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    logging.getLogger("transformers").setLevel(logging.ERROR)


def refusal(folder) -> str:
    with pytest.raises(ModelError) as caught:
        load_base(ModelConfig(name="mine", path=str(folder)))
    return str(caught.value)


def edit_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def edit_weights(folder, edit):
    weights = load_file(folder / "model.safetensors")
    save_file(edit(weights), folder / "model.safetensors", metadata={"format": "pt"})


def test_a_base_is_frozen_in_evaluation_mode_and_pads_on_the_right(family_base):
    assert not family_base.model.training
    assert not any(parameter.requires_grad for parameter in family_base.model.parameters())
    assert family_base.processor.tokenizer.padding_side == "right"
    assert family_base.label == "tiny"
    assert len(family_base.fingerprint) == 16


def test_it_loads_in_the_dtype_asked_for(tiny_folder):
    model = load_base(ModelConfig(name="t", path=str(tiny_folder), dtype="bfloat16")).model
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}


def test_a_missing_folder_is_refused(tmp_path):
    assert "holds no model (expected config.json" in refusal(tmp_path / "absent")


def test_a_folder_without_a_configuration_is_refused(folder):
    (folder / "config.json").unlink()
    assert "model mine" in refusal(folder)
    assert "model.path=DIR" in refusal(folder)


def test_weights_that_can_run_code_are_refused(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "no *.safetensors" in refusal(folder)


def test_an_absent_shard_is_refused(folder):
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    shards = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": shards}))
    assert "model-00002-of-00002.safetensors" in refusal(folder)


def test_a_model_whose_tower_is_absent_is_refused(folder):
    edit_weights(folder, lambda weights: {k: v for k, v in weights.items() if "vision_tower" not in k})
    message = refusal(folder)
    assert "37 weights are absent or of another shape" in message
    assert "vision_tower" in message


def test_weights_of_another_shape_are_refused_by_name(folder):
    edit_weights(folder, lambda w: {k: v[:10].clone() if k.endswith("linear_1.weight") else v for k, v in w.items()})
    message = refusal(folder)
    assert "1 weights are absent or of another shape" in message
    assert "linear_1.weight" in message


def test_a_processor_without_chat_template_is_refused(folder):
    (folder / "chat_template.jinja").unlink()
    assert "no chat template; use the instruction-tuned variant" in refusal(folder)


@pytest.mark.parametrize("name", ["tokenizer.json", "processor_config.json"])
@pytest.mark.parametrize("content", ["{broken", '{"version": "1.0", "model": {"type": "BPE"}}', None])
def test_a_processor_that_cannot_be_read_is_refused(folder, name, content):
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(content)
    assert "its processor cannot be loaded from model, expected tokenizer.json" in refusal(folder)


def test_code_in_the_folder_is_never_run(folder):
    (folder / "evil.py").write_text("raise SystemExit('ran')")
    names = {"AutoConfig": "evil.C", "AutoModelForImageTextToText": "evil.M", "AutoProcessor": "evil.P"}
    edit_config(folder, auto_map=names)
    assert load_base(ModelConfig(name="mine", path=str(folder))).family.model_type == "llava"


def test_the_weights_fingerprint_sees_one_changed_weight(folder, tiny_base):
    assert weights_fingerprint([folder / "model.safetensors"]) == tiny_base.fingerprint

    def nudge(weights):
        next(iter(weights.values())).view(-1)[0] += 1
        return weights

    edit_weights(folder, nudge)
    assert weights_fingerprint([folder / "model.safetensors"]) != tiny_base.fingerprint


def test_large_weights_are_sampled_from_end_to_end(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FULL_HASH_BYTES", 1000)
    path = tmp_path / "w.safetensors"
    content = bytearray(2**20)
    seen = set()
    for place in (0, 2**19, 2**20 - 1):
        changed = bytearray(content)
        changed[place] = 1
        path.write_bytes(changed)
        seen.add(weights_fingerprint([path]))
    assert len(seen) == 3


def test_the_processor_fingerprint_sees_pixels_template_and_vocabulary(tiny_base):
    seen = {processor_fingerprint(tiny_base.processor)}
    assert processor_fingerprint(copy.deepcopy(tiny_base.processor)) in seen
    for edit in (
        lambda p: setattr(p.image_processor, "image_mean", (0.4, 0.5, 0.5)),
        lambda p: setattr(p.image_processor, "size", {"height": 48, "width": 48}),
        lambda p: setattr(p, "chat_template", p.chat_template + " "),
        lambda p: p.tokenizer.add_tokens(["<new>"]),
        lambda p: setattr(p, "patch_size", 8),
        lambda p: setattr(p.tokenizer.backend_tokenizer, "pre_tokenizer", Whitespace()),
    ):
        changed = copy.deepcopy(tiny_base.processor)
        edit(changed)
        seen.add(processor_fingerprint(changed))
    assert len(seen) == 7


def test_the_processor_fingerprint_stays_when_the_processor_is_used(tiny_base, demo_data):
    from medvl.batching.collator import Collator
    from medvl.batching.dataset import ItemDataset

    processor = copy.deepcopy(tiny_base.processor)
    before = processor_fingerprint(processor)
    dataset = ItemDataset(demo_data.benchmark.items[:2], demo_data._root)
    Collator(processor, with_answer=True)([dataset[0], dataset[1]])
    assert processor_fingerprint(processor) == before


def test_a_file_that_was_cut_short_is_named_with_what_it_lacks(folder):
    path = folder / "model.safetensors"
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[: size // 2])
    assert f"model.safetensors holds {size // 2} of {size} bytes; it was cut short" in refusal(folder)


@pytest.mark.parametrize("content", [b"", b"\x08\x00\x00\x00\x00\x00\x00\x00not json", b"<html>no such file</html>"])
def test_a_file_that_is_something_else_is_named(folder, content):
    (folder / "model.safetensors").write_bytes(content)
    assert "model.safetensors is no safetensors file or is cut short" in refusal(folder)


def test_a_missing_part_of_many_files_is_named(folder):
    weight_map = {"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(weight_map))
    assert "1 of 2 weight files of model are absent, the first is model-2.safetensors" in refusal(folder)


def test_weights_without_a_place_are_refused(folder):
    edit_weights(folder, lambda weights: {**weights, "vision_tower.old.weight": torch.zeros(3)})
    assert "have no place in the model, the first is model.vision_tower.old.weight" in refusal(folder)


def test_a_tower_under_other_names_is_refused_instead_of_left_blank(folder):
    edit_weights(folder, lambda weights: {k.replace("vision_tower", "vision_model"): v for k, v in weights.items()})
    assert "the model would be partly random" in refusal(folder)


def test_attention_is_chosen_by_the_machine_unless_it_is_named(tiny_folder):
    assert choose_attention(ModelConfig(name="t", path="x", attention="eager")) == "eager"
    if not torch.cuda.is_available():
        assert choose_attention(ModelConfig(name="t", path="x", dtype="bfloat16")) == "sdpa"
    loaded = load_base(ModelConfig(name="t", path=str(tiny_folder), attention="eager")).model
    assert loaded.config._attn_implementation == "eager"
