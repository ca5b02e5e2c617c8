from types import SimpleNamespace

import pytest
import torch

from medvl.models.branch_mask import branch_mask, takes_branches
from medvl.models.branches import branch

ROWS = {0: [9, 9, 1, 2, 3], 1: [9, 9, 1, 4], 2: [9, 9, 5, 6]}
"""Tokens of the branched row: 9 9 1 2 3 4 5 6."""


def text(model_type="llama", **facts):
    return SimpleNamespace(model_type=model_type, **facts)


@pytest.fixture
def tree():
    branched = branch(ROWS)
    return torch.tensor([branched.ends]), torch.tensor([branched.depths])


def sees(mask, asking):
    return mask[0, 0, asking].nonzero().flatten().tolist()


def test_a_token_sees_what_stands_before_it_in_its_own_row(tree):
    mask = branch_mask(text(), *tree, None, None)
    assert mask.shape == (1, 1, 8, 8)
    assert mask.dtype == torch.bool
    assert [sees(mask, k) for k in range(8)] == [
        *([0], [0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4]),
        *([0, 1, 2, 5], [0, 1, 6], [0, 1, 6, 7]),
    ]


def test_a_window_is_counted_along_the_own_row(tree):
    mask = branch_mask(text("mistral", sliding_window=2), *tree, None, None)
    assert sees(mask, 5) == [2, 5]  # depths 2 and 3, though three tokens lie between
    assert sees(mask, 7) == [6, 7]


def test_layer_types_have_a_mask_each(tree):
    kinds = ["sliding_attention", "full_attention", "sliding_attention"]
    masks = branch_mask(text("gemma3_text", layer_types=kinds, sliding_window=2), *tree, None, None)
    assert set(masks) == set(kinds)
    assert sees(masks["full_attention"], 4) == [0, 1, 2, 3, 4]
    assert sees(masks["sliding_attention"], 4) == [3, 4]


def test_tokens_of_a_picture_see_each_other_within_the_window(tree):
    blocks = torch.tensor([[0, 0, -1, -1, -1, -1, -1, -1]])
    kinds = ["sliding_attention", "full_attention"]
    masks = branch_mask(text("gemma3_text", layer_types=kinds, sliding_window=1), *tree, blocks, None)
    assert sees(masks["full_attention"], 0) == [0, 1]
    assert sees(masks["full_attention"], 2) == [0, 1, 2]
    # A window bounds how far back a token looks, not how far ahead.
    assert sees(masks["sliding_attention"], 0) == [0, 1]
    assert sees(masks["sliding_attention"], 1) == [1]


def test_what_fills_a_row_up_sees_itself_and_is_not_seen():
    mask = branch_mask(text(), torch.tensor([[2, 2, 3, 4]]), torch.tensor([[0, 1, 1, 1]]), None, None)
    assert [sees(mask, k) for k in range(4)] == [[0], [0, 1], [2], [3]]


def test_eager_attention_adds_a_mask(tree):
    mask = branch_mask(text(), *tree, None, torch.float32)
    allowed = branch_mask(text(), *tree, None, None)
    assert (mask[allowed] == 0).all()
    assert (mask[~allowed] == torch.finfo(torch.float32).min).all()


@pytest.mark.parametrize(
    ("config", "taken"),
    [
        (text("llama"), True),
        (text("qwen2", layer_types=["full_attention"]), True),
        (text("qwen2", layer_types=["full_attention", "linear_attention"]), False),
        (text("gemma3_text", layer_types=["full_attention"], use_bidirectional_attention=True), False),
        (text("phi"), False),
    ],
)
def test_only_decoders_whose_masks_are_known_take_branches(config, taken):
    assert takes_branches(config) == taken
