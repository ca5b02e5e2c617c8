"""Writes the checkpoint folder: model, processor, curve and card, whole or not at all."""

from __future__ import annotations

import csv
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

from transformers import LlavaForConditionalGeneration

from medvl.errors import ModelError
from medvl.models.tiny.architecture import TinySize, build_model, build_processor
from medvl.models.tiny.card import write_card
from medvl.models.tiny.curriculum import PARTS, Curriculum, Plan
from medvl.models.tiny.evaluate import QUESTIONS, lookup_accuracy, scene_accuracy
from medvl.models.tiny.pretrain import curve_path, load_pretrained, state_path
from medvl.models.tiny.tokenizer import train_tokenizer

CURVE_FILE, WEIGHTS_FILE = "curve.csv", "model.safetensors"


def export_checkpoint(out: Path, target: Path, plan: Plan, size: TinySize, *, pictures: int = 2000) -> str:
    """Write the folder that `from_pretrained` reads, with the accuracy it reaches in its card.

    Args:
        out: Folder with the states and curves of the parts.
        target: Folder to replace.
        plan: Plan the states belong to.
        size: Sizes of the model.
        pictures: Scenes the accuracy is measured on, fresh and held-out each.

    Returns:
        SHA-256 of the weights file.

    Raises:
        ModelError: No part has a saved state.
    """
    tokenizer = train_tokenizer()
    model: LlavaForConditionalGeneration = build_model(tokenizer, size, plan.seed)
    finished = load_pretrained(model, out)
    if not finished:
        raise ModelError(f"Expected a state of one of the parts {PARTS} in {out}, found none. Pretrain first.")
    model.eval()
    curriculum = Curriculum(plan, tokenizer)
    measured: dict[str, Any] = {}
    if "lookup" in finished or "joint" in finished:
        measured["lookup"] = lookup_accuracy(model, curriculum, 1000)
    if "joint" in finished:
        scores = [scene_accuracy(model, curriculum, pictures=pictures, held_out=held_out) for held_out in (False, True)]
        measured |= {"fresh": scores[0], "held_out": scores[1], "questions": [QUESTIONS * pictures] * 2}
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".export-") as name:
        fresh = Path(name) / "checkpoint"
        model.save_pretrained(fresh)
        build_processor(tokenizer, size).save_pretrained(fresh)
        _join_curves(out, fresh / CURVE_FILE)
        digest = hashlib.sha256((fresh / WEIGHTS_FILE).read_bytes()).hexdigest()
        count = sum(p.numel() for p in model.parameters())
        card = write_card(plan, size, parameters=count, sha256=digest, finished=finished, **measured)
        (fresh / "README.md").write_text(card)
        for file in fresh.iterdir():
            file.chmod(0o644)
        fresh.chmod(0o755)
        old = Path(name) / "old"
        if target.exists():
            os.replace(target, old)
        os.replace(fresh, target)
    return digest


def _join_curves(out: Path, target: Path, first: int = 50, every: int = 250) -> None:
    """Thin the curves of the parts out into one small table: rows of the first, every `every`-th and the last step."""
    rows: list[list[str]] = []
    head: list[str] = []
    for part in PARTS:
        path = curve_path(out, part)
        if not path.is_file() or not state_path(out, part).is_file():
            continue
        with path.open(newline="") as file:
            head, *body = list(csv.reader(file))
        last = body[-1][1] if body else ""
        rows += [row for row in body if int(row[1]) % every == 0 or row[1] in (str(first), last)]
    with target.open("w", newline="") as file:
        csv.writer(file).writerows([head, *rows])
