import json
import sys
from pathlib import Path

import pytest
import torch
from mini_batches import make_samples
from torch.nn import functional as F

from medvl.batching.collator import IGNORED, Collator
from medvl.config.schema import LoraConfig, ModelConfig
from medvl.errors import ModelError
from medvl.models.adapter import attach_adapter
from medvl.models.answer_head import logits_at
from medvl.models.base import load_base
from medvl.models.quantization import kept_modules
from medvl.models.specimens import build_specimen, specimen_folder

NAMES = ["tiny_llava", "tiny_mllama", "tiny_qwen25vl"]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def config(shelf):
    def make(name):
        return ModelConfig(name=name, path=str(specimen_folder(name, shelf)), quantization="nf4", dtype="bfloat16")

    return make


@pytest.mark.parametrize("name", NAMES)
def test_the_language_part_is_in_4_bits_and_nothing_else(config, name):
    pytest.importorskip("bitsandbytes")
    from bitsandbytes.nn import Linear4bit

    base = load_base(config(name))
    quantised = {n for n, m in base.model.named_modules() if isinstance(m, Linear4bit)}
    linear = {n for n, m in base.model.named_modules() if isinstance(m, torch.nn.Linear)}
    assert quantised
    assert all(n.startswith("model.language_model.layers.") for n in quantised)
    assert linear - quantised == set(kept_modules(Path(config(name).path), base.family))


@pytest.mark.parametrize("name", NAMES)
def test_training_goes_on_after_a_validation(config, name):
    """On processors with AVX512-BF16 an evaluation repacks 4-bit weights, and the next training step fails."""
    pytest.importorskip("bitsandbytes")
    base = load_base(config(name))
    model = attach_adapter(base, LoraConfig(r=4, dropout=0.0), 0)
    collator = Collator(base.processor, with_answer=True, companions=base.family.companions)
    batch = collator(make_samples())
    predicting = F.pad(batch.labels[:, 1:] != IGNORED, (0, 1))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3)

    def steps(count):
        model.train()
        for _ in range(count):
            with torch.autocast("cpu", torch.bfloat16):
                loss = F.cross_entropy(
                    logits_at(model, batch.inputs, predicting), batch.labels[batch.labels != IGNORED]
                )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.item()

    first = steps(1)
    steps(4)
    model.eval()
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        assert torch.isfinite(logits_at(model, batch.inputs, predicting)).all()
    last = steps(5)
    assert last < first
    gradients = [p.grad for n, p in model.named_parameters() if "lora_B" in n]
    assert gradients
    assert all(g is not None and g.abs().max() > 0 for g in gradients)


def test_without_the_library_the_way_out_is_said(config, monkeypatch):
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    with pytest.raises(ModelError, match=r"needs bitsandbytes.*pip install 'medvl\[qlora\]'"):
        load_base(config("tiny_llava"))


def test_a_model_that_is_quantised_already_is_refused(tmp_path):
    pytest.importorskip("bitsandbytes")
    folder = build_specimen("tiny_llava", tmp_path / "model")
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "quantization_config": {"load_in_4bit": True}}))
    with pytest.raises(ModelError, match="is quantised already"):
        load_base(ModelConfig(name="t", path=str(folder), quantization="nf4"))
