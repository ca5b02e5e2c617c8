import json
import shutil

import pytest
from tiny_adapters import change_weights, make_old, write_adapter

from medvl.errors import ModelError
from medvl.models.adapter_check import check_adapter


@pytest.fixture(scope="module")
def adapter(tiny_folder, tmp_path_factory):
    return write_adapter(tmp_path_factory.mktemp("run") / "adapter", tiny_folder, scale=0.2)


@pytest.fixture
def copy(adapter, tmp_path):
    return shutil.copytree(adapter, tmp_path / "adapter")


def verdicts(adapter, **options):
    return {finding.check: finding for finding in check_adapter(adapter, items=3, **options)}


def test_a_sound_adapter_passes_every_check(adapter):
    found = verdicts(adapter)
    assert list(found) == [
        "run record",
        "base",
        "pictures and prompt",
        "keys",
        "weights",
        "live",
        "merged equals unmerged",
    ]
    assert all(finding.is_ok for finding in found.values())
    assert "0 of 3 letters differ" in found["merged equals unmerged"].text


def test_another_base_ends_the_check(adapter):
    found = verdicts(adapter, base="builtin:tiny")
    assert not found["base"].is_ok
    assert "another revision" in found["base"].text
    assert "keys" not in found


def test_changed_weights_are_found_though_they_work(copy):
    change_weights(copy, lambda name, tensor: (name, tensor * 1.5))
    found = verdicts(copy)
    assert not found["weights"].is_ok
    assert found["live"].is_ok
    assert found["merged equals unmerged"].is_ok


def test_a_processor_that_shows_other_pixels_than_in_training_is_found(copy, tiny_folder, tmp_path):
    base = shutil.copytree(tiny_folder, tmp_path / "base")
    path = base / "processor_config.json"
    config = json.loads(path.read_text())
    config["image_processor"]["image_mean"] = [0.25, 0.5, 0.5]
    path.write_text(json.dumps(config))
    found = verdicts(copy, base=str(base))
    assert not found["pictures and prompt"].is_ok
    assert "processor: " in found["pictures and prompt"].text


def test_keys_without_a_layer_are_found_with_their_number(copy):
    change_weights(copy, lambda name, tensor: (name.replace("layers.0", "layers.7"), tensor))
    found = verdicts(copy)
    assert not found["keys"].is_ok
    assert "adapter weights match a layer" in found["keys"].text
    assert "live" not in found


def test_broken_numbers_are_found(copy):
    change_weights(copy, lambda name, tensor: (name, tensor / 0 if "linear_1" in name else tensor))
    found = verdicts(copy)
    assert not found["numbers"].is_ok


def test_an_adapter_that_changes_nothing_is_dead(tiny_folder, tmp_path):
    found = verdicts(write_adapter(tmp_path / "a", tiny_folder, parts=["language"], scale=0))
    assert not found["live"].is_ok
    assert "14 of 14 B matrices are zero" in found["live"].text


def test_an_adapter_of_another_trainer_with_old_names_is_checked_on_a_named_base(copy, tiny_folder):
    make_old(copy, "llava")
    (copy / "medvl.json").unlink()
    found = verdicts(copy, base=str(tiny_folder))
    assert all(finding.is_ok for finding in found.values())
    assert "not trained by medvl" in found["run record"].text
    assert "under names of an older transformers" in found["keys"].text
    assert {"base", "pictures and prompt", "weights"}.isdisjoint(found)


def test_without_a_base_there_is_nothing_to_check_on(copy):
    (copy / "medvl.json").unlink()
    with pytest.raises(ModelError, match="say --base DIR"):
        check_adapter(copy)
