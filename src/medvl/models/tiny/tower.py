"""First part of pretraining: the vision tower learns to see the facts of a scene, as real towers are pretrained first.

A throw-away probe reads every fact from the picture tokens that the decoder will get later. A picture costs an eighth
of what it costs with the decoder, and every fact of it teaches at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from transformers import PreTrainedTokenizerFast

from medvl.models.tiny.facts import COUNTS, KINDS, Fact
from medvl.models.tiny.scenes import DIRECTIONS, MARKS, PLACES, SIZES, TONES, Scene
from medvl.models.tiny.shapes import CANVAS_PX, EDGES, SHAPES, STRIPES, TEXTURES

PROBED = tuple(name for name, kind in KINDS.items() if "{}" not in kind.questions[0] and name != "present")
"""Kinds that one query can answer (those about a named object need the question)."""


PATCHES = 6
"""Patches along a side of the picture, as in the shipped model."""

NOTHING = ""
"""A label that no word says."""

TOKEN_LABELS: dict[str, tuple[str, ...]] = {
    "what": (*SHAPES, *(m for m in MARKS if m not in SHAPES and m != "nothing"), "body", "round end", "side mark"),
    "surface": (*TEXTURES, "hollow", "inner"),
    "tone": tuple(TONES),
    "edge": EDGES,
    "gap": ("closed outline", "broken outline"),
    "stripe": STRIPES,
    "size": tuple(SIZES),
    "place": PLACES,
    "count": COUNTS,
    "way": DIRECTIONS,
    "side": ("left", "right", "above", "below"),
    "boxed": ("red box", NOTHING),
}
"""What each picture token must tell about the object that covers it."""
LIKENESS_SCALE = 20.0
"""Factor on the cosine of a token and a word."""
ABSENT = -100
"""Label of a token that no object covers (but `what` and `boxed`, which say so)."""


@dataclass(frozen=True, slots=True)
class Sight:
    """Pictures with their facts as class indices.

    Attributes:
        pictures: [P, H, W, 3] uint8.
        rows: [N] picture of each fact.
        kinds: [N] index into `PROBED`.
        classes: [N] index into the kind's answers.
        tokens: [P, tokens, labels] class of each token for each of `TOKEN_LABELS`; the last class of `what` is none.
    """

    pictures: np.ndarray[Any, np.dtype[np.uint8]]
    rows: torch.Tensor
    kinds: torch.Tensor
    classes: torch.Tensor
    tokens: torch.Tensor


def token_labels(scene: Scene) -> np.ndarray[Any, np.dtype[np.int64]]:
    """[tokens, labels] class indices of a scene. A token tells about the last-drawn object that covers much of it."""
    labels = np.full((PATCHES, PATCHES, len(TOKEN_LABELS)), ABSENT, np.int64)
    labels[..., 0] = len(TOKEN_LABELS["what"])
    labels[..., -1] = TOKEN_LABELS["boxed"].index(NOTHING)
    side = CANVAS_PX / PATCHES
    edges = np.arange(PATCHES) * side
    for index, thing in enumerate(scene.things):
        x0, y0, x1, y1 = thing.bbox
        wide = np.clip(np.minimum(x1, edges + side) - np.maximum(x0, edges), 0, None)
        high = np.clip(np.minimum(y1, edges + side) - np.maximum(y0, edges), 0, None)
        # Half of what the object could cover of a patch at most, so that the smallest object keeps one.
        at_x = wide > 0.5 * min(side, wide.max())
        at_y = high > 0.5 * min(side, high.max())
        told = {
            "what": thing.shape,
            "surface": thing.surface,
            "tone": thing.tone if thing.surface in ("plain", "hollow") else None,
            "edge": thing.edge if thing.size == "large" else None,
            "gap": ("closed outline" if thing.closed else "broken outline") if thing.surface == "hollow" else None,
            "stripe": thing.stripe or None,
            "size": thing.size if scene.layout == "single" else None,
            "place": PLACES[thing.place] if thing.place >= 0 and thing.size != "large" else None,
            "count": COUNTS[len(scene.things) - 1] if scene.layout == "several" else None,
            "way": scene.facts["points"] if thing.shape == "round end" else None,
            "side": scene.facts["side"] if thing.shape == "side mark" else None,
            "boxed": "red box" if index == scene.boxed else NOTHING,
        }
        values = [ABSENT if v is None else TOKEN_LABELS[k].index(v) for k, v in told.items()]
        labels[np.ix_(at_y, at_x)] = values
    return labels.reshape(PATCHES * PATCHES, -1)


def make_sight(scenes: Sequence[Scene], facts: Sequence[Sequence[Fact]]) -> Sight:
    """Put scenes and the facts that a probe can answer into arrays."""
    rows, kinds, classes = [], [], []
    for row, of_picture in enumerate(facts):
        for fact in of_picture:
            if fact.kind in PROBED:
                rows.append(row)
                kinds.append(PROBED.index(fact.kind))
                classes.append(KINDS[fact.kind].answers.index(fact.answer))
    tokens = torch.from_numpy(np.stack([token_labels(scene) for scene in scenes]))
    pictures = np.stack([scene.picture for scene in scenes])
    return Sight(pictures, torch.tensor(rows), torch.tensor(kinds), torch.tensor(classes), tokens)


def label_tokens(tokenizer: PreTrainedTokenizerFast) -> list[list[list[int]]]:
    """Token ids of every class of each of `TOKEN_LABELS` as they stand in an option; none for a class without words.

    The classes of `what` end with the one for a token that no object covers.
    """
    classes = [(*answers, NOTHING) if name == "what" else answers for name, answers in TOKEN_LABELS.items()]
    return [[tokenizer.encode(" " + text, add_special_tokens=False) if text else [] for text in of] for of in classes]


class Probe(nn.Module):
    """Reads facts from the projected picture tokens.

    Facts of the whole picture: one learned query a kind attends over the tokens, and a linear layer names the answer.
    Labels of single tokens: by their likeness to the decoder's embeddings of the words. So the decoder, which finds an
    option that says the same as words before it, can find the one that says the same as a picture token.

    Args:
        hidden: Width of the model.
        label_ids: See `label_tokens`.
        heads: Attention heads of the queries.
    """

    def __init__(self, hidden: int, label_ids: list[list[list[int]]], heads: int = 4) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.randn(len(PROBED), hidden) * 0.5)
        self.norm = nn.LayerNorm(hidden)
        self.attention = nn.MultiheadAttention(hidden, heads, batch_first=True)
        self.inner = nn.Linear(hidden, hidden)
        self.sizes = [len(KINDS[name].answers) for name in PROBED]
        self.names = nn.Parameter(torch.randn(len(PROBED), max(self.sizes), hidden) * 0.02)
        self.label_ids = label_ids
        self.wordless = nn.Parameter(torch.randn(len(label_ids), hidden) * 0.02)

    def told_by(self, features: torch.Tensor, words: torch.Tensor) -> list[torch.Tensor]:
        """[P, tokens, classes] logits of each of `TOKEN_LABELS`, from [P, tokens, D] features and [V, D] embeddings."""
        logits = []
        for label, ids in enumerate(self.label_ids):
            rows = [words[of].mean(0) if of else self.wordless[label] for of in ids]
            classes = F.normalize(torch.stack(rows), dim=-1)
            logits.append(LIKENESS_SCALE * F.normalize(features, dim=-1) @ classes.T)
        return logits

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """[P, kinds, answers] logits of the facts, very low for absent answers, from [P, tokens, D] features."""
        seen = self.norm(features)
        asked = self.queries[None].expand(len(features), -1, -1)
        read = self.attention(asked, seen, seen, need_weights=False)[0]
        read = read + F.gelu(self.inner(read))
        logits = torch.einsum("pkd,kad->pka", read, self.names)
        absent = torch.arange(logits.shape[-1])[None, :] >= torch.tensor(self.sizes)[:, None]
        return logits.masked_fill(absent, -1e4)


def sight_loss(
    probe: Probe, features: torch.Tensor, words: torch.Tensor, sight: Sight
) -> tuple[torch.Tensor, list[tuple[str, bool]]]:
    """Cross-entropy over all facts and all token labels, and for each its name and whether the probe was right.

    Args:
        probe: The probe.
        features: [P, tokens, D] projected picture tokens.
        words: [V, D] embeddings of the decoder; not trained by this.
        sight: What is true of the pictures.
    """
    of_tokens = probe.told_by(features, words.detach())
    logits = probe(features)[sight.rows, sight.kinds]
    weights = torch.tensor([KINDS[name].weight for name in PROBED])[sight.kinds]
    loss = (F.cross_entropy(logits, sight.classes, reduction="none") * weights).sum() / weights.sum()
    hits = (logits.argmax(-1) == sight.classes).tolist()
    told = [(PROBED[k], bool(h)) for k, h in zip(sight.kinds.tolist(), hits, strict=True)]
    for i, name in enumerate(TOKEN_LABELS):
        labels = sight.tokens[..., i]
        known = labels != ABSENT
        if name == "what":
            known &= (labels < len(TOKEN_LABELS[name])) | (torch.arange(labels.shape[1]) % 3 == 0)
        if known.any():
            chosen, wanted = of_tokens[i][known], labels[known]
            loss = loss + F.cross_entropy(chosen, wanted)
            told += [(f"token {name}", bool(h)) for h in (chosen.argmax(-1) == wanted).tolist()]
    return loss, told
