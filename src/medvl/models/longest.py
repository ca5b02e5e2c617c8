"""The longest row that a benchmark can make, found without reading a picture."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from medvl.batching.collator import IGNORED, Batch, Collator
from medvl.batching.dataset import Sample
from medvl.batching.prompt import question_text
from medvl.benchmark.item import Item
from medvl.models.families import Family


@dataclass(frozen=True, slots=True)
class RowSize:
    """How large one question with its picture is to a model.

    Attributes:
        tokens: Positions of the decoder: conversation, picture tokens and answer.
        patches: Positions of the vision tower.
        states: States that cross-attention layers read beside the row; 0 without such layers.
        answer: Supervised tokens.
    """

    tokens: int
    patches: int
    states: int
    answer: int


def longest_row(processor: Any, family: Family, model_config: Any, items: Iterable[Item]) -> RowSize:
    """Size of a row with the largest picture and the longest text of a benchmark, which need not be one item's.

    Args:
        processor: The model's processor, limits set.
        family: The model's architecture.
        model_config: transformers' configuration of the model.
        items: At least one.
    """
    items = list(items)
    talkative = max(items, key=lambda item: len(question_text(item)))
    sizes = {(item.height, item.width) for item in items}
    height, width = max(sizes, key=lambda size: (len(family.picture_text(processor, *size)), size[0] * size[1]))
    return row_size(processor, family, model_config, replace(talkative, height=height, width=width))


def row_size(processor: Any, family: Family, model_config: Any, item: Item) -> RowSize:
    """Size of one item's row, from a blank picture of its size."""
    collate = Collator(processor, with_answer=True, companions=family.companions)
    blank = np.zeros((item.height, item.width, 3), dtype=np.uint8)
    return rows_of(collate([Sample(item, blank)]), family, model_config)


def rows_of(batch: Batch, family: Family, model_config: Any) -> RowSize:
    """Size of the rows of a training batch whose pictures are all of one size."""
    assert batch.labels is not None
    tokens = batch.labels.shape[1]
    pixels, pictures = batch.inputs["pixel_values"], max(batch.picture_of) + 1
    side = getattr(model_config.vision_config, "patch_size", 0)
    side = side[0] if isinstance(side, (list, tuple)) else side
    patches = pixels.shape[0] if pixels.ndim == 2 else pixels.numel() // (3 * side * side)  # Qwen-VL: a row a patch
    return RowSize(
        tokens=tokens,
        patches=patches // pictures,
        states=patches // pictures if family.cross_tokens is not None else 0,
        answer=int((batch.labels != IGNORED).sum(dim=1).max()),
    )
