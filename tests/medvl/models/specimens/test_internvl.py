"""The InternVL specimen cuts tiles and names its picture tokens."""

import pytest


@pytest.mark.parametrize(("size", "tiles"), [((56, 56), 1), ((112, 50), 3), ((100, 100), 5), ((50, 200), 5)])
def test_tiles_follow_the_shape_of_the_picture(shelf, picture_of, size, tiles):
    processor = shelf.load("tiny_internvl")[1]
    inputs = shelf.inputs("tiny_internvl", picture_of(*size))
    assert inputs["pixel_values"].shape == (tiles, 3, 56, 56)
    assert int((inputs["input_ids"] == processor.image_token_id).sum()) == 4 * tiles


def test_the_picture_is_wrapped_in_its_markers(shelf, picture_of):
    tokenizer = shelf.load("tiny_internvl")[1].tokenizer
    text = tokenizer.decode(shelf.inputs("tiny_internvl", picture_of(56, 56))["input_ids"][0])
    assert text.startswith("<|im_start|>user\n<img>" + "<IMG_CONTEXT>" * 4 + "</img>\nIs there a mass?")


def test_turns_end_with_their_own_token(shelf):
    tokenizer = shelf.load("tiny_internvl")[1].tokenizer
    assert (tokenizer.eos_token, tokenizer.pad_token, tokenizer.bos_token) == ("<|im_end|>", "<|endoftext|>", None)


def test_a_system_turn_is_written_only_when_given(shelf):
    text = shelf.text("tiny_internvl", ("system", "Be brief."), ("user", "Q?"))
    assert text == "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nQ?<|im_end|>\n"
