from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvl.models.tiny.tokenizer import CONTROL_TOKENS, END, LETTERS, PAD, PICTURE, train_tokenizer
from medvl.models.tiny.words import DOMAIN_WORDS, GENERAL_WORDS

TOKENIZER = train_tokenizer()


def ids(text: str) -> list[int]:
    return TOKENIZER.encode(text, add_special_tokens=False)


@given(st.text(max_size=80))
def test_any_text_survives_a_round_trip(text):
    for token in CONTROL_TOKENS:
        text = text.replace(token, "")
    encoded = ids(text)
    assert TOKENIZER.decode(encoded) == text
    assert all(0 <= i < len(TOKENIZER) for i in encoded)


@given(st.text(min_size=1, max_size=40).filter(lambda t: not any(c in t for c in CONTROL_TOKENS)))
def test_plain_text_never_becomes_a_control_token(text):
    assert not set(ids(text)) & set(TOKENIZER.convert_tokens_to_ids(list(CONTROL_TOKENS)))


def test_there_is_no_unknown_token():
    assert TOKENIZER.unk_token is None


@pytest.mark.parametrize("letter", LETTERS)
def test_a_letter_is_one_token_right_after_the_generation_prompt(letter):
    prompt = TOKENIZER.apply_chat_template(
        [{"role": "user", "content": "x"}], add_generation_prompt=True, tokenize=False
    )
    with_answer = ids(prompt + letter)
    assert with_answer[:-1] == ids(prompt)
    assert TOKENIZER.decode(with_answer[-1:]) == letter


def test_words_of_the_benchmarks_are_one_token_after_a_space():
    words = [w for w in (*GENERAL_WORDS, *DOMAIN_WORDS) if "-" not in w]
    assert [w for w in words if len(ids(" " + w)) != 1] == []


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Which standard plane does this ultrasound image show?", 9),
        (" head down, back toward the probe", 7),
        (" abdominal circumference plane", 3),
        (" not a standard view", 4),
    ],
)
def test_benchmark_phrases_are_short(text, tokens):
    assert len(ids(text)) == tokens


def test_padding_and_end_of_turn_are_different_tokens():
    assert TOKENIZER.pad_token == PAD
    assert TOKENIZER.eos_token == END
    assert TOKENIZER.pad_token_id != TOKENIZER.eos_token_id


def test_chat_template_is_chatml_without_a_system_turn():
    message = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Which?"}]}
    reply = {"role": "assistant", "content": [{"type": "text", "text": "B"}]}
    prompt = TOKENIZER.apply_chat_template([message], add_generation_prompt=True, tokenize=False)
    assert prompt == f"<|im_start|>user\n{PICTURE}\nWhich?<|im_end|>\n<|im_start|>assistant\n"
    whole = TOKENIZER.apply_chat_template([message, reply], tokenize=False)
    assert whole == prompt + "B<|im_end|>\n"


def test_training_it_twice_gives_the_same_vocabulary():
    assert train_tokenizer().get_vocab() == TOKENIZER.get_vocab()
