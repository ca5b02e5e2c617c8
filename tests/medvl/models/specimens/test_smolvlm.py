"""The SmolVLM specimen enlarges every picture until it has tiles, and needs a package that is not medvl's."""

import importlib.util

import pytest

from medvl.errors import ModelError
from medvl.models.specimens import build_specimen


@pytest.mark.parametrize(("size", "tiles"), [((60, 60), 5), ((200, 80), 3), ((400, 400), 5)])
def test_every_picture_is_cut_into_tiles(shelf, picture_of, size, tiles):
    shelf.folder("tiny_smolvlm")
    processor = shelf.load("tiny_smolvlm")[1]
    inputs = shelf.inputs("tiny_smolvlm", picture_of(*size))
    assert inputs["pixel_values"].shape[1] == tiles
    text = processor.tokenizer.decode(inputs["input_ids"][0])
    assert text.count("<image>") == 4 * tiles
    assert text.count("<row_") == tiles - 1
    assert "<global-img>" in text


def test_a_text_without_picture_has_a_space_after_the_role(shelf):
    shelf.folder("tiny_smolvlm")
    text = shelf.text("tiny_smolvlm", ("system", "Be brief."), ("user", "Q?"))
    assert text == "<|im_start|>System: Be brief.<end_of_utterance>\nUser: Q?<end_of_utterance>\n"


def test_the_package_that_is_missing_is_named(monkeypatch, tmp_path):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "num2words" else find(name))
    with pytest.raises(ModelError, match="pip install num2words"):
        build_specimen("tiny_smolvlm", tmp_path / "smolvlm")
    assert not (tmp_path / "smolvlm").exists()
