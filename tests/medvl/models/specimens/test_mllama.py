"""The Llama 3.2 Vision specimen cuts tiles, and its picture token lies outside the output layer, as the real one's."""

import pytest


@pytest.mark.parametrize(("size", "tiles"), [((50, 50), 1), ((110, 50), 2), ((100, 100), 4), ((50, 220), 4)])
def test_tiles_follow_the_size_of_the_picture(shelf, picture_of, size, tiles):
    inputs = shelf.inputs("tiny_mllama", picture_of(*size))
    assert int(inputs["aspect_ratio_mask"].sum()) == tiles
    assert int(inputs["cross_attention_mask"][0, -1].sum()) == tiles


def test_the_picture_token_has_an_embedding_and_no_logit(shelf):
    model, processor = shelf.load("tiny_mllama")
    assert processor.image_token_id == model.config.image_token_id == model.lm_head.out_features
    assert model.get_input_embeddings().num_embeddings == model.lm_head.out_features + 8


def test_cross_attention_lies_between_self_attention(shelf):
    layers = shelf.load("tiny_mllama")[0].model.language_model.layers
    assert [hasattr(layer, "cross_attn") for layer in layers] == [False, True, False, True]


def test_the_begin_token_is_written_once(shelf, pictures):
    tokenizer = shelf.load("tiny_mllama")[1].tokenizer
    assert (shelf.inputs("tiny_mllama", pictures[0])["input_ids"] == tokenizer.bos_token_id).sum() == 1
    assert tokenizer("x")["input_ids"][0] == tokenizer.bos_token_id


def test_a_text_without_picture_gets_a_system_turn_with_the_date(shelf):
    processor = shelf.load("tiny_mllama")[1]
    turns = [{"role": "user", "content": [{"type": "text", "text": "Q?"}]}]
    text = processor.apply_chat_template(turns, date_string="26 Jul 2024")
    assert text == (
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
        "Today Date: 26 Jul 2024\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nQ?<|eot_id|>"
    )


def test_a_system_turn_stands_before_a_picture(shelf):
    processor = shelf.load("tiny_mllama")[1]
    turns = [
        {"role": "system", "content": " Be brief. "},
        {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Q?"}]},
    ]
    text = processor.apply_chat_template(turns, date_string="26 Jul 2024")
    assert (
        "Today Date: 26 Jul 2024\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n<|image|>Q?" in text
    )


def test_several_tokens_end_a_turn(shelf):
    model, processor = shelf.load("tiny_mllama")
    ends = processor.tokenizer.convert_ids_to_tokens(model.generation_config.eos_token_id)
    assert ends == ["<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"]
