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

from medvl.models.tiny.facts import KINDS, Fact
from medvl.models.tiny.scenes import MARKS, TONES, Scene
from medvl.models.tiny.shapes import CANVAS_PX, EDGES, SHAPES, STRIPES, TEXTURES

PROBED = tuple(name for name, kind in KINDS.items() if "{}" not in kind.questions[0] and name != "present")
"""Kinds that one query can answer (those about a named object need the question)."""


PATCHES = 6
"""Patches along a side of the picture, as in the shipped model."""

TOKEN_LABELS: dict[str, tuple[str, ...]] = {
    "what": (*SHAPES, *(m for m in MARKS if m not in SHAPES and m != "nothing"), "body", "round end", "side mark"),
    "surface": (*TEXTURES, "hollow", "inner"),
    "tone": tuple(TONES),
    "edge": EDGES,
    "gap": ("closed", "broken"),
    "stripe": ("", *STRIPES),
    "boxed": ("no", "yes"),
}
"""What each picture token must tell about the object that covers it."""
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
    labels[..., -1] = 0
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
            "gap": ("closed" if thing.closed else "broken") if thing.surface == "hollow" else None,
            "stripe": thing.stripe,
            "boxed": "yes" if index == scene.boxed else "no",
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


class Probe(nn.Module):
    """One learned query a kind attends over the projected picture tokens; a linear layer names the answer."""

    def __init__(self, hidden: int, heads: int = 4) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.randn(len(PROBED), hidden) * 0.5)
        self.norm = nn.LayerNorm(hidden)
        self.attention = nn.MultiheadAttention(hidden, heads, batch_first=True)
        self.inner = nn.Linear(hidden, hidden)
        self.sizes = [len(KINDS[name].answers) for name in PROBED]
        self.names = nn.Parameter(torch.randn(len(PROBED), max(self.sizes), hidden) * 0.02)
        self.token_sizes = [len(answers) + (name == "what") for name, answers in TOKEN_LABELS.items()]
        self.token_names = nn.Linear(hidden, sum(self.token_sizes))

    def forward(self, features: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Read projected features.

        Args:
            features: [P, tokens, D].

        Returns:
            [P, kinds, answers] logits, very low for absent answers; and [P, tokens, classes] logits of each of
            `TOKEN_LABELS`.
        """
        seen = self.norm(features)
        asked = self.queries[None].expand(len(features), -1, -1)
        read = self.attention(asked, seen, seen, need_weights=False)[0]
        read = read + F.gelu(self.inner(read))
        logits = torch.einsum("pkd,kad->pka", read, self.names)
        absent = torch.arange(logits.shape[-1])[None, :] >= torch.tensor(self.sizes)[:, None]
        return logits.masked_fill(absent, -1e4), list(self.token_names(seen).split(self.token_sizes, dim=-1))


def sight_loss(probe: Probe, features: torch.Tensor, sight: Sight) -> tuple[torch.Tensor, list[tuple[str, bool]]]:
    """Cross-entropy over all facts and all token labels, and for each its name and whether the probe was right."""
    logits, of_tokens = probe(features)
    logits = logits[sight.rows, sight.kinds]
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
