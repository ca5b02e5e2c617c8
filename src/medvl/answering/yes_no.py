"""The rules that read a reply to a yes/no question: the word first, then what is stated about the thing asked for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from medvl.answering.announcements import announcements
from medvl.answering.mentions import Token, keys
from medvl.answering.polarity import Sentence, is_cut_off, is_denied, sentences
from medvl.answering.reply_text import Parsed

_YES = r"yes|yeah|yep|yup|affirmative|ja|oui|sí|sim|да|はい|是的|对"
_NO = r"no|nope|nah|nein|non|não|нет|いいえ|不是|否"
_OPENING = (
    r"well|so|probably|likely|clearly|most likely|wait|actually|then|a|simply|therefore|thus|hence|overall|finally|"
    r"i think|i believe|definitely|absolutely|certainly|of course|that is|is|be"
)
_WORD = re.compile(
    rf"[\s\"'(*:,-]{{0,6}}(?:(?:[A-Z]|\d)[).:]\s?)?(?:(?:{_OPENING})[\s,:]{{1,2}}){{0,3}}[\"'(]?"
    rf"(?:(?P<yes>(?:{_YES}))|(?P<no>{_NO})|(?P<right>true|correct)|(?P<wrong>false|incorrect))(?![^\W_]|-)[\"')]?",
    re.I,
)
_EITHER = re.compile(rf"\s?(?:/|or|and|oder|ou|,)\s?[\"']?(?:{_YES}|{_NO})\b", re.I)
_CLAUSE = re.compile(r"\s(?:there|it|this|that|the|these|those|i|we|they|he|she|my|no)\b", re.I)
_ENDS = re.compile(r"\s?(?:$|[,;:!]|\.(?!\s?\d)|-\s|\n)")
_LABEL = re.compile(
    rf"[:=-]\s?(?:(?P<yes>{_YES}|true|present|positive)|(?P<no>{_NO}|false|absent|negative))\W{{0,3}}$", re.I
)


def read_yes_no(text: str, question: str | None) -> Parsed:
    """Find the yes or no that a wording commits to, in the literal sense of the question.

    Args:
        text: Wording (see `reply_text.wording`).
        question: Question as it was asked; None for one that asks whether something is present.
    """
    if not any(c.isalnum() for c in text):
        return Parsed(None, "empty")
    asked = Asked.read(question)
    said = sentences(text)
    spoken = _spoken(said, asked)
    stated = _stated(said, asked)
    if spoken is None:
        return stated or Parsed(None, _why_nothing(text, said))
    if spoken.answer and stated and stated.answer and stated.answer != spoken.answer and stated.rule == "statement":
        if asked is not None and asked.denies:
            return stated  # "No, there is no X" to "Is there no X?": the particle is ambiguous, the statement is not
        if spoken.answer == "yes":
            return Parsed(None, "contradiction")
    return spoken


def _spoken(said: list[Sentence], asked: Asked | None) -> Parsed | None:
    """The last word yes or no that stands for an answer; None without one."""
    found: Parsed | None = None
    for number, sentence in enumerate(said):
        if sentence.is_question and number:
            continue
        places = [(0, "leading" if number == 0 else "word")]
        places += [(place.end, "declared") for place in announcements(sentence.text)]
        for place, rule in sorted(places):
            rest = sentence.text[place:] or (said[number + 1].text if number + 1 < len(said) else "")
            if (word := _word(rest)) is not None:
                found = Parsed(word, rule) if word != "either" else Parsed(None, "two_picks")
        label = _LABEL.search(sentence.text)
        if label and asked is not None and asked.covered(sentence.tokens[:-1]) == 1:
            found = Parsed("yes" if label["yes"] else "no", "labelled")
    return found


def _word(text: str) -> str | None:
    """`yes`, `no` or `either` where a text begins with such a word, None where it does not."""
    match = _WORD.match(text)
    if match is None:
        return None
    after = text[match.end() :]
    if _EITHER.match(after):
        return "either"
    if match["yes"]:
        return "yes"
    if match["no"]:
        return "no" if _ENDS.match(after) or _CLAUSE.match(after) else None
    if not _ENDS.match(after):
        return None
    return "yes" if match["right"] else "no"


_GENERIC = frozenset(
    keys(
        "is are was were do does did has have had can could will would be been being any some there this that these "
        "those it its in on at of for from with by to the a an and or as image picture photo scan film radiograph x "
        "ray xray x-ray ultrasound sonogram ct mri chest patient you see seen shown show visible present evidence sign "
        "finding detect detected identify identified depict depicted appear look contain include please answer yes no "
        "not without free absent absence which what one view frame here given possible"
    )
)
_SIDES = [{"right", "left", "bilateral"}, {"upper", "lower", "middle"}]
_SOUND = {"normal", "healthy", "unremarkable", "clear"}
_UNSOUND = {"abnormal", "abnormality", "unhealthy"}
_SUBJECTS = frozenset(keys("image picture scan film radiograph x-ray xray ray ultrasound study chest examination"))
_DENYING = re.compile(r"\b(?:no|not|without|absence of|absent|free of)\b", re.I)
_DOES = re.compile(r"\W*(?:do|does|did)\b", re.I)
_COPULAS = {"is", "are", "was", "were", "appears", "appear", "seems", "seem", "looks", "look"}
_SHORT = re.compile(
    r"\W{0,3}(?:(?:it|there|this|that|they|these)\s(?:is|are|does|do|has|was|can)(?P<no>n't|\snot|\snone)?|"
    r"(?P<none>none|(?:probably|likely|certainly|definitely|absolutely|of course|i think|perhaps)\snot|"
    r"not\s(?:really|likely|at all|present|visible|seen|detected)))\W{0,3}",
    re.I,
)
_EXISTS = re.compile(
    r"\b(?:there (?:is|are|appears?|seems?)|shows?|demonstrates?|reveals?|has|have|contains?|consistent with|"
    r"evidence of|(?:is|are) (?:present|visible|seen|noted|detected|identified)|"
    r"i (?:can |do )?(?:see|observe|note|find|identify)|positive for|suggest\w*|indicat\w*)\b",
    re.I,
)
_WHETHER = re.compile(r"\b(?:whether|if)\b", re.I)
_POSSIBLE = re.compile(
    r"\b(?:may|might|could|possib\w+|perhaps|maybe|whether|if|(?:cannot|can't|to|not) (?:be )?"
    r"(?:exclude|rule|rul)\w*|suspicious|differential)\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a yes/no question asks for.

    Attributes:
        words: Its telling words, without sides.
        sides: Sides and levels that it names.
        denies: Whether it asks for an absence ("Is there no X?").
        verb: Whether it asks what something does ("Does it meet ...?"), not what it is.
        soundness: +1 where it asks whether something is normal, -1 whether it is abnormal, 0 otherwise.
    """

    words: frozenset[str]
    sides: frozenset[str]
    denies: bool
    verb: bool
    soundness: int

    @classmethod
    def read(cls, question: str | None) -> Asked | None:
        """Read a question; None for no question or one without telling words."""
        if question is None:
            return None
        asked = question.split("?", 1)[0]
        words = set(keys(asked))
        sides = words & set().union(*_SIDES)
        soundness = bool(words & _SOUND) - bool(words & _UNSOUND)
        telling = words - _GENERIC - sides - _SOUND - _UNSOUND
        if not telling and not soundness:
            return None
        return cls(
            frozenset(telling),
            frozenset(sides),
            _DENYING.search(asked) is not None,
            _DOES.match(asked) is not None,
            soundness,
        )

    def covered(self, words: list[Token]) -> float:
        """Share of the telling words among some words, in [0, 1]; 1 where there are none to find."""
        return len(self.words & {word.key for word in words}) / len(self.words) if self.words else 1.0

    def elsewhere(self, words: list[Token]) -> bool:
        """Whether some words name another side than the question does."""
        said = {word.key for word in words}
        return any(self.sides & axis and said & axis and not self.sides & said & axis for axis in _SIDES)


def _stated(said: list[Sentence], asked: Asked | None) -> Parsed | None:
    """The answer that all statements about the thing asked for imply; None where they disagree or there is none."""
    found: list[tuple[bool, str]] = []
    for sentence in said:
        if sentence.refuses or _WHETHER.search(sentence.text):
            if asked is not None and asked.words and asked.covered(sentence.tokens) >= 0.5:
                return None  # it says that this cannot be told: what else it says is general knowledge
        elif not sentence.is_question and not _POSSIBLE.search(sentence.text):
            found += _presence(sentence, asked)
    if not found or len({there for there, _ in found}) > 1:
        return None
    there, rule = found[0]
    return Parsed("yes" if there != (asked is not None and asked.denies) else "no", rule)


def _presence(sentence: Sentence, asked: Asked | None) -> list[tuple[bool, str]]:
    """(whether the thing asked for is there, rule) as a sentence states it; empty where it says nothing of it."""
    words = sentence.tokens
    if short := _SHORT.fullmatch(sentence.text):
        return [(not (short["no"] or short["none"]), "short_answer")]
    exists = _EXISTS.search(sentence.text) is not None
    if asked is None:
        denies = re.search(r"\b(?:no|not|without|absent|negative for)\b|n't\b", sentence.text, re.I)
        return [(denies is None, "statement")] if exists or denies else []
    found: list[tuple[bool, str]] = []
    if asked.soundness or not asked.words & {word.key for word in words}:
        found += _soundness(words, asked)
    if asked.elsewhere(words) or asked.soundness:
        return found
    previous_end = 0
    for first, last in _clusters(words, asked):
        denied = any(is_denied(words, at, last, previous_end, len(words)) for at in (first, last))
        covered = asked.covered(words[first : last + 1])
        if denied and covered >= 0.5:
            found.append((False, "statement"))
        elif not denied and covered == 1 and exists:
            found.append((True, "statement"))
        elif not denied and covered == 1 and _predicates(words[first : last + 1], asked):
            found.append((True, "predicate"))
        previous_end = last + 1
    return found


def _clusters(words: list[Token], asked: Asked) -> list[tuple[int, int]]:
    """(first, last) index of each stretch of words that names the thing asked for once."""
    clusters: list[tuple[int, int]] = []
    seen: set[str] = set()
    for i, word in enumerate(words):
        if word.key not in asked.words:
            continue
        if not clusters or word.key in seen:
            clusters.append((i, i))
            seen = set()
        clusters[-1] = (clusters[-1][0], i)
        seen.add(word.key)
    return clusters


def _predicates(words: list[Token], asked: Asked) -> bool:
    """Whether a stretch of words says something of something ("the heart is enlarged", "meets the standard")."""
    return len(asked.words) > 1 and (asked.verb or any(word.raw.casefold() in _COPULAS for word in words))


def _soundness(words: list[Token], asked: Asked) -> list[tuple[bool, str]]:
    """What "normal" and "abnormal" in a sentence say of the thing asked for."""
    found: list[tuple[bool, str]] = []
    general = bool(_SUBJECTS & {word.key for word in words})
    for i, word in enumerate(words):
        if word.key not in _SOUND | _UNSOUND:
            continue
        following = words[i + 1].key if i + 1 < len(words) else ""
        sound = (word.key in _SOUND) != is_denied(words, i, i, 0, len(words))
        if asked.soundness and (general or asked.covered(words) == 1):
            found.append((sound == (asked.soundness > 0), "called_normal"))
        elif not asked.soundness and sound and general and (not following or following in _SUBJECTS):
            found.append((False, "called_normal"))
    return found


def _why_nothing(text: str, said: list[Sentence]) -> str:
    if any(sentence.refuses for sentence in said):
        return "refusal"
    if any(_POSSIBLE.search(sentence.text) for sentence in said):
        return "hedged"
    return "truncated" if is_cut_off(text) else "no_commitment"
