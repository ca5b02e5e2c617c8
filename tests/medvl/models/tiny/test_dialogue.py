from __future__ import annotations

import pytest

from medvl.models.tiny.dialogue import LETTER_ONLY, choice, layout, make_scaffold, open_question
from medvl.models.tiny.tokenizer import train_tokenizer

TOKENIZER = train_tokenizer()
SCAFFOLD = make_scaffold(TOKENIZER)


def ids(text: str) -> list[int]:
    return TOKENIZER.encode(text, add_special_tokens=False)


def test_layout_shows_question_options_and_instruction_one_a_line():
    assert layout("What is it?", ["a dot", "a ring"]) == f"What is it?\nA. a dot\nB. a ring\n{LETTER_ONLY}"


@pytest.mark.parametrize("gold", [0, 1, 2])
def test_ids_put_together_from_parts_equal_the_ids_of_the_chat_template(gold):
    options = ["fetal head plane", "white", "points up, mark on the left"]
    exchange = choice(SCAFFOLD, "k", ids("Which is it?"), [ids(" " + o) for o in options], gold)
    messages = [
        {"role": "user", "content": layout("Which is it?", options)},
        {"role": "assistant", "content": "ABC"[gold]},
    ]
    whole = ids(TOKENIZER.apply_chat_template(messages, tokenize=False))
    # The template ends the turn with a line break that is not part of the answer.
    assert [*SCAFFOLD.opening, *exchange.prompt, *exchange.answer, SCAFFOLD.line] == whole


def test_words_come_before_the_letter_when_asked_for():
    exchange = choice(SCAFFOLD, "k", ids("Which?"), [ids(" dot"), ids(" ring")], 1, with_words=True, words=ids("ring"))
    assert TOKENIZER.decode(exchange.answer) == "ring\nB<|im_end|>"
    assert exchange.form == "both"


def test_open_questions_have_no_options_and_end_the_turn():
    exchange = open_question(SCAFFOLD, "k", ids("Which?"), ids("ring"))
    assert exchange.n_options == 0
    assert TOKENIZER.decode(exchange.answer) == "ring<|im_end|>"
