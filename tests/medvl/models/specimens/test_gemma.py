"""The Gemma 3 specimen wraps its picture, attends to it in both directions, and ends turns with their own token."""

import torch


def test_a_picture_is_wrapped_in_its_markers(shelf, pictures):
    processor = shelf.load("tiny_gemma3")[1]
    inputs = shelf.inputs("tiny_gemma3", pictures[0])
    text = processor.tokenizer.decode(inputs["input_ids"][0])
    inside = "<image_soft_token>" * 4
    assert text.startswith(f"<bos><start_of_turn>user\n\n\n<start_of_image>{inside}<end_of_image>\n\nIs there a mass?")
    assert int(inputs["token_type_ids"].sum()) == 4


@torch.no_grad()
def test_answers_change_when_the_picture_is_not_marked(shelf, pictures):
    model = shelf.load("tiny_gemma3")[0]
    inputs = shelf.inputs("tiny_gemma3", pictures[0])
    unmarked = {**inputs, "token_type_ids": torch.zeros_like(inputs["token_type_ids"])}
    assert (model(**inputs).logits - model(**unmarked).logits)[0, -1].abs().max() > 1e-4


def test_turns_do_not_end_with_the_tokenizers_end_token(shelf):
    model, processor = shelf.load("tiny_gemma3")
    tokenizer = processor.tokenizer
    assert [tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.bos_token_id] == [0, 1, 2]
    assert tokenizer.eos_token == "<eos>"
    assert model.generation_config.eos_token_id == [1, tokenizer.convert_tokens_to_ids("<end_of_turn>")]


def test_the_system_text_opens_the_user_turn_and_texts_are_trimmed(shelf):
    text = shelf.text("tiny_gemma3", ("system", "Be brief."), ("user", None, " Q? "))
    assert text == "<bos><start_of_turn>user\nBe brief.\n\n<start_of_image>Q?<end_of_turn>\n"


def test_one_layer_looks_through_a_window_and_one_at_all(shelf):
    text = shelf.load("tiny_gemma3")[0].config.text_config
    assert text.layer_types == ["sliding_attention", "full_attention"]
    assert text.num_attention_heads * text.head_dim != text.hidden_size
