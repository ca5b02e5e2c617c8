import json
import socket
import time

import pytest

from medvl.config.schema import ModelConfig
from medvl.errors import ModelError
from medvl.models import locate as module
from medvl.models.families import FAMILIES
from medvl.models.locate import OTHER_LAYOUTS, family_of, find_base

HUB = ModelConfig(name="big", hub_id="lab/big-model", gated=True)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a network call")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture
def folder(tmp_path):
    """A model folder that holds a configuration only."""
    (tmp_path / "model").mkdir()
    return tmp_path / "model"


def refusal(folder) -> str:
    with pytest.raises(ModelError) as caught:
        family_of(find_base(ModelConfig(name="mine", path=str(folder))))
    return str(caught.value)


def edit_config(folder, **changes):
    (folder / "config.json").write_text(json.dumps(changes))


def test_the_architecture_is_told_by_the_configuration_not_by_the_name(tmp_path):
    folder = tmp_path / "llava-1.5-huatuogpt-vision-7b"
    folder.mkdir()
    edit_config(folder, model_type="qwen2_5_vl")
    assert family_of(folder) is FAMILIES["qwen2_5_vl"]


@pytest.mark.parametrize("kind", OTHER_LAYOUTS)
def test_a_layout_that_needs_its_authors_code_is_recognised_and_refused(folder, kind):
    edit_config(folder, model_type=kind)
    message = refusal(folder)
    assert "own layout" in message
    assert "Code from the hub is never run" in message


def test_the_authors_layout_of_huatuogpt_is_refused_with_the_way_out(folder):
    edit_config(folder, model_type="llava_qwen2")
    assert "FreedomIntelligence/HuatuoGPT-Vision-7B-hf (model=huatuogpt_vision_7b)" in refusal(folder)


def test_a_model_that_can_only_be_asked_has_no_folder():
    with pytest.raises(ModelError, match="gpt5 can only be asked, at an endpoint"):
        find_base(ModelConfig(name="gpt5", endpoint="gpt-5"))


def test_a_specimen_is_made_on_first_use(monkeypatch, tmp_path):
    monkeypatch.setenv("MEDVL_CACHE", str(tmp_path))
    folder = find_base(ModelConfig(name="tiny_llava", path="specimen:tiny_llava"))
    assert folder.is_relative_to(tmp_path)
    assert family_of(folder) is FAMILIES["llava"]
    with pytest.raises(ModelError, match="there is no specimen 'tiny_llama'"):
        find_base(ModelConfig(name="x", path="specimen:tiny_llama"))


def test_a_shipped_model_that_is_absent_is_named_by_its_option(monkeypatch, tmp_path):
    monkeypatch.setitem(module.BUILTIN, "builtin:tiny", tmp_path)
    with pytest.raises(ModelError, match="builtin:tiny holds no model"):
        find_base(ModelConfig(name="tiny", path="builtin:tiny"))


def test_an_architecture_that_is_not_known_is_refused(folder):
    edit_config(folder, model_type="qwen9")
    assert "architecture 'qwen9' is not supported; supported: gemma3, internvl, llava" in refusal(folder)


@pytest.mark.parametrize("content", [b"[]", b"{}", b"{", b"\xff\xfe\x00", b""])
def test_a_configuration_that_cannot_be_read_is_refused(folder, content):
    (folder / "config.json").write_bytes(content)
    assert "model/config.json cannot be read or names no model_type" in refusal(folder)


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
