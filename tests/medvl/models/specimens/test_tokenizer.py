"""The shared tokenizer writes every text, letters as single tokens, and each family's control tokens."""

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvl.models.specimens import tokenizer as module
from medvl.models.specimens.tokenizer import Control, make_tokenizer, template

CONTROL = Control(
    before=("<unk>", "<s>", "</s>"),
    after=("<image>", "<|pad|>"),
    roles={"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<|pad|>"},
    named={"image_token": "<image>"},
    writes_bos=True,
)
TOKENIZER = make_tokenizer(CONTROL)


def ids(text):
    return TOKENIZER(text, add_special_tokens=False)["input_ids"]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_comes_back_without_an_unknown_token(text):
    if any(token in text for token in (*CONTROL.before, *CONTROL.after)):
        return
    assert TOKENIZER.decode(ids(text)) == text
    assert TOKENIZER.unk_token_id not in ids(text)


@pytest.mark.parametrize("before", ["", " ", "\n", "\n\n", ":", ": ", "]", "(", "> "])
def test_letters_and_digits_are_single_tokens_wherever_they_stand(before):
    lead = before.removesuffix(" ")
    for sign in string.ascii_letters + string.digits:
        if sign.isdigit() and before.endswith(" "):
            continue
        assert len(ids(before + sign)) == len(ids(lead)) + 1, before + sign


def test_it_is_small_and_words_of_its_list_are_short():
    assert 300 < len(TOKENIZER) <= 1000
    assert len(ids(" pneumothorax question ultrasound plane")) <= 10


def test_control_tokens_keep_their_order_around_the_text():
    assert [TOKENIZER.convert_tokens_to_ids(token) for token in CONTROL.before] == [0, 1, 2]
    size = len(TOKENIZER)
    assert [TOKENIZER.convert_tokens_to_ids(token) for token in CONTROL.after] == [size - 2, size - 1]
    assert TOKENIZER.image_token_id == size - 2
    assert ids("a<image>b") == [*ids("a"), size - 2, *ids("b")]


def test_the_begin_token_is_written_unless_special_tokens_are_declined():
    assert TOKENIZER("a")["input_ids"] == [1, *ids("a")]
    assert make_tokenizer(Control(after=("<e>",), roles={"eos_token": "<e>"}))("a")["input_ids"] != [1, *ids("a")]


def test_training_it_again_gives_the_same():
    first = module._text_model()
    module._text_model.cache_clear()
    assert module._text_model() == first


def test_every_template_can_be_read():
    names = [path.stem for path in (Path(module.__file__).parent / "templates").glob("*.jinja")]
    assert len(names) == 9
    assert all("messages" in template(name) for name in names)
