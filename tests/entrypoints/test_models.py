"""Every kind of model goes from its option to an adapter and a comparison, on a tiny checkpoint of its architecture."""

import json

import pytest
from commands import SMALL, run

from medvl.models.specimens import specimen_folder

STANDS_FOR = {
    "llama32_11b": "tiny_mllama",
    "qwen25vl_7b": "tiny_qwen25vl",
    "medgemma_4b": "tiny_gemma3",
    "huatuogpt_vision_7b": "tiny_llava",
    "llava_med_v15_7b": "tiny_llava",
    "medvlm_r1": "tiny_qwen2_vl",
    "qwen3vl_8b": "tiny_qwen3vl",
    "internvl3_8b": "tiny_internvl",
    "llava_onevision_7b": "tiny_llava_onevision",
    "smolvlm2_2b": "tiny_smolvlm",
}
"""Option -> specimen of its architecture."""

FEW_STEPS = [*SMALL, "trainer.max_steps=2", "data.batch_size=4", "eval.batch_size=8", "eval.controls=[]"]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Folder for the drawn pictures and their benchmark, made once."""
    return tmp_path_factory.mktemp("data")


def trained(tmp_path, drawn, *overrides):
    run("train.py", *FEW_STEPS, f"paths.data={drawn}", *overrides, cwd=tmp_path)
    latest = tmp_path / "outputs" / "latest"
    record = json.loads((latest / "run.json").read_text())
    assert (latest / "adapter" / "adapter_model.safetensors").is_file()
    assert json.loads((latest / "comparison.json").read_text())["overall"]["n"] == 30
    return record


@pytest.mark.slow
@pytest.mark.parametrize("option", STANDS_FOR)
def test_one_override_trains_a_model(option, tmp_path, drawn):
    folder = specimen_folder(STANDS_FOR[option])
    record = trained(tmp_path, drawn, f"model={option}", "lora=r16", f"model.path={folder}")
    norms = record["adapter_proof"]["b_norms"]
    assert set(norms) == {"language"}
    assert norms["language"]["zero"] == 0
    assert record["adapter_proof"]["logit_change"] > 0


@pytest.mark.slow
def test_four_bits_train_with_a_validation_in_between(tmp_path, drawn):
    pytest.importorskip("bitsandbytes")
    record = trained(
        tmp_path, drawn, "model=tiny_qwen25vl", "lora=r16", "model.quantization=nf4", "model.checkpointing=[language]",
        "trainer.max_steps=6", "trainer.val_every_steps=3",
    )  # fmt: skip
    assert record["fingerprints"]["dtype"] == "float32, nf4"
    assert record["adapter_proof"]["b_norms"]["language"]["zero"] == 0


@pytest.mark.slow
def test_a_part_is_trained_in_full_at_a_rate_of_its_own(tmp_path, drawn):
    parts = ["lora=r8", "model.train_parts=[projector]", "+optim.part_lr={projector: 1.0e-5}"]
    trained(tmp_path, drawn, "model=tiny_llava", *parts)
    adapter = "adapter=outputs/latest/adapter"
    done = run("evaluate.py", adapter, "eval.reuse_answers=false", f"paths.data={drawn}", cwd=tmp_path)
    assert "zero-shot against fine-tuned" in done.stdout


def test_a_model_that_can_only_be_asked_is_refused_in_one_line(tmp_path):
    done = run("train.py", "model=gpt5", cwd=tmp_path, expect=2)
    assert "model gpt5 can only be asked, at an endpoint" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_gated_model_says_how_to_get_it(tmp_path):
    done = run("train.py", "model=medgemma_4b", cwd=tmp_path, expect=5, HF_HOME=str(tmp_path / "hub"))
    for part in ("google/medgemma-4b-it", "accept its licence", "hf auth login", "model.path=DIR"):
        assert part in done.stderr
