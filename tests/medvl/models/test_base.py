import copy
import json
import logging
import shutil
import socket
import time

import pytest
import torch
from safetensors.torch import load_file, save_file

from medvl.config.schema import ModelConfig
from medvl.errors import ModelError
from medvl.models import base as module
from medvl.models.base import find_base, load_base, processor_fingerprint, weights_fingerprint

HUB = ModelConfig(name="big", hub_id="lab/big-model", gated=True)


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


def test_a_shipped_model_that_is_absent_is_named_by_its_option(monkeypatch, tmp_path):
    monkeypatch.setitem(module.BUILTIN, "builtin:tiny", tmp_path)
    with pytest.raises(ModelError, match="builtin:tiny holds no model"):
        find_base(ModelConfig(name="tiny", path="builtin:tiny"))


def test_an_architecture_that_is_not_known_is_refused(folder):
    edit_config(folder, model_type="qwen9")
    assert "architecture 'qwen9' is not supported; supported: llava, mllama" in refusal(folder)


@pytest.mark.parametrize("content", [b"[]", b"{}", b"{", b"\xff\xfe\x00", b""])
def test_a_configuration_that_cannot_be_read_is_refused(folder, content):
    (folder / "config.json").write_bytes(content)
    assert "model/config.json cannot be read or names no model_type" in refusal(folder)


def test_weights_that_can_run_code_are_refused(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "no *.safetensors" in refusal(folder)


@pytest.mark.parametrize("keep", [0, 20, 0.5])
def test_weights_cut_short_are_refused(folder, keep):
    path = folder / "model.safetensors"
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[: keep if isinstance(keep, int) else int(size * keep)])
    assert "cannot be loaded from model: Error while deserializing header" in refusal(folder)


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
    ):
        changed = copy.deepcopy(tiny_base.processor)
        edit(changed)
        seen.add(processor_fingerprint(changed))
    assert len(seen) == 5


def test_the_processor_fingerprint_stays_when_the_processor_is_used(tiny_base, demo_data):
    from medvl.batching.collator import Collator
    from medvl.batching.dataset import ItemDataset

    processor = copy.deepcopy(tiny_base.processor)
    before = processor_fingerprint(processor)
    dataset = ItemDataset(demo_data.benchmark.items[:2], demo_data._root)
    Collator(processor, with_answer=True)([dataset[0], dataset[1]])
    assert processor_fingerprint(processor) == before


def test_a_hub_model_that_is_absent_offline_is_refused_with_the_way_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelError) as caught:
        find_base(HUB)
    for part in ("big", "lab/big-model", "hf download lab/big-model", "model.path=DIR", "licence", "hf auth login"):
        assert part in str(caught.value)
    with pytest.raises(ModelError) as caught:
        find_base(HUB.model_copy(update={"gated": False}))
    assert "licence" not in str(caught.value)


def test_a_hub_that_cannot_be_reached_is_refused_soon(monkeypatch, tmp_path):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))

    def no_route(*args, **kwargs):
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(socket, "getaddrinfo", no_route)
    monkeypatch.setattr(socket.socket, "connect", no_route)
    start = time.monotonic()
    with pytest.raises(ModelError, match=r"the hub cannot be reached .*hf download lab/big-model"):
        find_base(HUB)
    assert time.monotonic() - start < 15


def test_a_hub_that_never_replies_is_given_up_soon(monkeypatch, tmp_path):
    monkeypatch.undo()  # this test connects, to itself
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(module, "HUB_TIMEOUT_S", 0.3)
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        here = (socket.AF_INET, socket.SOCK_STREAM, 6, "", mute.getsockname())
        monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: [here])
        with pytest.raises(ModelError, match="the hub cannot be reached"):
            find_base(HUB)


@pytest.mark.parametrize("left", [[], ["model-00001-of-00002.safetensors"]])
def test_a_download_that_was_broken_off_counts_as_absent(monkeypatch, tmp_path, left):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    commit = "a" * 40
    snapshot = tmp_path / "models--lab--big-model" / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (tmp_path / "models--lab--big-model" / "refs").mkdir()
    (tmp_path / "models--lab--big-model" / "refs" / "main").write_text(commit)
    (snapshot / "config.json").write_text("{}")
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    if left:
        weight_map = {"weight_map": dict(zip("ab", names, strict=True))}
        (snapshot / "model.safetensors.index.json").write_text(json.dumps(weight_map))
    for name in left:
        (snapshot / name).write_bytes(b"x")
    with pytest.raises(ModelError, match="hf download lab/big-model"):
        find_base(HUB)
    for name in names:
        (snapshot / name).write_bytes(b"x")
    assert find_base(HUB) == snapshot
