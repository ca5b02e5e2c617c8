import shutil

import numpy as np
import pytest
from mini_items import make_item

from medvl.batching.dataset import Sample
from medvl.config.schema import ModelConfig
from medvl.errors import ModelError
from medvl.models.info import SIZES, local_folder, picture_costs, rendered


def test_a_path_needs_a_config_file_and_no_weights(tiny_folder, tmp_path):
    with pytest.raises(ModelError, match="holds no model"):
        local_folder(ModelConfig(name="mine", path=str(tmp_path)))
    shutil.copy(tiny_folder / "config.json", tmp_path)
    assert local_folder(ModelConfig(name="mine", path=str(tmp_path))) == tmp_path


def test_a_hub_model_is_looked_for_in_the_cache_only(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("asked the network"))
    config = ModelConfig(name="theirs", hub_id="somebody/model")
    assert local_folder(config) is None
    snapshot = tmp_path / "models--somebody--model" / "snapshots" / "c0ffee"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    refs = tmp_path / "models--somebody--model" / "refs"
    refs.mkdir()
    (refs / "main").write_text("c0ffee")
    assert local_folder(config) == snapshot


def test_without_a_benchmark_some_sizes_are_shown(family_base):
    costs = picture_costs(family_base.processor, family_base.family, family_base.model.config, None)
    assert {(cost.height, cost.width) for cost in costs} == set(SIZES)
    assert all(cost.share is None and cost.tokens > 0 for cost in costs)
    assert all((cost.states > 0) == (family_base.family.model_type == "mllama") for cost in costs)


def test_the_commonest_sizes_of_a_benchmark_are_shown_with_their_share(family_base):
    items = [make_item(width=60 + 10 * n, height=50) for n in range(8) for _ in range(n + 1)]
    costs = picture_costs(family_base.processor, family_base.family, family_base.model.config, items)
    assert [cost.width for cost in costs] == [80, 90, 100, 110, 120, 130]
    assert costs[-1].share == pytest.approx(8 / 36)


def test_a_row_is_shown_whole_and_only_the_answer_is_supervised(family_base):
    item = make_item(width=60, height=50, number=1)
    pixels = np.zeros((50, 60, 3), dtype=np.uint8)
    pieces = rendered(family_base.processor, family_base.family, Sample(item, pixels))
    text = "".join(piece.text for piece in pieces)
    assert item.question in text
    assert all(f"{letter}. {option}" in text for letter, option in zip("ABC", item.options, strict=True))
    taught = "".join(piece.text for piece in pieces if piece.supervised)
    assert taught.startswith("B")
    assert item.question not in taught
    assert "A." not in taught
    picture = family_base.processor.image_token
    tokens = family_base.family.picture_tokens(family_base.processor, 50, 60)
    assert text.count(picture) == 1
    assert tokens == 1 or f"{picture} x " in text
