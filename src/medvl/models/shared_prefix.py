"""Logits at the answer position, where the questions of one picture share what they have in common.

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

from medvl.models.answer_head import apply_head, logits_at
from medvl.models.branch_mask import branch_mask, takes_branches
from medvl.models.branches import Branched, alike_in_length, branch, worth_sharing
from medvl.models.families import FAMILIES, Family
from medvl.models.pictures import EncodedPictures

LEAST_FILLED = 0.75
"""Share of the longest branched row that one which is computed with it has at least: what is filled up is wasted."""


def answer_logits(
    model: Any,
    inputs: dict[str, Tensor],
    answer_position: Tensor,
    same_picture: Sequence[int],
    *,
    shared_prefix: bool = True,
) -> Tensor:
    """Output logits at the answer position of each row.

    Args:
        model: A transformers image-text model, with or without a PEFT adapter.
        inputs: What its processor made, with `input_ids` and `attention_mask` int64 [B, T], padded on either side.
        answer_position: int64 [B].
        same_picture: For each row, the first row that shows the same picture (`Batch.same_picture`).
        shared_prefix: False computes every row for itself, its picture excepted. So does a family or a decoder that
            cannot share (`Abilities.branched_rows`), and a batch with nothing to share.

    Returns:
        float32 [B, V], see `logits_at`.

    Raises:
        ModelError: See `Companions.check`.
    """
    bare = model.get_base_model() if hasattr(model, "get_base_model") else model
    family = FAMILIES.get(bare.config.model_type)
    if shared_prefix and family is not None and can_branch(bare, family):
        branched = _branched_rows(bare, inputs, answer_position, same_picture)
        if len(branched) < len(same_picture):
            family.companions.check(inputs, pictures="pixel_values" in inputs)
            return apply_head(bare, _last_states(bare, family, inputs, branched, same_picture))
    chosen = torch.zeros_like(inputs["input_ids"], dtype=torch.bool)
    chosen[torch.arange(len(chosen), device=chosen.device), answer_position] = True
    return logits_at(model, inputs, chosen, same_picture=same_picture)


def can_branch(bare: Any, family: Family) -> bool:
    """Whether the questions of one picture can share a row.

    Args:
        bare: A transformers image-text model without the wrapper of an adapter.
        family: Its architecture.
    """
    return family.abilities.branched_rows and takes_branches(bare.config.get_text_config())


def _branched_rows(
    bare: Any, inputs: dict[str, Tensor], answer_position: Tensor, same_picture: Sequence[int]
) -> list[Branched]:
    """One row for the questions of each picture; several where one would cost more."""
    starts = inputs["attention_mask"].argmax(dim=1).tolist()
    ends = answer_position.tolist()
    picture_token = bare.config.image_token_id
    groups: dict[tuple[int, tuple[int, ...]], dict[int, list[int]]] = {}
    for row, ids in enumerate(inputs["input_ids"].tolist()):
        tokens = ids[starts[row] : ends[row] + 1]
        shown = [place for place, token in enumerate(tokens) if token == picture_token]
        # The tokens of a picture have to be shared: it goes into a row once.
        head = tuple(tokens[: shown[-1] + 1]) if shown else ()
        groups.setdefault((same_picture[row], head), {})[row] = tokens
    width = bare.config.get_text_config().hidden_size
    return [
        branch({row: rows[row] for row in chosen}) for rows in groups.values() for chosen in worth_sharing(rows, width)
    ]


def _last_states(
    bare: Any, family: Family, inputs: dict[str, Tensor], branched: list[Branched], same_picture: Sequence[int]
) -> Tensor:
    """Hidden states at the last token of each row, [B, D]."""
    text = bare.config.get_text_config()
    device = inputs["input_ids"].device
    starts = inputs["attention_mask"].argmax(dim=1)
    has_pictures = "pixel_values" in inputs
    pictures = EncodedPictures(bare, family, inputs, sorted(set(same_picture))) if has_pictures else None
    positions = family.positions(bare, inputs) if has_pictures and family.positions is not None else None
    blocks = family.blocks(inputs) if family.blocks is not None else None
    eager = text._attn_implementation == "eager"
    answered: list[int] = []
    states: list[Tensor] = []
    for numbers in alike_in_length(branched, LEAST_FILLED):
        chosen = [branched[number] for number in numbers]
        rows, depths, ends = (part.to(device) for part in _filled_up(chosen))
        place = starts[rows] + depths
        tokenwise = {
            name: inputs[name][rows, place] for name in ("input_ids", "cross_attention_mask") if name in inputs
        }
        shown = [same_picture[one.rows[0]] for one in chosen]
        with _in_sdpa(text):
            hidden = bare.model(
                **tokenwise,
                **(pictures.inputs(shown) if pictures is not None else {}),
                position_ids=depths if positions is None else positions[:, rows, place],
                attention_mask=branch_mask(
                    text, ends, depths, None if blocks is None else blocks[rows, place], bare.dtype if eager else None
                ),
                use_cache=False,
            ).last_hidden_state
        last = [(number, leaf) for number, one in enumerate(chosen) for leaf in one.leaves.values()]
        states.append(hidden[tuple(torch.tensor(last, device=device).T)])
        answered += [row for one in chosen for row in one.leaves]
    return torch.cat(states)[torch.tensor(answered, device=device).argsort()]


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
