"""Turns facts of scenes into exchanges: lettered questions, words then letter, open answers, captions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from transformers import PreTrainedTokenizerFast

from medvl.models.tiny.dialogue import Exchange, Scaffold, choice, open_question
from medvl.models.tiny.facts import KINDS, Fact

CAPTION = "caption"
"""Name of captions in the curve."""
_CAPTION_REQUESTS = ("Describe the picture.", "Caption this image.")
_CAPTION_LENGTH = 5


def choose(rng: np.random.Generator, facts: Sequence[Fact], count: int) -> list[Fact]:
    """Choose facts of a scene by the weight of their kinds, none twice before all have come once."""
    weights = np.array([KINDS[fact.kind.partition(":")[0]].weight for fact in facts])
    order = rng.choice(len(facts), len(facts), replace=False, p=weights / weights.sum())
    return [facts[order[i % len(facts)]] for i in range(count)]


class Asker:
    """Draws exchanges about facts; keeps the ids of every text it has met."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, scaffold: Scaffold) -> None:
        self._tokenizer = tokenizer
        self._scaffold = scaffold
        self._known: dict[str, tuple[int, ...]] = {}

    def ids(self, text: str) -> tuple[int, ...]:
        """Token ids of a text."""
        if text not in self._known:
            self._known[text] = tuple(self._tokenizer.encode(text, add_special_tokens=False))
        return self._known[text]

    def words(self, text: str) -> tuple[int, ...]:
        """Token ids of an option or an answer in words.

        Answers start with a space as options do: "circle" and " circle" are different tokens, and with them the model
        did not find the letter of the words it had just said in 450 steps.
        """
        return self.ids(" " + text)

    def _wording(self, rng: np.random.Generator, fact: Fact) -> tuple[str, str]:
        """Name of the kind and a question."""
        name, _, about = fact.kind.partition(":")
        kind = KINDS[name]
        question = kind.questions[int(rng.integers(len(kind.questions)))]
        return name, question.format(about)

    def lettered(self, rng: np.random.Generator, fact: Fact, *, with_words: bool = False) -> Exchange:
        """A question with 2 to 4 options in random order, the right one at a uniform place."""
        name, question = self._wording(rng, fact)
        others = [answer for answer in fact.answers if answer != fact.answer]
        count = min(len(others) + 1, int(rng.choice((2, 3, 4), p=(0.15, 0.25, 0.6))))
        gold = int(rng.integers(count))
        texts = [others[i] for i in rng.permutation(len(others))[: count - 1]]
        texts.insert(gold, fact.answer)
        options = [self.words(text) for text in texts]
        words = self.words(fact.answer)
        return choice(self._scaffold, name, self.ids(question), options, gold, with_words=with_words, words=words)

    def open(self, rng: np.random.Generator, fact: Fact) -> Exchange:
        """A question without options, answered in words."""
        name, question = self._wording(rng, fact)
        return open_question(self._scaffold, name, self.ids(question), self.words(fact.answer))

    def caption(self, rng: np.random.Generator, facts: Sequence[Fact]) -> Exchange:
        """The facts themselves, in their order."""
        request = _CAPTION_REQUESTS[int(rng.integers(len(_CAPTION_REQUESTS)))]
        said: list[str] = []
        for fact in facts:
            about = fact.kind.partition(":")[2]
            text = f"{about} {fact.answer}" if about else fact.answer
            if text not in said:
                said.append(text)
        text = ", ".join(said[:_CAPTION_LENGTH])
        return open_question(self._scaffold, CAPTION, self.ids(request), self.words(text))

    def draw(self, rng: np.random.Generator, facts: Sequence[Fact], count: int, early: float) -> list[Exchange]:
        """Exchanges about one scene.

        Args:
            rng: Source of randomness.
            facts: Facts of the scene.
            count: How many exchanges.
            early: 1 at the start of training, falling to 0: naming comes first, letters follow.
        """
        exchanges = []
        open_share, words_share, caption_share = 0.1 + 0.35 * early, 0.1 + 0.15 * early, 0.03
        for fact in choose(rng, facts, count):
            drawn = rng.random()
            if drawn < caption_share:
                exchanges.append(self.caption(rng, facts))
            elif drawn < caption_share + open_share:
                exchanges.append(self.open(rng, fact))
            elif drawn < caption_share + open_share + words_share:
                exchanges.append(self.lettered(rng, fact, with_words=True))
            else:
                exchanges.append(self.lettered(rng, fact))
        return exchanges
