import shutil
import subprocess
import sys
from io import StringIO

import pytest
from rich.console import Console
from typer.testing import CliRunner

from medvl.cli.building import build_command
from medvl.cli.main import app
from medvl.cli.models import info_command
from medvl.errors import ConfigError, ModelError


def info(tmp_path, *overrides):
    said = StringIO()
    info_command(Console(file=said, width=160), [f"paths.data={tmp_path / 'data'}", "trainer=cpu", *overrides])
    return said.getvalue()


@pytest.fixture
def bare_folder(family_folder, tmp_path):
    """A model folder without weights."""
    folder = tmp_path / "bare"
    shutil.copytree(family_folder, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    return folder


def test_a_folder_without_weights_is_enough_for_all_of_it(tmp_path, bare_folder, family_base):
    text = info(tmp_path, f"model.path={bare_folder}", "lora=r16")
    family = family_base.family
    assert f"{family.title} ({family.model_type})" in text
    assert f"{sum(p.numel() for p in family_base.model.parameters()):,}" in text
    assert "memory: about" in text
    assert "on cpu" in text
    assert "it fits" in text
    assert "Which standard plane is shown?" in text
    marked = text[text.rindex("[[") :]
    assert marked.startswith("[[B")
    assert "]]" in marked


def test_the_sizes_and_the_item_are_those_of_a_built_benchmark(tmp_path, bare_folder, mini_hc18):
    data = ["data=fetal_gauge", f"data.root={mini_hc18.parent}", "data.sources=[hc18]"]
    build_command(Console(file=StringIO()), [f"paths.data={tmp_path / 'data'}", *data])
    text = info(tmp_path, f"model.path={bare_folder}", "lora=r16", *data)
    assert "the commonest sizes of fetal_gauge" in text
    assert "item hc18" in text
    assert "%" in text


def test_with_nothing_local_it_says_what_the_option_knows_and_what_is_needed(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    text = info(tmp_path, "model=llama32_11b", "lora=r16")
    for part in ("meta-llama/Llama-3.2-11B-Vision-Instruct", "gated", "llama3.2", "config.json", "hf download"):
        assert part in text
    assert "adapter" not in text


def test_a_model_of_the_hub_needs_its_small_files_only(tmp_path, monkeypatch, bare_folder):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("asked the network"))
    home = tmp_path / "cache" / "models--Qwen--Qwen2.5-VL-7B-Instruct"
    shutil.copytree(bare_folder, home / "snapshots" / "c0ffee")
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text("c0ffee")
    text = info(tmp_path, "model=qwen25vl_7b", "lora=r16", "data.batch_size=1048576")
    assert "memory: about" in text
    assert "data.batch_size=" in text


def test_without_a_processor_it_says_what_is_missing(tmp_path, family_folder):
    folder = tmp_path / "config_only"
    folder.mkdir()
    shutil.copy(family_folder / "config.json", folder)
    text = info(tmp_path, f"model.path={folder}", "lora=r16")
    assert "adapter parameters" in text
    assert "need the processor's files" in text


def test_a_recipe_that_would_not_fit_gets_ways_out(tmp_path, bare_folder):
    text = info(tmp_path, f"model.path={bare_folder}", "lora=r16", "data.batch_size=1048576")
    assert "it does not fit" in text
    assert "data.batch_size=" in text


def test_a_recipe_for_a_gpu_is_estimated_without_one(tmp_path, bare_folder, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    text = info(tmp_path, f"model.path={bare_folder}", "lora=r16", "trainer=gpu")
    assert "GiB on cuda, there is none here" in text


@pytest.mark.parametrize(
    ("overrides", "error", "said"),
    [
        (["model=tinny"], ConfigError, "did you mean tiny"),
        (["model.path=/nowhere"], ModelError, "holds no model"),
        (["lora.parts=[projector]", "lora.layers=attention"], ModelError, "no attention layers in projector"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, overrides, error, said):
    with pytest.raises(error, match=said):
        info(tmp_path, *overrides)


def test_it_is_a_command(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    done = CliRunner().invoke(app, ["model", "info", "model=qwen25vl_7b", "lora=r16"])
    assert done.exit_code == 0, done.output
    assert "Qwen/Qwen2.5-VL-7B-Instruct" in done.output


def test_the_module_imports_no_torch():
    code = "import sys, medvl.cli.models; print({'torch', 'transformers', 'peft'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
