"""Where a text names an option: by its letter or by its words."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache


def word_set(text: str) -> frozenset[str]:
    """Words of a text, separated by spaces."""
    return frozenset(text.split())


_IDEOGRAPH = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_TOKEN = re.compile(
    rf"(?<![\w)])[+-](?=\.?\d)|\d+(?:,\d{{3}})*(?:\.\d+)?|[{_IDEOGRAPH}]"
    rf"|[^\W\d_{_IDEOGRAPH}]+(?:['-][^\W\d_{_IDEOGRAPH}]+)*|[^\w\s]"
)
_NON = re.compile(r"\b([Nn]on)[- ](?=[A-Za-z])")
_SYMBOLS = set("+-%‰$€£<>=/^|±×≠→°*")
_ARTICLES = {"a", "an", "the"}
_FUNCTION_WORDS = _ARTICLES | word_set(
    "of in on at to for with by and or is are was were be it its this that these those there as from has have which "
    "who will would can could should may also than"
)
_NO = {"no", "not", "without"}
_LOOSE_WORDS = _FUNCTION_WORDS | word_set("yes no not none all both neither either true false sure unknown")
"""Words that say nothing by themselves in the middle of a sentence."""


@dataclass(frozen=True, slots=True)
class Token:
    """One word, number or symbol.

    Attributes:
        key: Form that is compared: lower case, no accents, no plural s, British spelling folded; "" for punctuation.
        raw: As written.
        start: Position of its first character.
        end: Position after its last.
    """

    key: str
    raw: str
    start: int
    end: int


@lru_cache(maxsize=4096)
def _cached_key(raw: str) -> str:
    return _key(raw)


def _key(raw: str) -> str:
    if raw[0].isdigit():
        number = raw.replace(",", "")
        return number.rstrip("0").rstrip(".") if "." in number else number
    if not raw[0].isalnum():
        return raw if raw in _SYMBOLS else ""
    word = raw.casefold().replace("-", "")
    if not word.isascii():
        word = "".join(c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c))
    if word.endswith("n't"):
        return word
    word = word.removesuffix("'s").replace("'", "")
    word = word.replace("ae", "e").replace("oe", "e")
    if len(word) > 4 and word.endswith("our"):
        word = word[:-3] + "or"
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def tokens(text: str) -> list[Token]:
    """Words, numbers and symbols of a text in order, punctuation included (with an empty key)."""
    found = []
    for match in _TOKEN.finditer(_NON.sub(r"\1-", text)):
        raw = match[0]
        found.append(Token(_cached_key(raw) if len(raw) < 40 else _key(raw), raw, match.start(), match.end()))
    return found


def keys(text: str) -> tuple[str, ...]:
    """Compared forms of the words of a text, without punctuation."""
    return tuple(token.key for token in tokens(text) if token.key)


@dataclass(frozen=True, slots=True)
class Mention:
    """A place that names an option by its words.

    Attributes:
        letters: Letters of the options with these words: several where two options have the same text.
        first: Index of its first token.
        last: Index of its last token.
        start: Position of its first character.
        end: Position after its last character.
        loose: Whether it consists of words that say nothing in the middle of a sentence ("no", "both").
    """

    letters: frozenset[str]
    first: int
    last: int
    start: int
    end: int
    loose: bool


class Options:
    """The options of a question, ready to be found in texts."""

    def __init__(self, options: Mapping[str, str], readable: Mapping[str, str]) -> None:
        """Prepare options.

        Args:
            options: Letter -> text as given.
            readable: Letter -> text as plain wording, like the replies that it is looked for in.
        """
        self.letters = {letter.upper(): letter for letter in options}
        self.words = {letter.upper(): keys(text) for letter, text in readable.items()}
        self.labels = _labels(readable)
        """Letter that is the text of one option -> letter of that option."""
        self.reach = 2 * max(map(len, readable.values()), default=0) + 40
        """Characters within which a text of an option ends that begins there, however it is spaced."""
        self._by_first: dict[str, dict[tuple[str, ...], set[str]]] = {}
        for letter, text in readable.items():
            for words in _variants(text):
                self._by_first.setdefault(words[0], {}).setdefault(words, set()).add(letter.upper())
        counts = Counter(word for words in self.words.values() for word in set(_content(words)))
        self._weight = {word: math.log((len(options) + 0.5) / count) for word, count in counts.items()}

    def mentions(self, found: list[Token]) -> list[Mention]:
        """Places that name an option by its words, the longest at each place, without overlaps."""
        said = [(i, token) for i, token in enumerate(found) if token.key]
        mentions: list[Mention] = []
        at = 0
        while at < len(said):
            best: tuple[int, set[str], tuple[str, ...]] | None = None
            for words, letters in self._by_first.get(said[at][1].key, {}).items():
                size = len(words)
                fits = (best is None or size > best[0]) and tuple(t.key for _, t in said[at : at + size]) == words
                if fits:
                    best = (size, letters, words)
            if best is None:
                at += 1
                continue
            (first, opening), (last, closing) = said[at], said[at + best[0] - 1]
            loose = set(best[2]) <= _LOOSE_WORDS
            mentions.append(Mention(frozenset(best[1]), first, last, opening.start, closing.end, loose))
            at += best[0]
        return mentions

    def equal(self, text: str) -> frozenset[str]:
        """Letters of the options whose text this is, give or take articles, case and punctuation."""
        if len(text) > self.reach:
            return frozenset()
        found = tokens(text)
        said = [i for i, token in enumerate(found) if token.key and not _is_article(found, i)]
        for mention in self.mentions(found):
            if said and mention.first <= said[0] and mention.last == said[-1]:
                return mention.letters
        return frozenset()

    def opens(self, text: str) -> Mention | None:
        """The option that a text begins with, articles aside."""
        found = tokens(text)
        for mention in self.mentions(found):
            said = any(found[i].key and not _is_article(found, i) for i in range(mention.first))
            return None if said else mention
        return None

    def paraphrased(self, text: str) -> str | None:
        """The one option most of whose telling words a text has, while it has few of any other's.

        Words count the more the fewer options have them (inverse document frequency).
        """
        said = set(keys(text))
        shares = sorted(((self._share(words, said), letter) for letter, words in self.words.items()), reverse=True)
        if not shares:
            return None
        best, letter = shares[0]
        second = shares[1][0] if len(shares) > 1 else 0.0
        is_clear = (best >= 0.6 and second <= best / 3) or (best >= 0.5 and second <= best / 5) or second < best == 1
        content = set(_content(self.words[letter]))
        own = content & said
        is_enough = len(own) >= 2 or (len(content) == 2 and any(len(word) > 3 or word.isdigit() for word in own))
        denies = bool(said & _NO) != bool(set(self.words[letter]) & _NO)
        return letter if is_clear and is_enough and not denies else None

    def _share(self, words: tuple[str, ...], said: set[str]) -> float:
        """Weight of an option's words that were said over that of all its words, in [0, 1]."""
        content = set(_content(words))
        total = math.fsum(self._weight[word] for word in content)
        return math.fsum(self._weight[word] for word in content & said) / total if total > 0 else 0.0


def _is_article(found: list[Token], at: int) -> bool:
    """Whether a word is an article: "A head", not "A. head"."""
    return found[at].key in _ARTICLES and at + 1 < len(found) and bool(found[at + 1].key)


def _labels(readable: Mapping[str, str]) -> dict[str, str]:
    bare = {letter.upper(): text.strip(" ().").upper() for letter, text in readable.items()}
    times = Counter(bare.values())
    return {text: letter for letter, text in bare.items() if len(text) == 1 and text.isalpha() and times[text] == 1}


def _content(words: Iterable[str]) -> list[str]:
    return [word for word in words if word not in _FUNCTION_WORDS]


def _variants(text: str) -> set[tuple[str, ...]]:
    """Ways to write an option: whole, without its bracketed addition, each without a leading article."""
    whole = keys(text)
    ways = {whole}
    bare = re.sub(r"\([^()]{1,60}\)", " ", text)
    if bare.strip(" .,;") and bare != text:
        ways.add(keys(bare))
    ways |= {words[1:] for words in ways if len(words) > 1 and words[0] in _ARTICLES}
    return {words for words in ways if words and not (len(words) == 1 and len(words[0]) == 1 and words[0].isalpha())}
