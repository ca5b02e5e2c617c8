"""The LLaVA specimens: one square, tiles, tiles whose features are shrunk; padding that is the end token."""

import pytest


def picture_tokens(shelf, name, picture):
    processor = shelf.load(name)[1]
    return int((shelf.inputs(name, picture)["input_ids"] == processor.image_token_id).sum())


@pytest.mark.parametrize("size", [(56, 56), (300, 90)])
def test_llava_sees_one_square(shelf, picture_of, size):
    assert shelf.inputs("tiny_llava", picture_of(*size))["pixel_values"].shape == (1, 3, 56, 56)
    assert picture_tokens(shelf, "tiny_llava", picture_of(*size)) == 16


def test_llava_pads_with_its_end_token_and_takes_the_last_layer_but_one(shelf):
    model, processor = shelf.load("tiny_llava")
    assert processor.tokenizer.pad_token == processor.tokenizer.eos_token == "</s>"
    assert (model.config.vision_feature_layer, model.config.vision_feature_select_strategy) == (-2, "default")
    assert model.config.vision_config.model_type == "clip_vision_model"
    assert model.config.text_config.model_type == "llama"


@pytest.mark.parametrize(("size", "tiles", "tokens"), [((112, 56), 3, 52), ((112, 112), 5, 88), ((56, 168), 4, 76)])
def test_llava_next_adds_tiles_to_the_whole_picture(shelf, picture_of, size, tiles, tokens):
    assert shelf.inputs("tiny_llava_next", picture_of(*size))["pixel_values"].shape[1] == tiles
    assert picture_tokens(shelf, "tiny_llava_next", picture_of(*size)) == tokens


def test_llava_next_has_a_padding_token_and_a_decoder_of_mistral(shelf):
    model, processor = shelf.load("tiny_llava_next")
    assert (processor.tokenizer.pad_token, processor.tokenizer.eos_token) == ("<pad>", "</s>")
    assert model.config.text_config.model_type == "mistral"


@pytest.mark.parametrize(
    ("size", "tiles", "tokens"),
    [((56, 56), 2, 16 + 16 + 4), ((112, 112), 5, 16 + 64 + 8), ((168, 168), 10, 16 + 64 + 8)],
)
def test_onevision_shrinks_the_features_of_many_tiles(shelf, picture_of, size, tiles, tokens):
    inputs = shelf.inputs("tiny_llava_onevision", picture_of(*size))
    assert inputs["pixel_values"].shape[1] == tiles
    assert picture_tokens(shelf, "tiny_llava_onevision", picture_of(*size)) == tokens
    shelf.load("tiny_llava_onevision")[0](**inputs)  # it refuses a wrong number of tokens


def test_system_texts(shelf):
    turns = ("system", "Be brief."), ("user", "Q?")
    assert shelf.text("tiny_llava", *turns) == "Be brief. USER: Q? "
    assert shelf.text("tiny_llava_next", *turns) == "<<SYS>>\nBe brief.\n<</SYS>>\n\n[INST] Q? [/INST]"
    expected = "<|im_start|>system \nBe brief.<|im_end|><|im_start|>user \nQ?<|im_end|>"
    assert shelf.text("tiny_llava_onevision", *turns) == expected


@pytest.mark.parametrize("name", ["tiny_llava", "tiny_llava_next"])
def test_the_begin_token_comes_from_the_tokenizer(shelf, pictures, name):
    tokenizer = shelf.load(name)[1].tokenizer
    ids = shelf.inputs(name, pictures[0])["input_ids"][0]
    assert ids[0] == tokenizer.bos_token_id
    assert (ids == tokenizer.bos_token_id).sum() == 1
