from __future__ import annotations

import numpy as np
import pytest
import torch

from medvl.models.tiny.architecture import TinySize, build_model
from medvl.models.tiny.batch import (
    Batch,
    batch_loss,
    block_logits,
    letter_hits,
    make_block,
    make_seen_blocks,
)
from medvl.models.tiny.dialogue import choice, make_scaffold, open_question
from medvl.models.tiny.tokenizer import train_tokenizer

TOKENIZER = train_tokenizer()
SCAFFOLD = make_scaffold(TOKENIZER)
SIZE = TinySize(picture_px=32, hidden=32, layers=2, heads=2, inner=48)
PAD = TOKENIZER.pad_token_id


def ids(text: str) -> list[int]:
    return TOKENIZER.encode(text, add_special_tokens=False)


@pytest.fixture(scope="module")
def model():
    return build_model(TOKENIZER, SIZE, 3).eval()


@pytest.fixture(scope="module")
def exchanges():
    options = [ids(" dot"), ids(" ring of dots"), ids(" star")]
    return [
        choice(SCAFFOLD, "a", ids("Which?"), options, 2),
        open_question(SCAFFOLD, "b", ids("What is in the picture?"), ids("dot")),
        choice(SCAFFOLD, "c", ids("Which is it?"), options[:2], 0, with_words=True, words=ids("dot")),
        choice(SCAFFOLD, "d", ids("Find the dot."), options, 0),
    ]


def test_sharing_a_picture_gives_the_logits_of_plain_calls(model, exchanges):
    pictures = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3)).astype(np.uint8)
    batch = Batch(pictures, make_seen_blocks(exchanges, [0, 0, 1, 1], PAD, buckets=2))
    image = TOKENIZER.convert_tokens_to_ids("<image>")
    checked = 0
    with torch.no_grad():
        for block, logits in block_logits(model, batch, SCAFFOLD):
            for row, exchange in enumerate(block.exchanges):
                whole = [*SCAFFOLD.opening, *[image] * SIZE.picture_tokens, SCAFFOLD.line]
                whole += [*exchange.prompt, *exchange.answer]
                pixels = torch.from_numpy(pictures[exchanges.index(exchange) // 2]).permute(2, 0, 1)[None]
                plain = model(input_ids=torch.tensor([whole]), pixel_values=pixels.float() / 127.5 - 1).logits[0]
                expected = plain[-len(exchange.answer) - 1 : -1]
                assert torch.allclose(logits[block.rows == row], expected, atol=2e-5)
                checked += 1
    assert checked == len(exchanges)


def test_text_rows_give_the_logits_of_plain_calls(model, exchanges):
    batch = Batch(None, (make_block(exchanges, PAD, SCAFFOLD.opening),))
    with torch.no_grad():
        ((block, logits),) = block_logits(model, batch, SCAFFOLD)
        for row, exchange in enumerate(exchanges):
            whole = torch.tensor([[*SCAFFOLD.opening, *exchange.prompt, *exchange.answer]])
            expected = model(input_ids=whole).logits[0, -len(exchange.answer) - 1 : -1]
            assert torch.allclose(logits[block.rows == row], expected, atol=2e-5)


def test_loss_is_the_weighted_mean_over_answers_only(exchanges):
    block = make_block(exchanges[:2], PAD)
    assert block.targets.tolist() == [*exchanges[0].answer, *exchanges[1].answer]
    logits = torch.zeros(len(block.targets), len(TOKENIZER))
    assert batch_loss([(block, logits)]).item() == pytest.approx(np.log(len(TOKENIZER)), rel=1e-5)
    logits[torch.arange(2), block.targets[:2]] = 100.0  # the first answer is right: weight 1 of 1.5
    assert batch_loss([(block, logits)]).item() == pytest.approx(np.log(len(TOKENIZER)) / 3, rel=1e-5)


def test_hits_look_at_the_letter(exchanges):
    block = make_block(exchanges, PAD)
    logits = torch.zeros(len(block.targets), len(TOKENIZER))
    logits[torch.arange(len(block.targets)), block.targets] = 1.0
    logits[block.letter_at[3], SCAFFOLD.letters[1]] = 2.0
    assert [(e.kind, hit) for e, hit in letter_hits(block, logits)] == [("a", True), ("c", True), ("d", False)]
