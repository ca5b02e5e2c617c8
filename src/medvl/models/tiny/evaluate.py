"""Accuracy of a tiny checkpoint on scenes that pretraining never shows."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForImageTextToText, AutoTokenizer, LlavaForConditionalGeneration

from medvl.models.tiny.asking import choose
from medvl.models.tiny.batch import Batch, block_logits, letter_hits, make_block, make_seen_blocks
from medvl.models.tiny.curriculum import Curriculum, Plan, draw_scenes

EVALUATION_STREAM = 9_000_000
"""First word of the evaluation seeds; no training seed starts with it."""
QUESTIONS = 5
"""Lettered questions a scene."""


def load_for_evaluation(folder: Path) -> tuple[LlavaForConditionalGeneration, Curriculum]:
    """Read a checkpoint folder."""
    model = AutoModelForImageTextToText.from_pretrained(folder).eval()
    return model, Curriculum(Plan(), AutoTokenizer.from_pretrained(folder))


def lookup_accuracy(model: LlavaForConditionalGeneration, curriculum: Curriculum, items: int) -> float:
    """Share of text-only items answered by the right letter, in [0, 1]."""
    rng = np.random.default_rng([EVALUATION_STREAM, 2])
    drawn = [curriculum.lookup.draw(rng, letter_share=1.0, phrase_share=0.0) for _ in range(items)]
    block = make_block(drawn, curriculum.pad, curriculum.scaffold.opening)
    with torch.no_grad():
        ((_, logits),) = block_logits(model, Batch(None, (block,)), curriculum.scaffold)
    return float(np.mean([hit for _, hit in letter_hits(block, logits)]))


def scene_accuracy(
    model: LlavaForConditionalGeneration, curriculum: Curriculum, *, pictures: int, held_out: bool, per_batch: int = 20
) -> dict[str, float]:
    """Accuracy of lettered questions per kind and over all, in [0, 1].

    Args:
        model: The model.
        curriculum: Source of scenes and questions.
        pictures: Number of scenes, each with `QUESTIONS` questions.
        held_out: Draw from the combinations of shape, surface and tone that pretraining leaves out.
        per_batch: Scenes a forward pass.
    """
    hits: dict[str, list[bool]] = defaultdict(list)
    for start in range(0, pictures, per_batch):
        rng = np.random.default_rng([EVALUATION_STREAM, int(held_out), start])
        scenes, facts = draw_scenes(rng, per_batch, held_out=held_out)
        exchanges = []
        for of_scene in facts:
            exchanges += [curriculum.asker.lettered(rng, fact) for fact in choose(rng, of_scene, QUESTIONS)]
        picture_of = np.repeat(np.arange(len(scenes)), QUESTIONS).tolist()
        blocks = make_seen_blocks(exchanges, picture_of, curriculum.pad)
        with torch.no_grad():
            outputs = block_logits(model, Batch(np.stack([s.picture for s in scenes]), blocks), curriculum.scaffold)
        for block, logits in outputs:
            for exchange, hit in letter_hits(block, logits):
                hits[exchange.kind].append(hit)
                hits["all"].append(hit)
    return {kind: float(np.mean(of_kind)) for kind, of_kind in sorted(hits.items())}
