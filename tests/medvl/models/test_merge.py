import json
import shutil

import peft
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from tiny_adapters import change_weights, make_old, write_adapter

from medvl.config.schema import ModelConfig
from medvl.errors import ModelError, StorageError
from medvl.models import merge
from medvl.models.base import load_base, processor_fingerprint
from medvl.models.merge import merge_into_base
from medvl.models.specimens import SPECIMENS, specimen_folder


@pytest.fixture(scope="module")
def adapter(tiny_folder, tmp_path_factory):
    """An adapter on all parts of the tiny model."""
    return write_adapter(tmp_path_factory.mktemp("run") / "adapter", tiny_folder, scale=0.5)


@pytest.fixture(scope="module")
def merged(adapter, tmp_path_factory):
    """What merging it gave, in a folder that was empty."""
    out = tmp_path_factory.mktemp("merged") / "model"
    out.mkdir()
    return merge_into_base(adapter, out, items=6)


def copied(adapter, tmp_path):
    return shutil.copytree(adapter, tmp_path / "adapter")


def test_the_merged_model_answers_as_the_unmerged_one(merged):
    assert merged.is_sound
    assert merged.with_unmerged.questions == 6
    assert merged.with_unmerged.flips == 0
    assert merged.with_unmerged.largest_difference < 1e-3
    assert merged.with_quantized is None


def test_it_is_a_model_like_any_other_with_the_processor_of_its_base(merged, tiny_base):
    base = load_base(ModelConfig(name="merged", path=str(merged.folder)))
    assert processor_fingerprint(base.processor) == processor_fingerprint(tiny_base.processor)
    assert base.fingerprint == merged.fingerprints["merged"] != tiny_base.fingerprint
    assert not any("lora" in name for name, _ in base.model.named_parameters())
    changed = {
        name
        for (name, now), (_, before) in zip(
            base.model.named_parameters(), tiny_base.model.named_parameters(), strict=True
        )
        if not torch.equal(now, before)
    }
    assert {name.split(".")[1] for name in changed} == {"language_model", "vision_tower", "multi_modal_projector"}


def test_its_record_names_base_adapter_and_itself_and_no_path(merged, adapter, tiny_folder):
    record = json.loads((merged.folder / "medvl.json").read_text())
    trained = json.loads((adapter / "medvl.json").read_text())["fingerprints"]
    assert record["kind"] == "merged"
    assert record["base"] == "tiny"
    assert record["fingerprints"]["base"] == trained["base"]
    assert record["fingerprints"]["adapter"] == trained["adapter"]
    assert record["fingerprints"]["merged"] == merged.fingerprints["merged"]
    assert record["with_unmerged"]["questions"] == 6
    for path in merged.folder.iterdir():
        assert str(tiny_folder).encode() not in path.read_bytes(), path.name


def test_it_is_compared_in_the_prompt_that_it_was_trained_with(adapter, tmp_path):
    folder = copied(adapter, tmp_path)
    record = json.loads((folder / "medvl.json").read_text())
    record["config"]["model"]["prompt"] = "reasoning"
    (folder / "medvl.json").write_text(json.dumps(record))
    found = merge_into_base(folder, tmp_path / "model", items=6)
    assert found.prompt == "reasoning"
    assert found.with_unmerged.flips == 0
    assert found.with_unmerged.largest_difference < 1e-3


def test_nothing_else_is_left_beside_it(merged):
    assert [path.name for path in merged.folder.parent.iterdir()] == [merged.folder.name]
    assert {path.suffix for path in merged.folder.iterdir()} <= {".json", ".safetensors", ".jinja", ".txt"}


@pytest.mark.parametrize("name", ["a file", "a folder", "a failed one"])
def test_what_is_there_is_never_overwritten(adapter, tmp_path, name, monkeypatch):
    out = tmp_path / "out"
    if name == "a file":
        out.write_text("mine")
    else:
        folder = out if name == "a folder" else tmp_path / "out.failed"
        folder.mkdir()
        (folder / "mine.txt").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(merge, "load_base", lambda config: pytest.fail("refused before anything is loaded"))
    with pytest.raises(StorageError, match="name another folder"):
        merge_into_base(adapter, out)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_merge_that_changes_answers_is_kept_aside_under_another_name(adapter, tmp_path, monkeypatch):
    monkeypatch.setattr(peft.tuners.tuners_utils.BaseTuner, "merge_and_unload", lambda self, **_: self.unload())
    earlier = tmp_path / "out.failed"
    earlier.mkdir()
    (earlier / "medvl.json").write_text("{}")
    found = merge_into_base(adapter, tmp_path / "out", items=6)
    assert not found.is_sound
    assert found.with_unmerged.flips > 0
    assert found.folder == earlier
    assert [path.name for path in tmp_path.iterdir()] == ["out.failed"]
    assert json.loads((earlier / "medvl.json").read_text())["is_sound"] is False


def test_a_merge_that_breaks_off_leaves_nothing(adapter, tmp_path, monkeypatch):
    real = merge.load_base

    def once(config):
        monkeypatch.setattr(merge, "load_base", lambda config: (_ for _ in ()).throw(ModelError("cannot be read")))
        return real(config)

    monkeypatch.setattr(merge, "load_base", once)
    with pytest.raises(ModelError, match="cannot be read"):
        merge_into_base(adapter, tmp_path / "out", items=2)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_room_is_said_before_it_is_full(adapter, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(merge.shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(StorageError, match=r"needs .* GiB, .* has 0\.0 GiB free"):
        merge_into_base(adapter, tmp_path / "out", items=2)
    assert list(tmp_path.iterdir()) == []


def test_an_adapter_with_broken_numbers_is_not_merged(adapter, tiny_folder, tmp_path):
    folder = copied(adapter, tmp_path)
    (folder / "medvl.json").unlink()
    change_weights(folder, lambda name, tensor: (name, tensor * float("nan")))
    with pytest.raises(ModelError, match="not finite"):
        merge_into_base(folder, tmp_path / "out", base=str(tiny_folder), items=2)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_an_adapter_of_another_trainer_with_old_names_is_merged_when_its_base_is_named(
    tiny_folder, adapter, merged, tmp_path
):
    folder = make_old(copied(adapter, tmp_path), "llava")
    (folder / "medvl.json").unlink()
    with pytest.raises(ModelError, match="say --base DIR"):
        merge_into_base(folder, tmp_path / "out")
    found = merge_into_base(folder, tmp_path / "out", base=str(tiny_folder), items=2)
    assert found.is_sound
    assert found.fingerprints["merged"] == merged.fingerprints["merged"]


def test_parts_that_were_trained_in_full_are_merged_in_the_precision_that_is_asked_for(tiny_folder, tmp_path):
    adapter = write_adapter(tmp_path / "a", tiny_folder, parts=["language"], train_parts=["projector"], scale=0.5)
    found = merge_into_base(adapter, tmp_path / "out", dtype="bfloat16", items=4, max_flips=1)
    stored, held = load_file(found.folder / "model.safetensors"), load_file(adapter / "adapter_model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.bfloat16}
    (now,) = (tensor for name, tensor in stored.items() if name.endswith("multi_modal_projector.linear_1.weight"))
    (trained,) = (tensor for name, tensor in held.items() if name.endswith("multi_modal_projector.linear_1.weight"))
    assert torch.equal(now, trained.bfloat16())
    assert json.loads((found.folder / "config.json").read_text())["dtype"] == "bfloat16"


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECIMENS)
def test_every_family_merges_all_its_parts_in_the_layout_of_its_base(name, tmp_path):
    adapter = write_adapter(tmp_path / "a", f"specimen:{name}", scale=0.05)
    found = merge_into_base(adapter, tmp_path / "out", items=8)
    assert found.is_sound
    assert found.with_unmerged.largest_difference < 1e-3
    with (
        safe_open(specimen_folder(name) / "model.safetensors", "pt") as base,
        safe_open(found.folder / "model.safetensors", "pt") as out,
    ):
        assert set(out.keys()) == set(base.keys())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tiny_qwen2_vl", "tiny_gemma3"])
def test_tied_embeddings_stay_tied_unless_the_adapter_parts_them(name, tmp_path):
    adapter = write_adapter(tmp_path / "a", f"specimen:{name}", parts=["language"], scale=0.05)
    found = merge_into_base(adapter, tmp_path / "tied", items=4)
    model = load_base(ModelConfig(name="tied", path=str(found.folder))).model
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    foreign = write_head_adapter(tmp_path / "b", name)
    found = merge_into_base(foreign, tmp_path / "parted", base=f"specimen:{name}", items=4)
    assert found.with_unmerged.largest_difference < 1e-3
    model = load_base(ModelConfig(name="parted", path=str(found.folder))).model
    assert not torch.equal(model.get_output_embeddings().weight, model.get_input_embeddings().weight)


def write_head_adapter(folder, name):
    """A LoRA adapter on the output layer, as other trainers write them."""
    base = load_base(ModelConfig(name="tiny", path=f"specimen:{name}"))
    config = peft.LoraConfig(r=4, target_modules=["lm_head", "q_proj"], init_lora_weights=False)
    peft.get_peft_model(base.model, config).save_pretrained(folder, save_embedding_layers=False)
    return folder


@pytest.mark.slow
def test_an_adapter_of_a_4_bit_base_is_merged_into_the_full_weights(tiny_folder, tmp_path):
    pytest.importorskip("bitsandbytes")
    adapter = write_adapter(tmp_path / "a", tiny_folder, parts=["language"], quantization="nf4", scale=0.05)
    found = merge_into_base(adapter, tmp_path / "out", items=6)
    assert found.is_sound
    assert found.quantization == "nf4"
    assert found.with_quantized.largest_difference > found.with_unmerged.largest_difference
    assert {tensor.dtype for tensor in load_file(found.folder / "model.safetensors").values()} == {torch.float32}
    assert "quantization_config" not in json.loads((found.folder / "config.json").read_text())
