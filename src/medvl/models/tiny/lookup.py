"""Text-only items: find the option that carries a given string of words.

Picking a letter needs a skill of its own, finding the option that says something. It is taught on strings of random
tokens drawn from the whole vocabulary, so that it works on words that never occur in pretraining and every embedding
is trained.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from transformers import PreTrainedTokenizerFast

from medvl.models.tiny.dialogue import Exchange, Scaffold, choice
from medvl.models.tiny.facts import KINDS
from medvl.models.tiny.tokenizer import CONTROL_TOKENS

MAX_WORDS = 4
"""Longest string, in tokens."""
LETTER_SHARE = 0.6
"""Share of items answered by the letter alone."""
PHRASE_SHARE = 0.3
"""Share of items about phrases, the answers of the questions on pictures, once both are drawn.

Phrases come first: with few words the skill appears within 200 steps of 128 items, with random strings of the whole
vocabulary it was not there after 500, and items of other forms (all options in turn, letter to words) delayed it.
"""

_QUESTIONS = (
    ("Which option says", "?"),
    ("Find", "."),
    ("The answer is", "."),
    ("", ""),
    ("Which is it:", "?"),
    ("Look for", " in the options."),
)


class LookupItems:
    """Draws lookup items.

    Attributes:
        scaffold: Fixed ids of the layout.
        tokens: Ids that strings are drawn from (all but the control tokens).
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, scaffold: Scaffold) -> None:
        self.scaffold = scaffold
        banned = {*tokenizer.convert_tokens_to_ids(list(CONTROL_TOKENS)), scaffold.line}
        self.tokens = np.array([i for i in range(len(tokenizer)) if i not in banned])
        self._questions = [
            (
                tuple(tokenizer.encode(head, add_special_tokens=False)),
                tuple(tokenizer.encode(tail, add_special_tokens=False)),
            )
            for head, tail in _QUESTIONS
        ]
        self._phrases = [
            [tuple(tokenizer.encode(" " + answer, add_special_tokens=False)) for answer in kind.answers]
            for kind in KINDS.values()
        ]

    def _phrases_of_a_kind(self, rng: np.random.Generator, count: int) -> list[tuple[int, ...]]:
        """`count` answers of one kind of question."""
        kinds = [phrases for phrases in self._phrases if len(phrases) >= count]
        phrases = kinds[int(rng.integers(len(kinds)))]
        return [phrases[i] for i in rng.permutation(len(phrases))[:count]]

    def _strings(self, rng: np.random.Generator, count: int) -> list[tuple[int, ...]]:
        """Draw `count` distinct strings; half of the time they share words, so that one word does not decide."""
        shared = rng.random() < 0.5
        length = int(rng.integers(1, MAX_WORDS + 1))
        base = tuple(int(t) for t in rng.choice(self.tokens, length))
        strings = [base]
        while len(strings) < count:
            if shared:
                changed = list(base)
                changed[int(rng.integers(length))] = int(rng.choice(self.tokens))
                if rng.random() < 0.2:
                    changed.append(int(rng.choice(self.tokens)))
                new = tuple(changed)
            else:
                new = tuple(int(t) for t in rng.choice(self.tokens, int(rng.integers(1, MAX_WORDS + 1))))
            if new not in strings:
                strings.append(new)
        return strings

    def draw(
        self, rng: np.random.Generator, *, letter_share: float = LETTER_SHARE, phrase_share: float = PHRASE_SHARE
    ) -> Exchange:
        """Draw one item with 2 to 4 options, the right one at a uniform place.

        Args:
            rng: Source of randomness.
            letter_share: Share of items answered by the letter alone; the others by the words, then the letter.
            phrase_share: Share of items about phrases; the others are about strings of random tokens.
        """
        count = int(rng.integers(2, 5))
        has_phrases = rng.random() < phrase_share
        strings = self._phrases_of_a_kind(rng, count) if has_phrases else self._strings(rng, count)
        order = rng.permutation(count)
        options: Sequence[tuple[int, ...]] = [strings[i] for i in order]
        gold = int(rng.integers(count))
        wanted = options[gold]
        head, tail = self._questions[int(rng.integers(len(self._questions)))]
        with_words = bool(rng.random() >= letter_share)
        return choice(
            self.scaffold, "lookup", (*head, *wanted, *tail), options, gold, with_words=with_words, words=wanted
        )
