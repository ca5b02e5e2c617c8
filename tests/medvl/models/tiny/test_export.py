from __future__ import annotations

import hashlib

import pytest
from transformers import AutoModelForImageTextToText

from medvl.errors import ModelError
from medvl.models.tiny.architecture import TinySize
from medvl.models.tiny.curriculum import PARTS, Plan
from medvl.models.tiny.export import export_checkpoint
from medvl.models.tiny.pretrain import pretrain_part

SIZE = TinySize(hidden=32, layers=1, heads=2, inner=32)
PLAN = Plan(steps=(1, 1, 1), tower_pictures=2, lookup_items=4, pictures=2, questions=2, kept_lookup_items=(2, 1))


def test_an_export_replaces_the_folder_and_its_card_names_the_weights(tmp_path):
    for part in PARTS:
        pretrain_part(tmp_path / "run", part, PLAN, SIZE, workers=0, report=lambda line: None)
    target = tmp_path / "checkpoint"
    target.mkdir()
    (target / "stale.txt").write_text("x")
    digest = export_checkpoint(tmp_path / "run", target, PLAN, SIZE, pictures=20)
    assert not (target / "stale.txt").exists()
    assert hashlib.sha256((target / "model.safetensors").read_bytes()).hexdigest() == digest
    card = (target / "README.md").read_text()
    assert digest in card
    assert "| boxed shape | 0." in card
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".export")] == []
    assert AutoModelForImageTextToText.from_pretrained(target).config.text_config.hidden_size == 32
    assert (target / "curve.csv").read_text().startswith("part,step,")


def test_there_must_be_something_to_export(tmp_path):
    with pytest.raises(ModelError, match="Pretrain first"):
        export_checkpoint(tmp_path, tmp_path / "checkpoint", PLAN, SIZE)
    assert not (tmp_path / "checkpoint").exists()
