"""Batches and the loss: distinct pictures are encoded once and their prefix is shared by all their questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from transformers import DynamicCache, LlavaForConditionalGeneration

from medvl.models.tiny.dialogue import Exchange, Scaffold

FORM_WEIGHTS = {"letter": 1.0, "both": 0.7, "open": 0.5}
"""Weight of an exchange in the loss by form of answer; spread evenly over its supervised tokens."""


@dataclass(frozen=True, slots=True)
class Block:
    """Exchanges as right-padded rows.

    Attributes:
        ids: [B, T] int64 token ids.
        rows: [S] row of each supervised position.
        columns: [S] column whose output predicts the supervised token.
        targets: [S] supervised ids.
        weights: [S] float32.
        letter_at: [B] index into S of the letter, for exchanges with options; -1 elsewhere.
        exchanges: The exchanges, in row order.
        picture_of: [B] index of each row's picture; None for rows without a picture.
    """

    ids: torch.Tensor
    rows: torch.Tensor
    columns: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor
    letter_at: torch.Tensor
    exchanges: tuple[Exchange, ...]
    picture_of: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """One step's data.

    Attributes:
        pictures: [P, H, W, 3] uint8 RGB, or None.
        blocks: Rows about the pictures, and rows without a picture (the opening of the user turn in the row).
    """

    pictures: np.ndarray[Any, np.dtype[np.uint8]] | None
    blocks: tuple[Block, ...]


def make_seen_blocks(
    exchanges: Sequence[Exchange], picture_of: Sequence[int], pad: int, buckets: int = 3
) -> tuple[Block, ...]:
    """Lay exchanges about pictures out as blocks of like length, so that little is padded."""
    order = np.argsort([len(e.prompt) + len(e.answer) for e in exchanges], kind="stable")
    blocks = []
    for rows in np.array_split(order, min(buckets, len(order))):
        block = make_block([exchanges[i] for i in rows], pad)
        blocks.append(replace(block, picture_of=torch.tensor([picture_of[i] for i in rows])))
    return tuple(blocks)


def make_block(exchanges: Sequence[Exchange], pad: int, opening: Sequence[int] = ()) -> Block:
    """Lay exchanges out as rows, padded on the right to the longest."""
    # The last token of an answer predicts nothing, so it is not fed.
    length = max(len(opening) + len(e.prompt) + len(e.answer) - 1 for e in exchanges)
    ids = np.full((len(exchanges), length), pad, dtype=np.int64)
    rows: list[int] = []
    columns: list[int] = []
    targets: list[int] = []
    weights: list[float] = []
    letter_at: list[int] = []
    for row, exchange in enumerate(exchanges):
        fed = [*opening, *exchange.prompt, *exchange.answer[:-1]]
        ids[row, : len(fed)] = fed
        start, size = len(opening) + len(exchange.prompt) - 1, len(exchange.answer)
        letter_at.append(len(targets) + size - 2 if exchange.n_options else -1)
        rows += [row] * size
        columns += range(start, start + size)
        targets += exchange.answer
        weights += [FORM_WEIGHTS[exchange.form] / size] * size
    return Block(
        ids=torch.from_numpy(ids),
        rows=torch.tensor(rows),
        columns=torch.tensor(columns),
        targets=torch.tensor(targets),
        weights=torch.tensor(weights, dtype=torch.float32),
        letter_at=torch.tensor(letter_at),
        exchanges=tuple(exchanges),
    )


def picture_features(model: LlavaForConditionalGeneration, pictures: np.ndarray[Any, Any]) -> torch.Tensor:
    """[P, tokens, D] picture tokens as the decoder gets them, of [P, H, W, 3] uint8 RGB pictures."""
    pixels = torch.from_numpy(pictures).permute(0, 3, 1, 2).float().div_(127.5).sub_(1.0)
    config = model.config
    features = model.model.get_image_features(
        pixel_values=pixels,
        vision_feature_layer=config.vision_feature_layer,
        vision_feature_select_strategy=config.vision_feature_select_strategy,
    ).pooler_output
    return torch.stack(list(features))


def _prefix_cache(
    model: LlavaForConditionalGeneration, features: torch.Tensor, scaffold: Scaffold
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Keys and values of every layer for the opening of the user turn, the picture and the line break after it."""
    embed = model.get_input_embeddings()
    edges = embed(torch.tensor([*scaffold.opening, scaffold.line]))[None].expand(len(features), -1, -1)
    n_open = len(scaffold.opening)
    prefix = torch.cat([edges[:, :n_open], features, edges[:, n_open:]], dim=1)
    cache = DynamicCache()
    model.model.language_model(inputs_embeds=prefix, cache=cache, use_cache=True)
    return [(layer.keys, layer.values) for layer in cache.layers]


def block_logits(
    model: LlavaForConditionalGeneration,
    batch: Batch,
    scaffold: Scaffold,
    features: torch.Tensor | None = None,
) -> list[tuple[Block, torch.Tensor]]:
    """Run the model on a batch.

    Args:
        model: The tiny model.
        batch: The batch.
        scaffold: Fixed ids.
        features: [P, tokens, D] of the batch's pictures where they are known already.

    Returns:
        Pairs of block and its [S, V] logits.
    """
    decoder, embed = model.model.language_model, model.get_input_embeddings()
    if features is None and batch.pictures is not None:
        features = picture_features(model, batch.pictures)
    prefix = [] if features is None else _prefix_cache(model, features, scaffold)
    out = []
    for block in batch.blocks:
        cache = None
        if block.picture_of is not None:
            cache = DynamicCache()
            for layer, (keys, values) in enumerate(prefix):
                cache.update(keys[block.picture_of], values[block.picture_of], layer)
        # Rows are padded on the right, so the causal mask already hides the padding from every supervised position.
        hidden = decoder(inputs_embeds=embed(block.ids), cache=cache, use_cache=cache is not None).last_hidden_state
        out.append((block, model.lm_head(hidden[block.rows, block.columns])))
    return out


def batch_loss(outputs: list[tuple[Block, torch.Tensor]]) -> torch.Tensor:
    """Weighted cross-entropy over the supervised tokens of all blocks, divided by the sum of the weights."""
    total = torch.zeros(())
    weight = 0.0
    for block, logits in outputs:
        losses = F.cross_entropy(logits.float(), block.targets, reduction="none")
        total = total + (losses * block.weights).sum()
        weight += float(block.weights.sum())
    return total / weight


def letter_hits(block: Block, logits: torch.Tensor) -> list[tuple[Exchange, bool]]:
    """For every exchange with options: whether the most probable token of the vocabulary is the right letter."""
    best = logits.argmax(-1)
    return [
        (exchange, bool(best[at] == block.targets[at]))
        for exchange, at in zip(block.exchanges, block.letter_at.tolist(), strict=True)
        if at >= 0
    ]
