"""The option that a piece of a reply begins with: "B) Abdomen", "the abdomen", "B, because ..."."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from medvl.answering.mentions import Options, word_set

EDGE = r"(?![A-Za-z0-9_À-ɏ])"
"""End of a letter that stands by itself; Chinese, Japanese or Korean may follow without a space."""
_NEAR = 400
"""Characters after a letter in which other options are looked for."""


class Place(Enum):
    """Where a pick stands, from the least to the most telling place."""

    LINE = "line"
    """At the beginning of a line that announces nothing."""
    CLAUSE = "clause"
    """After "therefore" or "I think": a pick or any other clause."""
    ANSWER = "answer"
    """After "the answer is": anything there is meant as an answer."""


@dataclass(frozen=True, slots=True)
class Pick:
    """What a piece of text picks.

    Attributes:
        letters: Letters of the options, more than one where the pick is no single option.
        reason: Why it is none, where it is none; "" otherwise.
        starts: Where the options are named in a sentence.
    """

    letters: frozenset[str]
    reason: str = ""
    starts: tuple[int, ...] = ()

    @property
    def letter(self) -> str | None:
        """The one letter that is picked."""
        return next(iter(self.letters)) if len(self.letters) == 1 and not self.reason else None


_LETTER = re.compile(rf"(?P<open>[(\[{{<\"']{{0,2}})\s?(?P<letter>[A-Za-z])(?P<close>\s?[)\]}}>\"']{{1,2}})?{EDGE}")
_FILLER = re.compile(
    r"[\s*:,.\-=>→]{0,6}(?:(?:the|most|best|correct|right|final|more|likely|probably|clearly|definitely|certainly|"
    r"indeed|therefore|thus|actually|simply|still|only|just|to be|be|is|are|that|it is|it's|option|choice|answer|"
    r"letter|statement|label|labell?ed|number|either|both|between|opción|opcion|lettre|letra|die|der|la|el|le|"
    r"a letra|a opção|a alternativa)\b[\s:,]{0,2}|选项|選項){0,8}",
    re.I,
)
_DENIAL = re.compile(r"\s?(?:not|never|neither|nicht|pas|no longer)\b", re.I)
_INSTEAD = re.compile(r"\b(?:but|rather|it is|it's|sondern|mais|sino)\b", re.I)
_AND = re.compile(
    r"\s?(?:,\s?(?:(?:and|or)\s)?|/|&|;|\+|(?<=[\s)\]\"'])(?:and|or|und|oder|et|ou|y|o)\s)\s?"
    r"(?:(?:also|possibly|maybe|perhaps|even)\s)?(?:(?:option|choice|answer)\s)?"
    rf"(?P<open>[(\[\"']?)(?P<letter>[A-Za-z])(?P<close>[)\]\"']?){EDGE}",
    re.I,
)
_SEPARATOR = re.compile(r"[ .:)\-,\"']{0,6}")
_ONE_LETTER = re.compile(r"([A-Z])[.)]?")
_DISMISSED = re.compile(
    r"(?:\s?\([A-Z]\))?\s(?:is|are|was|were|does|do|can|could|would|seems?|appears?|looks?)"
    r"(?:n't|\s(?:also |clearly |all |both )?(?:not|wrong|incorrect|false|unlikely|less|excluded|ruled|"
    r"be (?:ruled|excluded|eliminated)|impossible|out))\b",
    re.I,
)
_ENUMERATED = re.compile(
    r"(?<![^\s,;|(\[{\"'])[(\[\"']?(?P<letter>[A-Z])[)\]\"']?\s?(?:[):=]|[-(]?\s?\d{1,3}(?:\.\d+)?\s?%)"
)
_NEXT_WORD = re.compile(r"\s?([^\W_][\w'-]{0,40})")
_AFTER_A = word_set(
    "is was because since as due given and or but for which with where while though however therefore so if in on from "
    "based corresponding corresponds according rather not über weil car porque"
)
"""Words that may follow the letter A, and cannot follow the article "a"."""
_AFTER_I = word_set("is because since and or based corresponding corresponds")


def leading_pick(text: str, options: Options, place: Place) -> Pick | None:
    """What a text begins with: a letter, several, or the words of an option.

    Args:
        text: Piece of a wording.
        options: Options of the question.
        place: Where it stands. After an announcement, filling words, lower-case letters and letters that are no option
            count.

    Returns:
        The pick, or None where the text begins with something else, or with an option that is denied.
    """
    if place is not Place.LINE:
        text = text[_FILLER.match(text).end() :]  # type: ignore[union-attr]  # it matches the empty text
        if _DENIAL.match(text):
            instead = _INSTEAD.search(text)
            text = text[instead.end() :] if instead else ""
            text = text[_FILLER.match(text).end() :]  # type: ignore[union-attr]  # as above
    named = _LETTER.match(text)
    words = options.opens(text[: options.reach])
    if named and not (words and words.last > words.first and words.start <= named.start("letter")):
        pick = _by_letter(text, named, options, place)
        if pick is not None:
            return pick
    if words is None or _DISMISSED.match(text, words.end):
        return None
    if not _stands_alone(text, words.end) and (words.loose or place is not Place.ANSWER):
        return None
    return Pick(words.letters, "" if len(words.letters) == 1 else "duplicate_option_text")


def more_letters(text: str, end: int) -> list[re.Match[str]]:
    """Letters that continue a list like "A, B and C" after a position in a text."""
    found: list[re.Match[str]] = []
    while (more := _AND.match(text, end)) is not None:
        found.append(more)
        end = more.end()
    return found


def is_no_article(letter: str, after: str) -> bool:
    """Whether what follows a letter in a sentence shows that it is neither the article "A" nor the pronoun "I"."""
    following = _NEXT_WORD.match(after)
    if letter not in "AI" or following is None:
        return True
    return following[1].casefold() in (_AFTER_A if letter == "A" else _AFTER_I)


def skip_own_text(text: str, end: int, letter: str, options: Options) -> int:
    """Position after the text of an option where it follows its letter; the same position where it does not."""
    begin = _SEPARATOR.match(text, end).end()  # type: ignore[union-attr]  # it matches the empty text
    words = options.opens(text[begin : begin + options.reach])
    return begin + words.end if words is not None and letter in words.letters else end


def _stands_alone(text: str, end: int) -> bool:
    """Whether the words that end there are no mere beginning of a longer phrase."""
    return re.match(r"[\"')\]]{0,2}\s?(?:$|[.,;:!?(\n-])", text[end:]) is not None


def _by_letter(text: str, named: re.Match[str], options: Options, place: Place) -> Pick | None:
    letter = named["letter"].upper()
    if not _is_letter(text, named, options, place):
        return None
    if letter not in options.letters:
        if letter in options.labels:
            return Pick(frozenset({options.labels[letter]}))
        return Pick(frozenset(), "not_an_option") if place is Place.ANSWER else None
    end = skip_own_text(text, named.end(), letter, options)
    letters = {letter}
    for more in more_letters(text, end):
        other = more["letter"].upper()
        if other not in options.letters or (more["letter"].islower() and named["letter"].isupper()):
            break
        if not _is_listed(text, more):
            break
        letters.add(other)
        end = more.end()
    if _DISMISSED.match(text, end):
        return None
    after = text[end : end + _NEAR]
    rated = {m["letter"] for m in _ENUMERATED.finditer(after)} & set(options.letters) - letters
    if len(rated) > 1 or (rated and not re.search(r"\bnot\b|n't", after)):
        return Pick(frozenset(letters | rated), "two_picks")
    if len(letters) > 1:
        is_all = place is not Place.LINE or not after.strip(" .!)")
        return Pick(frozenset(letters), "two_picks") if is_all else None
    return _contradiction(text[named.end() :], letter, options) or Pick(frozenset(letters))


def _contradiction(after: str, letter: str, options: Options) -> Pick | None:
    """The pick of a letter that is followed by nothing but the text or the letter of another option."""
    rest = _SEPARATOR.sub("", after, count=1).split("\n", 1)[0]
    texts = options.equal(rest)
    if texts and letter not in texts and options.words[letter]:
        return Pick(frozenset({letter}) | texts, "letter_contradicts_text")
    only = _ONE_LETTER.fullmatch(rest)
    if only and only[1] != letter and only[1] in options.letters and options.labels.get(only[1]) != letter:
        return Pick(frozenset({letter, only[1]}), "two_picks")
    return None


def _is_listed(text: str, more: re.Match[str]) -> bool:
    """Whether a letter after a comma or "and" is one more pick, not the beginning of a clause or an article."""
    following = _NEXT_WORD.match(text, more.end())
    if more["close"] or following is None or text[more.end() : more.end() + 1] in {",", ".", ";", ")"}:
        return True
    return following[1].casefold() in {"and", "or", "are", "und", "et", "y"}


def _is_letter(text: str, named: re.Match[str], options: Options, place: Place) -> bool:
    """Whether a single character is the name of an option, not an article, a pronoun or a part of a word."""
    character, after = named["letter"], text[named.end() :]
    announced = place is not Place.LINE
    if not after.strip():
        return True
    owned = skip_own_text(text, named.end(), character.upper(), options) > named.end()
    if named["close"]:
        return bool(named["open"]) or character.isupper() or announced or owned
    if named["open"] and not after.startswith((".", ":")):
        return False
    if re.match(r"['-][A-Za-z]|\.[A-Za-z](?![A-Za-z])", after):  # "C-section", "I'm", "D.C."
        return owned
    if character.islower():
        return owned or (announced and re.match(r"\s?[.)!;:,]?(?:\s?\n|\s?$|\s[A-Z(])", after) is not None)
    if re.match(r"\s?[.,;:!)\]/&|+=<>\n-]", after):
        return announced or not (character == "I" and after[0] == ",")
    following = _NEXT_WORD.match(after)
    if owned or following is None:
        return True
    word = following[1]
    if not word[0].isascii():
        return announced
    if word in {"is", "was"} and not announced:  # says something of the option: a verdict, or one of a series
        return False
    if character in "AI":
        return is_no_article(character, after)
    return word.casefold() in _AFTER_A or (word[0].isupper() and announced)
