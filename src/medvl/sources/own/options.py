"""Options, answers and question texts as question files write them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

LETTERS = "ABCDEFGHIJ"
LETTERED_OPTION = re.compile(r"\s*\(?(?P<letter>[A-J])(?:\)|[.:](?=\s))\s*(?P<text>.*\S)\s*", re.DOTALL)
LETTER_ANSWER = re.compile(r"\(?(?P<letter>[A-Ja-j])\)?[.:]?")
FIRST_LETTER = re.compile(r"\bA[).:]", re.IGNORECASE)
ASKS = re.compile(r"((at|in|on|to|of|from|for) )?(what|which|where|who|how)\b|(is|are|does|do|can)\b", re.IGNORECASE)
OPTION_COLUMN = re.compile(r"(?:option[ _]?)?(?P<letter>[A-J])", re.IGNORECASE)


def read_options(value: object) -> tuple[str, ...]:
    """Option texts of one cell.

    Args:
        value: A list; a mapping of letters; or text: a JSON list, or texts separated by `|`.

    Returns:
        Texts in order, without blanks at their ends and without `(A)`, `A)`, `A.` or `A:` before them.

    Raises:
        ValueError: Fewer than two or more than ten options, an empty one, or two that are equal.
    """
    if isinstance(value, str):
        value = _parse_text(value)
    if isinstance(value, Mapping):
        value = [value[key] for key in sorted(value, key=str)]
    if not isinstance(value, Sequence):
        raise ValueError(f"expected a list of options, found {value!r}")
    texts = ["" if option is None else str(option).strip() for option in value]
    while texts and not texts[-1]:
        texts.pop()  # rows with fewer options than others leave the last fields empty
    if not 2 <= len(texts) <= len(LETTERS):
        raise ValueError(f"expected 2 to {len(LETTERS)} options, found {len(texts)}")
    texts = _without_letters(texts)
    if not all(texts):
        raise ValueError(f"expected a text for every option, found {texts}")
    plain = [plain_text(text) for text in texts]
    repeated = next((text for text, key in zip(texts, plain, strict=True) if plain.count(key) > 1), None)
    if repeated is not None:
        raise ValueError(f"expected options that differ, found {repeated!r} more than once")
    return tuple(texts)


def option_columns(columns: Sequence[str]) -> list[str]:
    """Columns `A`, `B`, ... or `option_A`, `option_B`, ... in order of their letters; empty without at least two."""
    found = {match["letter"].upper(): name for name in columns if (match := OPTION_COLUMN.fullmatch(name))}
    letters = [letter for letter in LETTERS if letter in found]
    return [found[letter] for letter in letters] if len(letters) >= 2 else []


def answer_index(value: object, options: Sequence[str], kind: str) -> int:
    """Index of the right option.

    Args:
        value: Answer as the file writes it.
        options: What `read_options` gave.
        kind: `letter`, `index` (from 0), `number` (from 1), `text`, or `auto`.

    Raises:
        ValueError: The answer is none of the options, or `auto` finds two readings of it.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # tables with an empty cell somewhere turn whole numbers into floats
    text = str(value).strip() if value is not None else ""
    readings = {"letter": _by_letter, "index": _by_index, "number": _by_number, "text": _by_text}
    if kind != "auto":
        found = readings[kind](text, options)
        if found is None:
            raise ValueError(f"expected an answer written as {kind}, one of {_listed(options)}, found {text!r}")
        return found
    by_kind = {name: readings[name](text, options) for name in ("text", "letter", "index")}
    indices = {index for index in by_kind.values() if index is not None}
    if len(indices) > 1:
        kinds = [name for name, index in by_kind.items() if index is not None]
        raise ValueError(f"the answer {text!r} can be read as {' and as '.join(kinds)}; say answer: {kinds[0]} or so")
    if not indices:
        raise ValueError(f"expected the answer to be one of {_listed(options)}, a letter or an index, found {text!r}")
    return indices.pop()


def is_whole_number(value: object) -> bool:
    """Whether an answer is written as a whole number."""
    return re.fullmatch(r"\d+", str(value).strip(), re.ASCII) is not None


def without_options(question: str, options: Sequence[str]) -> str:
    """The question without the list of its options, where it repeats them with letters."""
    text = question.strip()
    if not FIRST_LETTER.search(text):  # spares most questions a pattern of their own
        return text
    opening = re.compile(rf"\s*(?:\boptions?\s*:)?\s*\(?\bA[).:]\)?\s*{re.escape(options[0])}", re.IGNORECASE)
    match = opening.search(text)
    if match is None:
        return text
    rest = plain_text(text[match.start() :])
    if not all(plain_text(option) in rest for option in options):
        return text
    kept = text[: match.start()].rstrip(" \t\r\n:;,-")
    if not kept:
        return text
    if kept.endswith(("?", ".", "!")):
        return kept
    return f"{kept}?" if ASKS.match(kept) else f"{kept}."


def plain_text(text: str) -> str:
    """Text for comparisons: without case, blanks at its ends, repeated blanks and a full stop at its end."""
    return " ".join(text.split()).rstrip(".").casefold()


def _parse_text(text: str) -> Any:
    if text.lstrip().startswith(("[", "{")):
        try:
            return json.loads(text)
        except ValueError:
            raise ValueError(f"expected a JSON list of options, found {text[:60]!r}") from None
    return text.split("|")


def _without_letters(texts: list[str]) -> list[str]:
    """Letters are dropped only when every option has the one that is its turn: `E. coli` alone keeps its E."""
    matches = [LETTERED_OPTION.fullmatch(text) for text in texts]
    stripped = [m["text"] for m, letter in zip(matches, LETTERS, strict=False) if m and m["letter"] == letter]
    return stripped if len(stripped) == len(texts) else texts


def _by_letter(text: str, options: Sequence[str]) -> int | None:
    match = LETTER_ANSWER.fullmatch(text)
    index = LETTERS.index(match["letter"].upper()) if match else len(options)
    return index if index < len(options) else None


def _by_index(text: str, options: Sequence[str]) -> int | None:
    return int(text) if is_whole_number(text) and int(text) < len(options) else None


def _by_number(text: str, options: Sequence[str]) -> int | None:
    return int(text) - 1 if is_whole_number(text) and 1 <= int(text) <= len(options) else None


def _by_text(text: str, options: Sequence[str]) -> int | None:
    found = [index for index, option in enumerate(options) if plain_text(option) == plain_text(text)]
    lettered = LETTERED_OPTION.fullmatch(text)
    if not found and lettered:
        index = LETTERS.index(lettered["letter"])
        if index < len(options) and plain_text(options[index]) == plain_text(lettered["text"]):
            return index
    return found[0] if len(found) == 1 else None


def _listed(options: Sequence[str]) -> str:
    return ", ".join(repr(option) for option in options)
