"""Writes the checkpoint folder: model, processor, curve and card, whole or not at all."""

from __future__ import annotations

import csv
import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import torch
from transformers import LlavaForConditionalGeneration

from medvl.errors import ModelError
from medvl.models.tiny.architecture import TinySize, build_model, build_processor
from medvl.models.tiny.curriculum import PARTS, Plan
from medvl.models.tiny.pretrain import curve_path, load_pretrained, state_path
from medvl.models.tiny.tokenizer import train_tokenizer

CURVE_FILE = "curve.csv"


def export_checkpoint(out: Path, target: Path, plan: Plan, size: TinySize, card: str) -> str:
    """Write the folder that `from_pretrained` reads.

    Args:
        out: Folder with the states and curves of the parts.
        target: Folder to replace.
        plan: Plan the states belong to.
        size: Sizes of the model.
        card: Text of the model card; `{sha256}` and `{parameters}` are filled in.

    Returns:
        SHA-256 of the weights file.

    Raises:
        ModelError: No part has a saved state.
    """
    tokenizer = train_tokenizer()
    model: LlavaForConditionalGeneration = build_model(tokenizer, size, plan.seed)
    if not load_pretrained(model, out):
        raise ModelError(f"Expected a state of one of the parts {PARTS} in {out}, found none. Pretrain first.")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".export-") as name:
        fresh = Path(name) / "checkpoint"
        model.eval().to(torch.float32).save_pretrained(fresh)
        build_processor(tokenizer, size).save_pretrained(fresh)
        _join_curves(out, fresh / CURVE_FILE)
        digest = hashlib.sha256((fresh / "model.safetensors").read_bytes()).hexdigest()
        count = sum(p.numel() for p in model.parameters())
        (fresh / "README.md").write_text(card.replace("{sha256}", digest).replace("{parameters}", f"{count:,}"))
        old = Path(name) / "old"
        if target.exists():
            os.replace(target, old)
        os.replace(fresh, target)
        shutil.rmtree(old, ignore_errors=True)
    return digest


def _join_curves(out: Path, target: Path, every: int = 250) -> None:
    """Thin the curves of the parts out into one small table: the rows at every `every`-th step and the last."""
    rows: list[list[str]] = []
    head: list[str] = []
    for part in PARTS:
        path = curve_path(out, part)
        if not path.is_file() or not state_path(out, part).is_file():
            continue
        with path.open(newline="") as file:
            head, *body = list(csv.reader(file))
        last = body[-1][1] if body else ""
        rows += [row for row in body if int(row[1]) % every == 0 or row[1] == last]
    with target.open("w", newline="") as file:
        csv.writer(file).writerows([head, *rows])
