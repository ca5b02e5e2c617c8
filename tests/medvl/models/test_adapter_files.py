import json
import re
import shutil
import socket
import subprocess
import sys

import numpy as np
import pytest
import torch
from peft import PeftModel
from PIL import Image
from safetensors.torch import load_file, save_file
from tiny_adapters import change_config, change_weights, make_old, old_name, write_adapter
from trained_adapter import LORA, again, logits

from medvl.config.schema import ModelConfig
from medvl.errors import ModelError
from medvl.models.adapter import adapter_weights_fingerprint, attach_adapter
from medvl.models.adapter_files import load_adapter, put_adapter, save_adapter
from medvl.models.base import load_base
from medvl.models.parts import part_of
from medvl.models.specimens import SPECIMENS, specimen_folder


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


def test_a_merged_model_that_is_saved_answers_as_the_adapter(saved, family_folder, tmp_path):
    folder, expected = saved
    base = again(family_folder)
    merged = load_adapter(base, folder).merge_and_unload()
    merged.save_pretrained(tmp_path / "merged")
    base.processor.save_pretrained(tmp_path / "merged")
    plain = again(tmp_path / "merged")
    assert torch.allclose(logits(plain.model, plain), expected, atol=1e-4)
    assert (logits(plain.model, plain) - logits(again(family_folder).model, plain)).abs().max() > 1e-3


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
        base = load_base(ModelConfig(name="tiny", path=f"specimen:{name}", quick_tower=False))  # equal to the bit
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
