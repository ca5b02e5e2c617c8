from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medvl.models.tiny.dialogue import make_scaffold
from medvl.models.tiny.facts import KINDS
from medvl.models.tiny.lookup import LookupItems
from medvl.models.tiny.tokenizer import CONTROL_TOKENS, train_tokenizer

TOKENIZER = train_tokenizer()
SCAFFOLD = make_scaffold(TOKENIZER)
ITEMS = LookupItems(TOKENIZER, SCAFFOLD)


def parts_of(prompt: tuple[int, ...]) -> tuple[list[int], list[list[int]]]:
    """Question and options of a prompt, split at its line breaks."""
    lines: list[list[int]] = [[]]
    for token in prompt:
        if token == SCAFFOLD.line:
            lines.append([])
        else:
            lines[-1].append(token)
    # The last three lines are the instruction, the opening of the reply and what follows it (nothing).
    question, *options = lines[:-3]
    return question, [option[2:] for option in options]


@given(st.integers(0, 2**32))
def test_options_are_distinct_and_the_right_one_alone_is_in_the_question(seed):
    exchange = ITEMS.draw(np.random.default_rng(seed))
    question, options = parts_of(exchange.prompt)
    assert 2 <= len(options) == exchange.n_options <= 4
    assert len({tuple(o) for o in options}) == len(options)
    gold = SCAFFOLD.letters.index(exchange.answer[-2])
    text = ",".join(map(str, question))
    assert ",".join(map(str, options[gold])) in text


@given(st.integers(0, 2**32))
def test_the_same_seed_draws_the_same_item(seed):
    assert ITEMS.draw(np.random.default_rng(seed)) == ITEMS.draw(np.random.default_rng(seed))


def test_the_right_letter_is_uniform_over_the_options():
    rng = np.random.default_rng(0)
    counts: Counter[tuple[int, int]] = Counter()
    for _ in range(6000):
        exchange = ITEMS.draw(rng)
        counts[exchange.n_options, SCAFFOLD.letters.index(exchange.answer[-2])] += 1
    for n in (2, 3, 4):
        shares = np.array([counts[n, i] for i in range(n)]) / sum(counts[n, i] for i in range(n))
        assert shares == pytest.approx(1 / n, abs=0.045)


def test_every_token_but_the_control_tokens_can_occur():
    control = set(TOKENIZER.convert_tokens_to_ids(list(CONTROL_TOKENS)))
    assert set(range(len(TOKENIZER))) - set(ITEMS.tokens.tolist()) == control | {SCAFFOLD.line}


def test_letter_share_decides_how_many_answers_carry_words():
    rng = np.random.default_rng(1)
    forms = Counter(ITEMS.draw(rng, letter_share=0.25).form for _ in range(2000))
    assert forms["letter"] / 2000 == pytest.approx(0.25, abs=0.04)


def test_phrases_are_answers_of_one_kind_of_question():
    rng = np.random.default_rng(2)
    answers = [{f" {answer}" for answer in kind.answers} for kind in KINDS.values()]
    for _ in range(200):
        _, options = parts_of(ITEMS.draw(rng, phrase_share=1.0).prompt)
        shown = {TOKENIZER.decode(option) for option in options}
        assert any(shown <= of_kind for of_kind in answers)
