"""Options that a sentence names, and whether it affirms them or calls them right."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass

from medvl.answering.mentions import Options
from medvl.answering.picks import EDGE, Pick, is_no_article, more_letters, skip_own_text
from medvl.answering.polarity import Sentence, is_denied

_OPTION = re.compile(
    r"\b(?:[Oo]ptions?|OPTION|[Cc]hoices?|[Ll]etters?|[Aa]lternatives?|[Aa]nswer)\s?:?\s?"
    rf"(?P<open>[(\[\"']?)(?P<letter>[A-Za-z])[)\]\"']?{EDGE}(?!-[A-Za-z])"
)
_BRACKETED = re.compile(rf"(?<![\w)\]}}])\s?[(\[](?P<letter>[A-Z])[)\]]{EDGE}")
_LABELLED = re.compile(
    r"\b(?:regions?|points?|parts?|labels?|labell?ed|lines?|waves?|positions?|structures?|areas?|zones?|boxe?s?|"
    rf"arrows?|by|number|panels?|is)\s(?P<letter>[A-Z]){EDGE}(?![-'][A-Za-z])"
)
_JOIN = re.compile(r"(?:[\s,/&()\[\].:*\"'-]|\b(?:and|or|the|a|an|nor|options?|choices?)\b){0,12}", re.I)


@dataclass(frozen=True, slots=True)
class Named:
    """One or several options named together in a sentence.

    Attributes:
        letters: Their letters; where the words fit several options with the same text, all of those.
        start: Position of the first in the sentence.
        end: Position after the last.
        ambiguous: Whether the words fit several options.
        denied: Whether the sentence denies them.
    """

    letters: frozenset[str]
    start: int
    end: int
    ambiguous: bool
    denied: bool = False

    def joined(self, end: int, letters: frozenset[str]) -> Named:
        """The same with one more name; a letter beside its text is one option."""
        shared = self.letters & letters
        ambiguous = (self.ambiguous or len(letters) > 1) and len(shared) != 1
        return Named(shared or self.letters | letters, self.start, end, ambiguous)


def named_options(sentence: Sentence, options: Options) -> list[Named]:
    """Groups of options that a sentence names, by "option B", "(B)" or their words, in order."""
    groups: list[Named] = []
    for start, end, letters in sorted(_names(sentence, options), key=lambda name: name[:2]):
        if groups and start < groups[-1].end:
            continue
        if groups and _JOIN.fullmatch(sentence.text[groups[-1].end : start]):
            groups[-1] = groups[-1].joined(end, letters)
        else:
            groups.append(Named(letters, start, end, len(letters) > 1))
    starts = [word.start for word in sentence.tokens]
    bounds = [(bisect_left(starts, group.start), bisect_left(starts, group.end)) for group in groups]
    found = []
    for i, (group, (first, after)) in enumerate(zip(groups, bounds, strict=True)):
        previous_end = bounds[i - 1][1] if i else 0
        next_start = bounds[i + 1][0] if i + 1 < len(bounds) else len(starts)
        denied = is_denied(sentence.tokens, first, max(first, after - 1), previous_end, next_start)
        found.append(Named(group.letters, group.start, group.end, group.ambiguous, denied))
    return found


def _names(sentence: Sentence, options: Options) -> list[tuple[int, int, frozenset[str]]]:
    """(start, end, letters) of every name of an option in a sentence."""
    text = sentence.text
    names = [(m.start, m.end, m.letters) for m in options.mentions(sentence.tokens) if not m.loose]
    for match in _BRACKETED.finditer(text):
        if match["letter"] in options.letters:
            names.append((match.start("letter"), match.end(), frozenset(match["letter"])))
    for match in _OPTION.finditer(text):
        letter, bare = match["letter"], not match["open"]
        if bare and (letter in "ai" or not is_no_article(letter, text[match.end() : match.end() + 60])):
            continue
        if letter.upper() in options.letters:
            names.append((match.start("letter"), match.end(), frozenset(letter.upper())))
    for match in _LABELLED.finditer(text) if options.labels else ():
        if match["letter"] in options.labels and is_no_article(match["letter"], text[match.end() : match.end() + 60]):
            for found in (match, *more_letters(text, match.end())):
                if found["letter"] in options.labels:
                    label = options.labels[found["letter"]]
                    names.append((found.start("letter"), found.end(), frozenset(label)))
    return names


_LINKED = re.compile(
    r"\b(?:is|are|be|shows?|represents?|depicts?|contains?|indicates?|suggests?|demonstrates?|displays?|marks?|"
    r"outlines?|(?:consistent|compatible) with|(?:typical|indicative|characteristic|suggestive|view|image|scan|section)"
    r" of)\s(?:[\w'-]{1,20}\s){0,4}[(\[\"']{0,2}$",
    re.I,
)
"""A verb that says what something is, right before an option: "shows the [abdomen] with the stomach"."""


def affirmed(sentence: Sentence, options: Options) -> Pick | None:
    """The options that a sentence names without denying them; None where it names none so.

    Of several, those count that directly follow a verb like "shows"; the others tell where or beside what it is.
    """
    named = named_options(sentence, options)
    befores = [0, *(group.end for group in named)]
    linked = [
        group
        for group, before in zip(named, befores, strict=False)
        if not group.denied and _LINKED.search(sentence.text[max(before, group.start - 80) : group.start])
    ]
    groups = linked or [group for group in named if not group.denied]
    if not groups:
        return None
    starts = tuple(group.start for group in groups)
    clear = frozenset().union(*(group.letters for group in groups if not group.ambiguous))
    unclear = [group.letters for group in groups if group.ambiguous and not group.letters & clear]
    if unclear:
        return Pick(clear.union(*unclear), "two_picks" if clear else "duplicate_option_text", starts)
    return Pick(clear, "" if len(clear) == 1 else "two_picks", starts)


_ALONE = re.compile(rf"(?<![^\W_])[(\[\"']?(?P<letter>[A-Z])[)\]\"']?{EDGE}(?![-'][A-Za-z])")
_VERDICT = re.compile(
    r"[\s\"')\].,]{0,3}\s(?:is|are|seems|appears|would be|must be|should be|remains)(?:\sto be)?"
    r"(?P<between>(?:\s(?:the|clearly|indeed|therefore|thus|obviously|most|likely|probably|also|only|overall|my|best|one|"
    r"our|final)){0,6})\s(?P<verdict>(?:(?:correct|right|best|true|accurate|likely|appropriate|valid|proper|chosen)\s)?"
    r"(?P<answer>answers?|options?|choices?|pick|match|fit)|correct|right|true|accurate)\b",
    re.I,
)

_JUDGES = re.compile(r"\b(?:answer|option|choice|pick|match|fit|correct|right|true|accurate)", re.I)


@dataclass(frozen=True, slots=True)
class Verdict:
    """An option that a sentence calls right.

    Attributes:
        letter: Its letter.
        start: Position in the sentence.
        is_answer: Whether it is called the right answer, not only a true statement.
        alone: Whether it is called the only one.
    """

    letter: str
    start: int
    is_answer: bool
    alone: bool


def verdicts(sentence: Sentence, options: Options) -> list[Verdict]:
    """Options that a sentence calls right: "B is the correct answer", "only (B) is true", "cyst is correct"."""
    text = sentence.text
    if not _JUDGES.search(text):
        return []
    names = [(m.start(), m.end(), m["letter"]) for m in _ALONE.finditer(text) if m["letter"] in options.letters]
    names += [(m.start, m.end, next(iter(m.letters))) for m in options.mentions(sentence.tokens) if len(m.letters) == 1]
    found: list[Verdict] = []
    reached = 0
    for start, end, letter in sorted(names):
        if start < reached:
            continue  # the text beside its letter
        reached = skip_own_text(text, end, letter, options)
        verdict = _VERDICT.match(text, reached)
        if verdict:
            before = text[max(0, start - 20) : start].casefold()
            alone = re.search(r"\bonly\s(?:the\s)?(?:option\s|choice\s|statement\s)?$", before) is not None
            found.append(
                Verdict(letter, start, verdict["answer"] is not None, alone or "only" in verdict["between"].casefold())
            )
    return found
