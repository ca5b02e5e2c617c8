"""Text-only items: find the option that carries a given string of words.

Picking a letter needs a skill of its own, finding the option that says something. It is taught on strings of random
tokens drawn from the whole vocabulary, so that it works on words that never occur in pretraining and every embedding
is trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from transformers import PreTrainedTokenizerFast

from medvl.models.tiny.dialogue import Exchange, Scaffold, choice
from medvl.models.tiny.tokenizer import CONTROL_TOKENS

MAX_WORDS = 4
"""Longest string, in tokens."""

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
        self._every = tuple(tokenizer.encode("Find every option:", add_special_tokens=False))
        self._which = tuple(tokenizer.encode("Which option is it?", add_special_tokens=False))
        self._pause = tuple(tokenizer.encode(";", add_special_tokens=False))

    def _strings(self, rng: np.random.Generator, count: int, *, easy: bool) -> list[tuple[int, ...]]:
        """Draw `count` distinct strings; half of the time they share words, so that one word does not decide."""
        longest = 2 if easy else MAX_WORDS
        shared = rng.random() < 0.5 and not easy
        length = int(rng.integers(1, longest + 1))
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
                new = tuple(int(t) for t in rng.choice(self.tokens, int(rng.integers(1, longest + 1))))
            if new not in strings:
                strings.append(new)
        return strings

    def draw_mixture(self, rng: np.random.Generator, count: int, *, easy: bool = False) -> list[Exchange]:
        """Draw items of all forms. Letters alone stay at chance unless the other forms are there to lead to them."""
        forms = rng.choice(4, count, p=(0.4, 0.24, 0.18, 0.18))
        drawers = (partial(self.draw, letter_share=0.7), self.draw_all, self.draw_read, self.draw_said)
        return [drawers[form](rng, easy=easy) for form in forms]

    def draw(self, rng: np.random.Generator, letter_share: float = 1.0, *, easy: bool = False) -> Exchange:
        """Draw one item with 2 to 4 options, the right one at a uniform place.

        Args:
            rng: Source of randomness.
            letter_share: Share of items answered by the letter alone; the others by the words, then the letter.
            easy: Short strings that share no words.
        """
        count = int(rng.integers(2, 5))
        strings = self._strings(rng, count, easy=easy)
        order = rng.permutation(count)
        options: Sequence[tuple[int, ...]] = [strings[i] for i in order]
        gold = int(rng.integers(count))
        wanted = options[gold]
        head, tail = self._questions[int(rng.integers(len(self._questions)))]
        with_words = bool(rng.random() >= letter_share)
        return choice(
            self.scaffold, "lookup", (*head, *wanted, *tail), options, gold, with_words=with_words, words=wanted
        )

    def draw_said(self, rng: np.random.Generator, *, easy: bool = False) -> Exchange:
        """Draw an item that goes through all options in an order of its own: given the words, the letter must follow.

        The words stand in the answer only. This is what a question about a picture needs once the words are known.
        """
        count = int(rng.integers(2, 5))
        options = self._strings(rng, count, easy=easy)
        order = [int(i) for i in rng.permutation(count)]
        line, letters = self.scaffold.line, self.scaffold.letters
        answer = [token for i in order for token in (*options[i], line, letters[i], line)]
        shown = choice(self.scaffold, "said", self._which, options, order[-1], with_words=True)
        # The words after the first are a guess (never quite right), and cost little beside the letters.
        return replace(shown, answer=(*answer[:-1], self.scaffold.end), n_given=len(options[order[0]]))

    def draw_all(self, rng: np.random.Generator, *, easy: bool = False) -> Exchange:
        """Draw an item that asks for every option, in an order of its own: words, letter, words, letter, ...

        One such item teaches as many lookups as it has options.
        """
        count = int(rng.integers(2, 5))
        options = self._strings(rng, count, easy=easy)
        order = [int(i) for i in rng.permutation(count)]
        line, letters = self.scaffold.line, self.scaffold.letters
        asked = [token for i in order for token in (*self._pause, *options[i])]
        answer = [token for i in order for token in (*options[i], line, letters[i], line)]
        last = order[-1]
        shown = choice(
            self.scaffold, "lookup", (*self._every, *asked), options, last, with_words=True, words=options[last]
        )
        return Exchange("lookup", shown.prompt, (*answer[:-1], self.scaffold.end), "both", count)

    def draw_read(self, rng: np.random.Generator, *, easy: bool = False) -> Exchange:
        """Draw an item that asks for options by their letters: letter, words, letter, words, ...

        It teaches what finding a letter rests on: that the words of an option belong to the letter before them.
        """
        count = int(rng.integers(2, 5))
        options = self._strings(rng, count, easy=easy)
        order = [int(i) for i in rng.permutation(count)]
        line, letters = self.scaffold.line, self.scaffold.letters
        asked = [token for i in order for token in (*self._pause, letters[i])]
        answer = [token for i in order for token in (letters[i], line, *options[i], line)]
        shown = choice(self.scaffold, "lookup", (*self._every, *asked), options, 0, with_words=True)
        return Exchange("read", shown.prompt, (*answer[:-1], self.scaffold.end), "open", 0)
