from __future__ import annotations

import torch

from medvl.models.tiny.architecture import TinySize, build_model, build_processor
from medvl.models.tiny.tokenizer import train_tokenizer

TOKENIZER = train_tokenizer()
SMALL = TinySize(picture_px=32, hidden=32, layers=1, heads=2, inner=32)


def test_the_seed_decides_the_weights_and_leaves_the_global_generator_alone():
    torch.manual_seed(5)
    one = build_model(TOKENIZER, SMALL, 1).state_dict()
    after = torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(after, torch.rand(1))
    two, other = build_model(TOKENIZER, SMALL, 1).state_dict(), build_model(TOKENIZER, SMALL, 2).state_dict()
    assert all(torch.equal(one[k], two[k]) for k in one)
    assert not torch.equal(
        one["model.language_model.embed_tokens.weight"], other["model.language_model.embed_tokens.weight"]
    )


def test_the_shipped_size_is_a_few_million_parameters_with_tied_embeddings():
    model = build_model(TOKENIZER, TinySize(), 0)
    assert 1_500_000 < sum(p.numel() for p in model.parameters()) < 2_500_000
    assert model.lm_head.weight is model.get_input_embeddings().weight


def test_every_layer_of_the_tower_reaches_the_answer():
    model = build_model(TOKENIZER, SMALL, 0)
    picture = torch.rand(1, 3, 32, 32)
    ids = torch.tensor([[*[model.config.image_token_index] * SMALL.picture_tokens, 10, 11]])
    model(input_ids=ids, pixel_values=picture).logits[0, -1, 5].backward()
    silent = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    # LLaVA reads the tower before its last norm.
    assert {n.split(".")[-2] for n in silent} <= {"post_layernorm", "k_proj"}


def test_the_processor_fits_the_model():
    processor = build_processor(TOKENIZER, TinySize())
    chat = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Which?"}]}]
    text = processor.apply_chat_template(chat, add_generation_prompt=True)
    inputs = processor(text=[text], images=[torch.zeros(3, 50, 80, dtype=torch.uint8)], return_tensors="pt")
    assert inputs["pixel_values"].shape == (1, 3, 96, 96)
    assert inputs["pixel_values"].min() == -1
    assert int((inputs["input_ids"] == processor.image_token_id).sum()) == TinySize().picture_tokens
