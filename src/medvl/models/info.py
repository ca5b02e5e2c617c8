"""What can be said of a model option without its weights: from the option, from config.json, from the processor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvl.batching.collator import IGNORED, Collator
from medvl.batching.dataset import Sample
from medvl.benchmark.item import Item
from medvl.config.schema import ModelConfig
from medvl.models.families import Family
from medvl.models.locate import find_base

SIZES = ((224, 224), (448, 448), (540, 800), (1024, 1024))
"""Heights and widths in pixels that are shown where there is no benchmark."""

TYPICAL = (540, 800)
"""Height and width in pixels of the picture that memory is estimated for where there is no benchmark."""


@dataclass(frozen=True, slots=True)
class PictureCost:
    """What a picture costs.

    Attributes:
        height: Pixels.
        width: Pixels.
        tokens: Tokens of the row that stand in the place of its placeholder.
        states: States that cross-attention layers read beside the row; 0 for architectures without them.
        share: Share of the benchmark's items that have this size; None without a benchmark.
    """

    height: int
    width: int
    tokens: int
    states: int
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a rendered row.

    Attributes:
        text: Its text; a run of one control token is shortened to `token x n`.
        supervised: Whether the loss covers it.
    """

    text: str
    supervised: bool


def local_folder(config: ModelConfig) -> Path | None:
    """Folder with the model's config.json on this machine, or None; asks no network and needs no weights.

    Raises:
        ModelError: `model.path` names a folder without config.json.
    """
    if config.path is not None:
        return find_base(config)
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(str(config.hub_id), "config.json", revision=config.revision)
    return Path(found).parent if isinstance(found, str) else None


def picture_costs(
    processor: Any, family: Family, model_config: Any, items: Iterable[Item] | None, most: int = 6
) -> list[PictureCost]:
    """What pictures of the commonest sizes of a benchmark cost, or of some sizes without one; small ones first."""
    counts = Counter(dict.fromkeys(SIZES, 0))
    if items is not None:
        counts = Counter((item.height, item.width) for item in items)
    costs = []
    for (height, width), n in counts.most_common(most):
        cross = family.cross_tokens
        costs.append(
            PictureCost(
                height,
                width,
                tokens=family.picture_tokens(processor, height, width),
                states=0 if cross is None else cross(processor, model_config, height, width),
                share=n / counts.total() if items is not None else None,
            )
        )
    return sorted(costs, key=lambda cost: (cost.height * cost.width, cost.height))


def rendered(processor: Any, family: Family, sample: Sample) -> list[Piece]:
    """An item's training row as text, cut where supervision begins and ends."""
    batch = Collator(processor, with_answer=True, companions=family.companions)([sample])
    assert batch.labels is not None
    ids, supervised = batch.inputs["input_ids"][0].tolist(), (batch.labels[0] != IGNORED).tolist()
    control = set(processor.tokenizer.all_special_ids) | set(processor.tokenizer.added_tokens_decoder)
    runs: list[tuple[list[int], bool]] = []
    for token, taught in zip(ids, supervised, strict=True):
        alone = token in control
        if runs and runs[-1][1] == taught and (runs[-1][0][-1] == token if alone else runs[-1][0][-1] not in control):
            runs[-1][0].append(token)
        else:
            runs.append(([token], taught))
    pieces: list[Piece] = []
    for tokens, taught in runs:
        is_run = len(tokens) > 1 and tokens[0] in control
        text = processor.tokenizer.decode(tokens[:1] if is_run else tokens)
        pieces.append(Piece(f"{text} x {len(tokens)} " if is_run else text, taught))
    return pieces
