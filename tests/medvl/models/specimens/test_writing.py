"""A specimen's weights carry a signal, and its bytes follow from the seed."""

import hashlib

import pytest
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor

from medvl.errors import ModelError
from medvl.models.specimens import SPECIMENS, build_specimen
from medvl.models.specimens.mllama import mllama
from medvl.models.specimens.writing import GATE, draw_weights, rows


def digest(folder):
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


def test_rows_cover_the_tokenizer():
    assert rows("x" * 640, None) == 640
    assert rows("x" * 641, None) == 704
    assert rows("x" * 641, 1000) == 1000
    with pytest.raises(ModelError, match="vocabulary=640 is below the 641 tokens"):
        rows("x" * 641, 640)


def test_gates_are_open_and_no_weight_is_constant():
    specimen = mllama(None)
    model = specimen.model_class(specimen.config)
    draw_weights(model)
    gates = {name: p for name, p in model.named_parameters() if name.rsplit(".", 1)[-1].endswith(("gate", "gate_ffn"))}
    assert any("cross_attn_attn_gate" in name for name in gates)
    assert all((gate == GATE).all() for gate in gates.values())
    for name, parameter in model.named_parameters():
        assert parameter.numel() == 1 or name in gates or parameter.detach().std() > 0.01, name


def test_drawing_leaves_a_matrix_product_at_the_size_of_its_input():
    specimen = mllama(None)
    model = specimen.model_class(specimen.config)
    torch.manual_seed(0)
    draw_weights(model)
    layer = model.model.language_model.layers[0].mlp.up_proj.weight
    assert float(layer.detach().std()) == pytest.approx(layer.shape[1] ** -0.5, rel=0.05)
    head = model.lm_head.weight
    assert float(head.detach().std()) == pytest.approx(2 * head.shape[1] ** -0.5, rel=0.05)


@pytest.mark.parametrize("name", SPECIMENS)
def test_the_same_seed_gives_the_same_bytes(shelf, tmp_path, name):
    assert digest(build_specimen(name, tmp_path / "again")) == digest(shelf.folder(name))


def test_the_seed_changes_the_weights_only_and_not_the_callers_stream(shelf, tmp_path):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    other = digest(build_specimen("tiny_llava", tmp_path / "other", seed=1))
    assert torch.equal(torch.rand(3), expected)
    first = digest(shelf.folder("tiny_llava"))
    assert {file for file in first if first[file] != other[file]} == {"model.safetensors"}


@pytest.mark.parametrize("name", ["tiny_qwen25vl", "tiny_mllama", "tiny_gemma3"])
def test_a_larger_vocabulary_gives_rows_no_token_has(tmp_path, name):
    folder = build_specimen(name, tmp_path / name, vocabulary=2000)
    model = AutoModelForImageTextToText.from_pretrained(folder)
    assert model.lm_head.out_features == model.config.text_config.vocab_size == 2000
    assert len(AutoProcessor.from_pretrained(folder).tokenizer) < 1000


def test_a_vocabulary_below_the_tokenizers_is_refused_before_anything_is_written(tmp_path):
    for name in ("tiny_gemma3", "tiny_mllama"):
        with pytest.raises(ModelError, match="vocabulary=100 is below the 6"):
            build_specimen(name, tmp_path / name, vocabulary=100)
    assert list(tmp_path.iterdir()) == []


def test_others_may_read_the_files(shelf):
    assert all(file.stat().st_mode & 0o044 == 0o044 for file in shelf.folder("tiny_llava").iterdir())
