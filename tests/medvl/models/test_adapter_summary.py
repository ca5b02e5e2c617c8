import shutil

import pytest
from tiny_adapters import change_config, change_weights, make_old, write_adapter

from medvl.config.schema import ModelConfig
from medvl.errors import ModelError
from medvl.models.adapter import b_norms, parameter_counts
from medvl.models.adapter_files import load_adapter
from medvl.models.adapter_summary import summarise_adapter
from medvl.models.base import load_base


@pytest.fixture(scope="module")
def adapter(family_folder, tmp_path_factory):
    return write_adapter(tmp_path_factory.mktemp("run") / "adapter", family_folder, scale=0.2)


@pytest.fixture
def copy(adapter, tmp_path):
    return shutil.copytree(adapter, tmp_path / "adapter")


def test_its_figures_are_those_of_the_model_that_it_is_put_on(adapter, family_folder):
    summary = summarise_adapter(adapter)
    base = load_base(ModelConfig(name="tiny", path=str(family_folder)))
    model = load_adapter(base, adapter)
    norms, counts = b_norms(model, base), parameter_counts(model, base)
    model.requires_grad_(True)
    assert set(summary.parts) == {"language", "vision", "projector"} == set(norms)
    for part, held in summary.parts.items():
        assert held.layers == len(held.b_norms) == norms[part]["matrices"]
        assert min(held.b_norms) == pytest.approx(norms[part]["smallest"], rel=1e-5)
        assert held.whole == 0
    adapted = sum(p.numel() for name, p in model.named_parameters() if "lora_" in name)
    assert sum(held.parameters for held in summary.parts.values()) == adapted
    assert counts["total"] > adapted


def test_old_names_belong_to_the_same_parts(adapter, copy, family_base):
    make_old(copy, family_base.family.model_type)
    now, old = summarise_adapter(adapter), summarise_adapter(copy)
    assert old.parts == now.parts
    assert old.has_old_names
    assert not now.has_old_names


def test_what_is_beyond_the_language_part_must_be_merged_or_dropped_for_serving(copy):
    serving = summarise_adapter(copy).serving
    assert serving.startswith("it has a projector and a vision part")
    assert "merge it, or drop that part: vLLM takes adapters on the language part only" in serving


def test_layers_held_in_full_and_dora_cannot_be_served_beside_the_base(tiny_folder, tmp_path):
    whole = write_adapter(tmp_path / "a", tiny_folder, parts=["language"], train_parts=["projector"])
    summary = summarise_adapter(whole)
    assert summary.parts["projector"].whole == 2
    assert summary.parts["projector"].b_norms == []
    dora = write_adapter(tmp_path / "b", tiny_folder, parts=["language"], dora=True)
    assert "DoRA" in summarise_adapter(dora).serving
    assert "DoRA" in summarise_adapter(dora).recipe
    plain = write_adapter(tmp_path / "c", tiny_folder, parts=["language"])
    assert summarise_adapter(plain).serving.startswith("language part only: vLLM can take it")


def test_without_record_the_base_is_the_one_that_the_files_name(copy):
    (copy / "medvl.json").unlink()
    change_config(copy, base_model_name_or_path="org/base-7b")
    summary = summarise_adapter(copy)
    assert summary.record is None
    assert summary.base == "org/base-7b"
    assert summary.recipe == "r 4, alpha 8.0, dropout 0.0"


def test_layers_of_no_known_family_are_said_to_be_unknown(copy):
    change_weights(copy, lambda name, tensor: (name.replace("base_model.model.", "base_model.model.other."), tensor))
    assert set(summarise_adapter(copy).parts) == {"unknown"}


@pytest.mark.parametrize("content", ["", "{", "[]", "{}"])
def test_a_configuration_that_cannot_be_read_is_refused(copy, content):
    (copy / "adapter_config.json").write_text(content)
    with pytest.raises(ModelError, match=r"adapter_config\.json cannot be read"):
        summarise_adapter(copy)


def test_weights_in_a_format_that_runs_code_are_refused(copy):
    (copy / "adapter_model.safetensors").rename(copy / "adapter_model.bin")
    with pytest.raises(ModelError, match="a format that can run code"):
        summarise_adapter(copy)
