"""The Qwen specimens take pictures of any size, between limits, and have the families' ids."""

import pytest

NAMES = ("tiny_qwen2_vl", "tiny_qwen25vl", "tiny_qwen3vl")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("size", "least", "most"), [((20, 20), 4, 4), ((112, 84), 9, 16), ((900, 300), 20, 36)])
def test_tokens_follow_the_size_of_the_picture(shelf, picture_of, name, size, least, most):
    processor = shelf.load(name)[1]
    inputs = shelf.inputs(name, picture_of(*size) if min(size) > 40 else picture_of(60, 60).resize(size))
    tokens = int((inputs["input_ids"] == processor.image_token_id).sum())
    assert least <= tokens <= most
    grid = inputs["image_grid_thw"][0]
    assert int(grid.prod()) == 4 * tokens
    assert (grid[1] > grid[2]) == (size[1] > size[0])
    assert int(inputs["mm_token_type_ids"].sum()) == tokens


@pytest.mark.parametrize("name", NAMES)
def test_turns_end_with_their_own_token_and_padding_is_another(shelf, name):
    model, processor = shelf.load(name)
    tokenizer = processor.tokenizer
    assert (tokenizer.eos_token, tokenizer.pad_token, tokenizer.bos_token) == ("<|im_end|>", "<|endoftext|>", None)
    assert model.generation_config.eos_token_id == [tokenizer.eos_token_id, tokenizer.pad_token_id]
    for attribute, token in (("image_token_id", "<|image_pad|>"), ("vision_start_token_id", "<|vision_start|>")):
        assert getattr(model.config, attribute) == tokenizer.convert_tokens_to_ids(token)


def test_a_system_turn_replaces_the_default_one(shelf):
    turns = ("system", "Be brief."), ("user", "Q?")
    assert shelf.text("tiny_qwen25vl", *turns).startswith("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n")
    assert shelf.text("tiny_qwen3vl", *turns) == shelf.text("tiny_qwen25vl", *turns)


def test_published_sampling_is_kept(shelf):
    assert shelf.load("tiny_qwen25vl")[0].generation_config.repetition_penalty == 1.05


def test_the_head_is_tied_where_the_small_real_model_ties_it(shelf):
    for name, tied in (("tiny_qwen2_vl", True), ("tiny_qwen25vl", False), ("tiny_qwen3vl", False)):
        model = shelf.load(name)[0]
        assert (model.lm_head.weight is model.get_input_embeddings().weight) == tied
