from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvl.models.tiny.asking import CAPTION, Asker
from medvl.models.tiny.dialogue import make_scaffold
from medvl.models.tiny.facts import KINDS, Fact
from medvl.models.tiny.tokenizer import train_tokenizer

TOKENIZER = train_tokenizer()
SCAFFOLD = make_scaffold(TOKENIZER)
ASKER = Asker(TOKENIZER, SCAFFOLD)
SHAPE = Fact("shape", "star", KINDS["shape"].answers)
PLACE = Fact("place of:heart", "top left", KINDS["place of"].answers)


def options_of(prompt: tuple[int, ...]) -> list[str]:
    lines = TOKENIZER.decode(prompt).split("\n")
    return [line[3:] for line in lines if line[1:3] == ". "]


@settings(deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([SHAPE, PLACE]), st.booleans())
def test_the_letter_points_at_the_answer_among_distinct_options(seed, fact, with_words):
    exchange = ASKER.lettered(np.random.default_rng(seed), fact, with_words=with_words)
    options = options_of(exchange.prompt)
    assert len(set(options)) == len(options) == exchange.n_options
    assert options[SCAFFOLD.letters.index(exchange.answer[-2])] == fact.answer
    assert set(options) <= set(fact.answers)


def test_a_question_about_a_named_object_names_it():
    exchange = ASKER.lettered(np.random.default_rng(0), PLACE)
    assert exchange.kind == "place of"
    assert "heart" in TOKENIZER.decode(exchange.prompt)


def test_letters_are_uniform():
    rng = np.random.default_rng(0)
    drawn = [ASKER.lettered(rng, SHAPE) for _ in range(3000)]
    four = Counter(SCAFFOLD.letters.index(e.answer[0]) for e in drawn if e.n_options == 4)
    assert [four[i] / four.total() for i in range(4)] == pytest.approx([0.25] * 4, abs=0.04)


def test_captions_tell_the_facts():
    exchange = ASKER.caption(np.random.default_rng(0), [SHAPE, PLACE])
    assert TOKENIZER.decode(exchange.answer) == " star, heart top left<|im_end|>"
    assert exchange.kind == CAPTION


def test_naming_comes_first_and_letters_follow():
    rng = np.random.default_rng(0)
    early = Counter(e.form for _ in range(400) for e in ASKER.draw(rng, [SHAPE, PLACE], 5, 1.0))
    late = Counter(e.form for _ in range(400) for e in ASKER.draw(rng, [SHAPE, PLACE], 5, 0.0))
    assert early["open"] > 0.4 * early.total()
    assert late["letter"] > 0.65 * late.total()
    assert early.total() == late.total() == 2000


def test_all_words_of_answers_are_single_tokens():
    words = {w.strip(",") for kind in KINDS.values() for answer in kind.answers for w in answer.split()}
    assert [w for w in sorted(words) if len(ASKER.ids(" " + w)) > 1] == []
