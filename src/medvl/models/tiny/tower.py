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
from transformers import LlavaForConditionalGeneration

from medvl.models.tiny.batch import picture_features
from medvl.models.tiny.facts import KINDS, Fact

PROBED = tuple(name for name, kind in KINDS.items() if "{}" not in kind.questions[0] and name != "present")
"""Kinds that one query can answer (those about a named object need the question)."""


@dataclass(frozen=True, slots=True)
class Sight:
    """Pictures with their facts as class indices.

    Attributes:
        pictures: [P, H, W, 3] uint8.
        rows: [N] picture of each fact.
        kinds: [N] index into `PROBED`.
        classes: [N] index into the kind's answers.
    """

    pictures: np.ndarray[Any, np.dtype[np.uint8]]
    rows: torch.Tensor
    kinds: torch.Tensor
    classes: torch.Tensor


def make_sight(pictures: Sequence[np.ndarray[Any, Any]], facts: Sequence[Sequence[Fact]]) -> Sight:
    """Put pictures and the facts that a probe can answer into arrays."""
    rows, kinds, classes = [], [], []
    for row, of_picture in enumerate(facts):
        for fact in of_picture:
            if fact.kind in PROBED:
                rows.append(row)
                kinds.append(PROBED.index(fact.kind))
                classes.append(KINDS[fact.kind].answers.index(fact.answer))
    return Sight(np.stack(pictures), torch.tensor(rows), torch.tensor(kinds), torch.tensor(classes))


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

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """[P, tokens, D] features -> [P, kinds, answers] logits; absent answers get a very low logit."""
        seen = self.norm(features)
        asked = self.queries[None].expand(len(features), -1, -1)
        read = self.attention(asked, seen, seen, need_weights=False)[0]
        read = read + F.gelu(self.inner(read))
        logits = torch.einsum("pkd,kad->pka", read, self.names)
        absent = torch.arange(logits.shape[-1])[None, :] >= torch.tensor(self.sizes)[:, None]
        return logits.masked_fill(absent, -1e4)


def sight_loss(
    model: LlavaForConditionalGeneration, probe: Probe, sight: Sight
) -> tuple[torch.Tensor, list[tuple[str, bool]]]:
    """Cross-entropy over all facts, and for each fact its kind and whether the probe was right."""
    logits = probe(picture_features(model, sight.pictures))[sight.rows, sight.kinds]
    loss = F.cross_entropy(logits, sight.classes)
    hits = (logits.argmax(-1) == sight.classes).tolist()
    return loss, [(PROBED[k], bool(h)) for k, h in zip(sight.kinds.tolist(), hits, strict=True)]
