"""Sentences of a reply, and whether a sentence affirms, denies or merely weighs what it names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from medvl.answering.mentions import Token, tokens, word_set

_SENTENCE_END = re.compile(r"(?<=[.!?;])[\"')]{0,2}\s+(?=[\"'(\[]{0,2}[A-ZÀ-ÞА-Я0-9\u3040-\u9fff✓])")
_INITIAL = re.compile(
    r"(?:^|[\s(.\"'])(?:[A-Za-z]|\d{1,2}|No|Fig|Dr|St|vs|e\.g|i\.e|approx|cf)\.$|^\W{0,3}[A-Za-z]\W{0,2}$"
)
_BUT = re.compile(r"[,;]\s(?:but|however|yet|nevertheless),?\s", re.I)
_REFUSAL = re.compile(
    r"\b(?:sorry|apologi[sz]e|as an ai|unable to|not able to|impossible to|not possible to|(?:can(?:no|')t|cannot|"
    r"can not|could not|couldn't|difficult to|hard to|not enough|insufficient|without)\s+(?:\S{1,30}\s+){0,4}?"
    r"(?:determin|identif|tell|say\b|know|answer|provide|assist|help|see\b|view|analy[sz]|interpret|diagnos|access|"
    r"conclude|decide|confirm|choos|select|evaluat|judg|certain|assess|information|have access)\w*|"
    r"(?:do|does)(?:n't|\snot)\s(?:\S{1,20}\s)?(?:have|know|possess|allow|provide|"
    r"see (?:the|any|an) (?:image|picture|attach)))\b",
    re.I,
)
_OPEN = re.compile(
    r"\b(?:whether|if|may|might|could|possib\w+|perhaps|maybe|would need|should be considered|rule out|exclude|"
    r"suspicious|differential|consider)\b",
    re.I,
)
_ADVICE = re.compile(
    r"\b(?:please|consult|seek)\b|\b(?:further|additional) (?:imaging|test|evaluat|stud|work|clinical)", re.I
)
_HYPOTHETICAL = re.compile(r"\b(?:if|were|had|unless|suppose|assuming)\b[^.]{0,200}\bwould\b|\bwould have been\b", re.I)

_POSSIBLE = word_set("could might may possibly perhaps maybe")
"""What is only possible is not affirmed."""
_NEGATIONS = _POSSIBLE | word_set(
    "no not nothing never without neither nor cannot none non unlikely unlike than absent absence negative lack lacks "
    "lacking lacked free opposed against instead nicht kein keine keinen ohne pas sans sin não sem"
)
_EXCLUDING = ("exclud", "eliminat", "reject", "dismiss", "discard")
_OTHERS = word_set("other others remaining rest alternative alternatives")
_COMPARING = word_set("compared over than versus among unlike to with")
_NOT_NEGATING = word_set("only just merely doubt doubts question")
_DENIED = _NEGATIONS - word_set("than free against") | word_set(
    "less incorrect wrong false inconsistent improbable implausible ruled insufficient"
)
_DENIED_BARE = word_set("cannot absent negative")
_AUXILIARIES = word_set(
    "is are was were be would does do did can could will seems seem appears appear has have had should may might looks "
    "typically usually generally"
)
_BOUNDARIES = word_set(
    "; : but however although though while whereas because since so therefore thus hence suggesting indicating rather "
    "sondern mais sino"
)


@dataclass(frozen=True)
class Sentence:
    """One sentence, or one line where a line has no sentence end.

    Attributes:
        text: Its text.
        start: Position in the reply.
        line: Index of its line.
    """

    text: str
    start: int
    line: int

    @cached_property
    def tokens(self) -> list[Token]:
        """Its words."""
        return tokens(self.text)

    @cached_property
    def is_question(self) -> bool:
        """Whether it asks."""
        return self.text.rstrip("\"') ").endswith("?")

    @cached_property
    def refuses(self) -> bool:
        """Whether it says that something cannot be told."""
        return _REFUSAL.search(self.text) is not None

    @cached_property
    def leaves_open(self) -> bool:
        """Whether it weighs a possibility ("may be", "whether there is") and commits to nothing."""
        return _OPEN.search(self.text) is not None

    @cached_property
    def advises(self) -> bool:
        """Whether it says what to do next, which names parts of the body without finding anything there."""
        return _ADVICE.search(self.text) is not None

    @cached_property
    def is_hypothetical(self) -> bool:
        """Whether it says what would be the case otherwise."""
        return _HYPOTHETICAL.search(self.text) is not None


def sentences(text: str) -> list[Sentence]:
    """Sentences of a wording in order. "B. Abdomen", "I. M. Pei" and "e.g. this" are not split.

    "I cannot be sure, but it is X" is two: what cannot be told, and what is said all the same.
    """
    found: list[Sentence] = []
    position = 0
    for index, line in enumerate(text.split("\n")):
        begin = 0
        for end in _SENTENCE_END.finditer(line):
            if not _INITIAL.search(line[max(begin, end.start() - 12) : end.start()]):
                found += _parts(line[begin : end.end()], position + begin, index)
                begin = end.end()
        found += _parts(line[begin:], position + begin, index)
        position += len(line) + 1
    return found


def _parts(text: str, start: int, line: int) -> list[Sentence]:
    but = _BUT.search(text)
    if but and _REFUSAL.search(text[: but.start()]):
        pieces = [(start, text[: but.start()]), (start + but.end(), text[but.end() :])]
    else:
        pieces = [(start, text)]
    return [Sentence(piece.strip(), at, line) for at, piece in pieces if piece.strip()]


def is_denied(words: list[Token], first: int, last: int, previous_end: int, next_start: int) -> bool:
    """Whether a sentence denies what some of its words name ("no X", "X is unlikely", "rather than X").

    Args:
        words: Tokens of the sentence.
        first: Index of the first word that names something.
        last: Index of the last. Things joined by commas or "and" are denied together: pass the whole list.
        previous_end: Index after the last word of what is named before, 0 when nothing is.
        next_start: Index of the first word of what is named next, `len(words)` when nothing is.
    """
    return _denied_before(words, first, previous_end) or _denied_after(words, last, next_start)


def _denied_before(words: list[Token], first: int, previous_end: int) -> bool:
    in_clause = True
    for i in range(first - 1, max(previous_end, first - 30) - 1, -1):
        word = words[i].raw.casefold()
        following = words[i + 1].raw.casefold()
        if word in _BOUNDARIES or (word == "," and not _in_list(words, i, first)) or first - i > 14:
            in_clause = False
        if word in _OTHERS and following != "hand" and not _compared_with(words, i):
            return True
        if in_clause and _negates(word, following):
            return True
    return False


def _negates(word: str, following: str) -> bool:
    if following in _NOT_NEGATING or (word == "free" and following != "of"):
        return False
    if word in {"rule", "rules", "ruled", "ruling"}:
        return following == "out"
    return word in _NEGATIONS or word.endswith("n't") or word.startswith(_EXCLUDING)


def _in_list(words: list[Token], comma: int, first: int) -> bool:
    """Whether a comma before something separates entries of a list like "no A, B or C"."""
    between = [word.raw.casefold() for word in words[comma + 1 : first]]
    around = [*between, *(word.raw.casefold() for word in words[first + 1 : first + 4])]
    return bool({"or", "nor"} & set(around)) and not _AUXILIARIES & set(between)


def _compared_with(words: list[Token], at: int) -> bool:
    """Whether what follows is only what something is compared with ("compared to the other options, ...")."""
    return any(word.raw.casefold() in _COMPARING for word in words[max(0, at - 3) : at])


def _denied_after(words: list[Token], last: int, next_start: int) -> bool:
    has_auxiliary = False
    seen = 0
    for i in range(last + 1, min(next_start, len(words))):
        word = words[i].raw.casefold()
        if not words[i].key:
            if word in {":", "-"} and seen == 0:
                has_auxiliary = True  # "X: not seen"
            elif word in {".", ";", "!"}:
                return False
            continue
        if word in _BOUNDARIES:
            return False
        seen += 1
        if seen > 6:
            return False
        following = words[i + 1].raw.casefold() if i + 1 < len(words) else ""
        if word.endswith("n't"):
            return True
        if word in _DENIED or word.startswith(_EXCLUDING):
            return (has_auxiliary or word in _DENIED_BARE) and following not in _NOT_NEGATING
        if word in _AUXILIARIES:
            has_auxiliary = True
    return False


def is_cut_off(text: str) -> bool:
    """Whether a text of some length ends in the middle of a sentence."""
    return len(text.split(None, 8)) > 8 and text[-1] not in ".!?)]}\"'"
