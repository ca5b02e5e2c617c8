"""The rules that read a multiple-choice reply, from the most explicit to the least."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from medvl.answering.announcements import announcements
from medvl.answering.mentions import Options
from medvl.answering.named import affirmed, named_options, verdicts
from medvl.answering.picks import Pick, Place, leading_pick
from medvl.answering.polarity import Sentence, is_cut_off, sentences
from medvl.answering.reply_text import Parsed


@dataclass(frozen=True, slots=True)
class Event:
    """A place that picks an option, or announces an answer and gives none.

    Attributes:
        start: Position in the reply.
        pick: What it picks.
        rule: Rule that found it.
    """

    start: int
    pick: Pick
    rule: str


def read_choice(text: str, options: Options) -> Parsed:
    """Find the option that a wording commits to.

    Explicit commitments ("the answer is B", a line that is only "B", "B. Abdomen" at the beginning) come first, and
    the last of them counts. Without any: statements that an option is right, then conclusions ("most likely", "shows"),
    then the only option that is named and not denied, then a paraphrase of one option's words.

    Args:
        text: Wording (see `reply_text.wording`).
        options: Options of the question.
    """
    if not any(c.isalnum() for c in text):
        return Parsed(None, "empty")
    reply = _Reply(text, options)
    for rule in (_explicit, _judged, _concluded, _only_named, _paraphrase):
        if (found := rule(reply)) is not None:
            return found
    return Parsed(None, _why_nothing(reply))


class _Reply:
    """A wording with what every rule needs of it."""

    def __init__(self, text: str, options: Options) -> None:
        self.text = text
        self.options = options
        self.lines = text.split("\n")
        self.listed = _listed_lines(self.lines, options)
        self.sentences = sentences(text)
        self.free = [s for s in self.sentences if s.line not in self.listed and not s.is_question and not s.advises]

    @cached_property
    def named(self) -> list[tuple[Sentence, Pick | None]]:
        """Sentences outside listings, with the options that each affirms."""
        return [(sentence, affirmed(sentence, self.options)) for sentence in self.free]


_ENUMERATOR = re.compile(
    r"(?:\d{1,2}[.)]\s?)?(?:-\s)?(?:\[[ xX✓]?\]\s?)?(?:(?:option|choice|statement)\s?)?"
    r"(?:[(\[](?P<inner>[A-Za-z])[)\]]|(?P<outer>[A-Za-z])\s?(?:[).:=|]|\s-(?=\s)))(?:[:.)|-]|\s|(?=[A-Z<$\d(]))",
    re.I,
)
_NUMBERED = re.compile(r"(?:\d{1,2}[.)]\s?)?(?:-\s)?")


def _listed_lines(lines: list[str], options: Options) -> set[int]:
    """Lines that list the options: letters that ascend line by line, or the options' words one after another."""
    listed: set[int] = set()
    letters: list[tuple[int, str]] = []
    texts: list[tuple[int, frozenset[str]]] = []
    for index, line in enumerate(lines):
        mark = _ENUMERATOR.match(line)
        if mark:
            letter = mark["inner"] or mark["outer"]
            if letters and letters[-1][1] < letter and letters[-1][1].isupper() == letter.isupper():
                listed |= {letters[-1][0], index}
            letters.append((index, letter))
            continue
        plain = line[_NUMBERED.match(line).end() :]  # type: ignore[union-attr]  # it matches the empty text
        words = options.opens(plain[: options.reach])
        if words and re.match(r"\s?(?:\([A-Z]\)\s?)?(?:$|[:-])", plain[words.end :]):
            if texts and not texts[-1][1] & words.letters and index - texts[-1][0] <= 2:
                listed |= {texts[-1][0], index}
            texts.append((index, words.letters))
    return listed


def _explicit(reply: _Reply) -> Parsed | None:
    events = _declared(reply) + _pick_lines(reply)
    if not events:
        return None
    last = max(events, key=lambda event: event.start)
    return Parsed(last.pick.letter, last.rule) if last.pick.letter else Parsed(None, last.pick.reason)


def _declared(reply: _Reply) -> list[Event]:
    """Announced answers: "the answer is B", "I choose B", "B is the right answer", "therefore, B"."""
    events: list[Event] = []
    for number, sentence in enumerate(reply.sentences):
        if sentence.is_question or sentence.is_hypothetical:
            continue
        listed = sentence.line in reply.listed
        for place in announcements(sentence.text):
            if listed and not place.of_answer:
                continue
            rest = sentence.text[place.end :]
            if not rest.strip(" :*-\"'"):
                rest = _next_text(reply, number)
            pick = _announced(rest, reply.options, of_answer=place.of_answer and not listed)
            if pick is not None:
                events.append(Event(sentence.start + place.end, pick, "declared"))
                break
        events += [
            Event(sentence.start + verdict.start, Pick(frozenset({verdict.letter})), "declared")
            for verdict in verdicts(sentence, reply.options)
            if verdict.is_answer and not listed
        ]
    return events


def _next_text(reply: _Reply, number: int) -> str:
    """The sentence after one that announces an answer and ends, unless the options are listed there."""
    if number + 1 >= len(reply.sentences) or reply.sentences[number + 1].line in reply.listed:
        return ""
    return reply.sentences[number + 1].text


_NOTHING = re.compile(
    r"[\s(\[\"']*(?:none|no (?:correct|option|answer|match|single)|not (?:clear|list|given|poss|determin|avail|applic|"
    r"enough|sure|certain|among)|unknown|unclear|undetermined|n/?a\b|cannot|can't|impossible|uncertain|indetermin)",
    re.I,
)


def _announced(rest: str, options: Options, *, of_answer: bool) -> Pick | None:
    """What the text after an announcement picks; "Answer: none fits" picks nothing, and that counts."""
    pick = leading_pick(rest, options, Place.ANSWER if of_answer else Place.CLAUSE)
    if pick is not None or not of_answer:
        return pick
    pick = affirmed(Sentence(rest, 0, 0), options)
    if pick is None and (letter := options.paraphrased(rest)):
        pick = Pick(frozenset({letter}))
    if pick is None and _NOTHING.match(rest):
        pick = Pick(frozenset(), "no_option_fits")
    return pick


def _pick_lines(reply: _Reply) -> list[Event]:
    """Lines that are only a pick ("B", "(B) Abdomen"), and a pick that the reply begins or ends with."""
    events: list[Event] = []
    position = 0
    above: Pick | None = None
    first = next((i for i, line in enumerate(reply.lines) if line.strip()), 0)
    for index, line in enumerate(reply.lines):
        if line.strip() and index not in reply.listed:
            pick = whole = _whole_line(line, reply.options)
            if pick and above and pick.letters != above.letters:
                pick = Pick(pick.letters | above.letters, "two_picks")  # one below the other, without a word
            above = whole
            if pick is None and index == first:
                pick = leading_pick(_PREFIX.sub("", line, count=1), reply.options, Place.LINE)
            if pick is not None:
                events.append(Event(position, pick, "leading" if index == first else "pick_line"))
        position += len(line) + 1
    if reply.free and reply.free[-1] is reply.sentences[-1] and reply.free[-1].start:
        pick = _whole_line(reply.free[-1].text, reply.options)
        if pick is not None:
            events.append(Event(reply.free[-1].start, pick, "trailing"))
    return events


_PREFIX = re.compile(
    r"^(?:(?:option|choice|answer)\s|it is |it's |this is |the )(?=[(\[\"']?[A-Z][)\]\"']?(?:\W|$))", re.I
)
_ONLY_LETTER = re.compile(
    r"(?:(?:option|choice)\s?)?[(\[{\"'<]{0,2}\s?(?P<letter>[A-Za-z])\s?[)\]}\"'>]{0,2}\s?[.:!,]?", re.I
)
_LETTER_MARK = re.compile(r"(?:(?:option|choice)\s?)?[(\[\"']{0,2}[A-Za-z][)\]\"']{0,2}\s?[.:,)-]?\s?", re.I)


def _whole_line(line: str, options: Options) -> Pick | None:
    """The pick of a line that holds nothing else."""
    line = line.strip()
    if only := _ONLY_LETTER.fullmatch(line):
        letter = only["letter"].upper()
        return Pick(frozenset({letter})) if letter in options.letters else None
    if words := options.equal(line):
        return Pick(words, "" if len(words) == 1 else "duplicate_option_text")
    pick = leading_pick(line, options, Place.LINE)
    if pick is None or pick.reason == "duplicate_option_text":
        return None
    if pick.reason:
        return pick
    mark = _LETTER_MARK.match(line)
    return pick if mark and pick.letters <= options.equal(line[mark.end() :]) else None


def _judged(reply: _Reply) -> Parsed | None:
    """The one option that is called correct, true, or the only correct one, or is marked so in a list."""
    right: dict[str, bool] = {}
    for sentence in reply.sentences:
        if not sentence.is_question and not sentence.is_hypothetical:
            right |= {verdict.letter: verdict.alone for verdict in verdicts(sentence, reply.options)}
    chosen = [letter for letter, alone in right.items() if alone] or list(right)
    if len(chosen) == 1:
        return Parsed(chosen[0], "called_right")
    marked = {letter for line in reply.lines if (letter := _marked_right(line)) in reply.options.letters}
    return Parsed(marked.pop(), "marked_right") if len(marked) == 1 and not right else None


_TICKED = re.compile(r"(?:-\s)?(?:\[[xX✓]\]|✓)\s?[(\[]?(?P<letter>[A-Z])\b")
_MARKED = re.compile(
    r"[(\[]?(?P<letter>[A-Z])[).:\]|][^✓]{0,200}(?:✓|(?:[-:(|→=]|->)\s?(?:correct|right|true)\W{0,3}$)", re.I
)


def _marked_right(line: str) -> str | None:
    mark = _TICKED.match(line) or _MARKED.match(line)
    return mark["letter"].upper() if mark else None


_SUPERLATIVE = re.compile(
    r"\b(?:most (?:likely|probabl[ey]|consistent|appropriate|compatible|suggestive|fitting|closely|plausible|clearly|"
    r"accurate\w*|indicative)|best (?:fits?|describe[sd]?|match\w*|represent\w*|correspond\w*|characteri[sz]ed|"
    r"explain\w*|answer\w*)|(?:fits?|match(?:es)?) best|therefore|thus|hence|(?:in )?conclusion|in summary|overall|"
    r"ultimately|final(?:ly)?|consequently|definitely|clearly|must be)\b|^so\b",
    re.I,
)
_INDICATION = re.compile(
    r"\b(?:likely|probabl[ey]|consistent with|compatible with|suggest\w*|indicat\w*|indicative|typical (?:of|for)|"
    r"characteristic of|diagnosis|match(?:es)?|correspond\w*|appears to be|represents?|represented by|depicts?|shows?|"
    r"demonstrates?|reveals?|identified as|classified as|known as|pathognomonic|diagnostic of|points? to|favou?rs?)\b",
    re.I,
)


def _concluded(reply: _Reply) -> Parsed | None:
    """The option of the last sentence that concludes; where sentences only indicate, all must indicate the same."""
    for cue, rule in ((_SUPERLATIVE, "concluded"), (_INDICATION, "indicated")):
        found = [
            pick.letter
            for sentence, pick in reply.named
            if pick is not None and pick.letter and _commits(sentence) and _cued(cue, sentence, pick)
        ]
        if rule == "concluded" and found:
            return Parsed(found[-1], rule)
        if len(set(found)) == 1:
            return Parsed(found[0], rule)
    return None


def _cued(cue: re.Pattern[str], sentence: Sentence, pick: Pick) -> bool:
    """Whether a sentence has a cue; one that only indicates must stand close to what it indicates."""
    if cue is _SUPERLATIVE:
        return cue.search(sentence.text) is not None
    return any(-60 <= start - match.end() <= 50 for match in cue.finditer(sentence.text) for start in pick.starts)


def _commits(sentence: Sentence) -> bool:
    if sentence.is_hypothetical:
        return False
    return not (sentence.leaves_open or sentence.refuses) or _SUPERLATIVE.search(sentence.text) is not None


def _only_named(reply: _Reply) -> Parsed | None:
    """The one option that is named and not denied anywhere, by letter or else by words."""
    picks = [(s, pick) for s, pick in reply.named if pick is not None and not s.leaves_open and not s.refuses]
    named = frozenset().union(*(pick.letters for _, pick in picks)) if picks else frozenset()
    if len(named) != 1 or any(pick.reason for _, pick in picks) or any(s.refuses for s in reply.free):
        return None
    letter = next(iter(named))
    words = reply.options.words[letter]
    if all(len(word) < 3 or not word.isalpha() for word in words):  # a number may stand anywhere in a calculation
        last = reply.free[-1]
        stated = [s for s, _ in picks if s is last and re.search(r"\b(?:is|are|was|were|of|in|by)\b|[=≈(]", s.text)]
        if not stated:
            return None
    return Parsed(letter, "only_named")


def _paraphrase(reply: _Reply) -> Parsed | None:
    """The option whose words most resemble a sentence that concludes, or the first sentence."""
    if any(pick is not None for _, pick in reply.named) or any(s.refuses for s in reply.free):
        return None
    denied = {letter for s in reply.free for group in named_options(s, reply.options) for letter in group.letters}
    found = {
        letter
        for number, sentence in enumerate(reply.free)
        if (number == 0 or _SUPERLATIVE.search(sentence.text)) and not sentence.leaves_open
        if (letter := reply.options.paraphrased(sentence.text))
    }
    return Parsed(found.pop(), "paraphrase") if len(found) == 1 and not found & denied else None


def _why_nothing(reply: _Reply) -> str:
    """Name the reason why a reply commits to no option."""
    checks: list[tuple[str, Callable[[], bool]]] = [
        ("not_an_option", lambda: _ONLY_LETTER.fullmatch(reply.text) is not None),
        ("refusal", lambda: any(s.refuses for s in reply.sentences)),
        ("options_listed", lambda: bool(reply.listed)),
        ("two_picks", lambda: any(pick is not None for _, pick in reply.named)),
        ("denied_only", lambda: any(named_options(s, reply.options) for s in reply.free)),
        ("truncated", lambda: is_cut_off(reply.text)),
    ]
    return next((reason for reason, holds in checks if holds()), "no_commitment")
