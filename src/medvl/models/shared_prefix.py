"""Logits at chosen positions, where the questions of one picture share what they have in common.

The questions of a picture begin alike: its tokens, and for variants of one question its stem as well. They are laid
out as one branched row (see `branches`), in which every token has the position and sees the tokens that it would in a
row of its own, so that each token they share goes through the decoder once. This is exact but for rounding, needs no
cache, and holds for gradients too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from medvl.models.answer_head import answer_mask, apply_head, logits_at
from medvl.models.branch_mask import branch_mask, takes_branches
from medvl.models.branches import Branched, alike_in_length, branch, worth_sharing
from medvl.models.families import FAMILIES, Family
from medvl.models.pictures import EncodedPictures, of_rows

LEAST_FILLED = 0.75
"""Share of the longest branched row that one which is computed with it has at least: what is filled up is wasted."""


def shared_logits(
    model: Any,
    inputs: dict[str, Tensor],
    positions: Tensor,
    picture_of: Sequence[int],
    *,
    shared_prefix: bool = True,
) -> Tensor:
    """Output logits at chosen positions, as `logits_at` gives them.

    Args:
        model: A transformers image-text model, with or without a PEFT adapter.
        inputs: What its processor made, with `input_ids` and `attention_mask` int64 [B, T], padded on either side, and
            each picture once.
        positions: bool [B, T]. What stands behind the last of a row is not computed, nor are rows without any.
        picture_of: For each row, the number of the picture it shows (`Batch.picture_of`).
        shared_prefix: False computes every row for itself, its picture excepted. So does a family or a decoder that
            cannot share (`Abilities.branched_rows`), and a batch with nothing to share.

    Returns:
        float32 [N, V] for the N chosen positions, row by row.

    Raises:
        ModelError: See `Companions.check`.
    """
    bare = model.get_base_model() if hasattr(model, "get_base_model") else model
    family = FAMILIES.get(bare.config.model_type)
    if shared_prefix and family is not None and can_branch(bare, family) and positions.any():
        branched = _branched_rows(bare, inputs, positions, picture_of)
        if len(branched) < int(positions.any(dim=1).sum()):
            family.companions.check(inputs, pictures="pixel_values" in inputs)
            return apply_head(bare, _states_at(bare, family, inputs, positions, branched, picture_of))
    return logits_at(model, inputs, positions, picture_of=picture_of)


def answer_logits(
    model: Any,
    inputs: dict[str, Tensor],
    answer_position: Tensor,
    picture_of: Sequence[int],
    *,
    shared_prefix: bool = True,
) -> Tensor:
    """Output logits at the answer position of each row, see `shared_logits`.

    Args:
        model: The same.
        inputs: The same.
        answer_position: int64 [B].
        picture_of: The same.
        shared_prefix: The same.

    Returns:
        float32 [B, V].
    """
    positions = answer_mask(inputs, answer_position)
    return shared_logits(model, inputs, positions, picture_of, shared_prefix=shared_prefix)


def can_branch(bare: Any, family: Family) -> bool:
    """Whether the questions of one picture can share a row.

    Args:
        bare: A transformers image-text model without the wrapper of an adapter.
        family: Its architecture.
    """
    text = bare.config.get_text_config()
    # FlashAttention is lent another attention for the moment (see `_in_sdpa`), which layers that are computed again in
    # the backward pass would no longer find.
    lends_in_vain = torch.is_grad_enabled() and text._attn_implementation not in ("sdpa", "eager")
    return family.abilities.branched_rows and takes_branches(text) and not lends_in_vain


def _branched_rows(
    bare: Any, inputs: dict[str, Tensor], positions: Tensor, picture_of: Sequence[int]
) -> list[Branched]:
    """One row for the questions of each picture; several where one would cost more."""
    starts = inputs["attention_mask"].argmax(dim=1).tolist()
    ends = (positions.shape[1] - 1 - positions.flip(1).int().argmax(dim=1)).tolist()
    picture_token = bare.config.image_token_id
    groups: dict[tuple[int, tuple[int, ...]], dict[int, list[int]]] = {}
    asked = positions.any(dim=1).tolist()
    for row, ids in enumerate(inputs["input_ids"].tolist()):
        if not asked[row]:
            continue
        tokens = ids[starts[row] : ends[row] + 1]
        shown = [place for place, token in enumerate(tokens) if token == picture_token]
        # The tokens of a picture have to be shared: it goes into a row once.
        head = tuple(tokens[: shown[-1] + 1]) if shown else ()
        groups.setdefault((picture_of[row], head), {})[row] = tokens
    width = bare.config.get_text_config().hidden_size
    return [
        branch({row: rows[row] for row in chosen}) for rows in groups.values() for chosen in worth_sharing(rows, width)
    ]


def _states_at(
    bare: Any,
    family: Family,
    inputs: dict[str, Tensor],
    positions: Tensor,
    branched: list[Branched],
    picture_of: Sequence[int],
) -> Tensor:
    """Hidden states at chosen positions, [N, D], row by row."""
    text = bare.config.get_text_config()
    device = inputs["input_ids"].device
    starts = inputs["attention_mask"].argmax(dim=1)
    has_pictures = "pixel_values" in inputs
    pictures = EncodedPictures(bare, family, inputs, picture_of) if has_pictures else None
    axes = None
    if has_pictures and family.positions is not None:
        axes = family.positions(bare, of_rows(inputs, picture_of))
    blocks = family.blocks(inputs) if family.blocks is not None else None
    eager = text._attn_implementation == "eager"
    wanted = [(row, place - int(starts[row])) for row, place in positions.nonzero().tolist()]
    depths_of: dict[int, list[int]] = {}
    for row, depth in wanted:
        depths_of.setdefault(row, []).append(depth)
    found: list[tuple[int, int]] = []
    states: list[Tensor] = []
    for numbers in alike_in_length(branched, LEAST_FILLED):
        chosen = [branched[number] for number in numbers]
        rows, depths, ends = (part.to(device) for part in _filled_up(chosen))
        place = starts[rows] + depths
        tokenwise = {
            name: inputs[name][rows, place] for name in ("input_ids", "cross_attention_mask") if name in inputs
        }
        shown = [picture_of[one.rows[0]] for one in chosen]
        with _in_sdpa(text):
            hidden = bare.model(
                **tokenwise,
                **(pictures.inputs(shown) if pictures is not None else {}),
                position_ids=depths if axes is None else axes[:, rows, place],
                attention_mask=branch_mask(
                    text, ends, depths, None if blocks is None else blocks[rows, place], bare.dtype if eager else None
                ),
                use_cache=False,
            ).last_hidden_state
        asked = [
            (number, row, depth) for number, one in enumerate(chosen) for row in one.paths for depth in depths_of[row]
        ]
        tokens = [(number, chosen[number].paths[row][depth]) for number, row, depth in asked]
        states.append(hidden[tuple(torch.tensor(tokens, device=device).T)])
        found += [(row, depth) for _, row, depth in asked]
    place_of = {one: number for number, one in enumerate(found)}
    return torch.cat(states)[torch.tensor([place_of[one] for one in wanted], device=device)]


def _filled_up(branched: Sequence[Branched]) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, depths and ends as int64 [N, T]; short ones are filled up with copies of their last token, unseen."""
    longest = max(map(len, branched))
    rows, depths, ends = [], [], []
    for one in branched:
        more = longest - len(one)
        rows.append(one.rows + one.rows[-1:] * more)
        depths.append(one.depths + one.depths[-1:] * more)
        ends.append([*one.ends, *range(len(one) + 1, longest + 1)])
    return torch.tensor(rows), torch.tensor(depths), torch.tensor(ends)


@contextmanager
def _in_sdpa(text: Any) -> Iterator[None]:
    """FlashAttention takes no mask of one's own, so a decoder that uses it is lent sdpa."""
    before = text._attn_implementation
    if before not in ("sdpa", "eager"):
        text._attn_implementation = "sdpa"
    try:
        yield
    finally:
        text._attn_implementation = before
