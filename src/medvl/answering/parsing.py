"""Reads generated replies: the option or the yes/no that a reply commits to, or nothing. Never a guess."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from medvl.answering.choice import read_choice
from medvl.answering.mentions import Options
from medvl.answering.reply_text import Parsed, assistant_turns, fold, keyed, tagged, without_thoughts, wording
from medvl.answering.yes_no import read_yes_no

__all__ = ["Parsed", "parse_choice", "parse_yes_no"]


def parse_choice(reply: str, options: Mapping[str, str]) -> Parsed:
    """Read the option that a reply to a multiple-choice question commits to.

    Args:
        reply: Generated text, new tokens only; a whole transcript is read too.
        options: Option letter -> option text, as shown to the model. Texts may be empty.

    Returns:
        A letter of `options`, or None with the reason as its rule.
    """
    prepared = Options(options, {letter: wording(fold(text)) for letter, text in options.items()})
    found = _read(reply, lambda text: read_choice(text, prepared))
    return Parsed(prepared.letters[found.answer], found.rule) if found.answer else found


def parse_yes_no(reply: str, question: str | None = None) -> Parsed:
    """Read the yes or no that a reply commits to, in the literal sense of the question.

    "There is no effusion" is a yes to "Is there no effusion?" and a no to "Is there an effusion?".

    Args:
        reply: Generated text, new tokens only; a whole transcript is read too.
        question: Question as it was asked. Without one, statements are read as answers to "Is it present?".

    Returns:
        `yes`, `no`, or None with the reason as its rule.
    """
    asked = None if question is None else wording(fold(question))
    return _read(reply, lambda text: read_yes_no(text, asked))


_RUN_ON = re.compile(r"^[ *#>]{0,6}(?:question|q|input|problem|next question)\b\**\s?\d{0,3}\s?:", re.I | re.M)
_QUESTION = re.compile(r"^Q\s?:", re.M)
_QUESTION_ANSWER = re.compile(r"^A\s?:", re.M)


def _declared(text: str) -> str:
    """What stands where an answer is asked for, as a sentence that announces it."""
    words = wording(text)
    return f"Final answer: {words}" if words else ""


def _read(reply: str, read: Callable[[str], Parsed]) -> Parsed:
    """Apply the reader to the part of a reply that holds its answer."""
    found = [_read_turn(turn, read) for turn in assistant_turns(fold(reply))]
    if len({parsed.answer for parsed in found}) > 1:
        return Parsed(None, "turns_disagree")
    return found[0]


def _read_turn(turn: str, read: Callable[[str], Parsed]) -> Parsed:
    text, unfinished = without_thoughts(turn)
    if (inner := tagged(text)) is not None:
        parsed = read(_declared(inner))
        return Parsed(parsed.answer, "answer_tag" if parsed.answer else parsed.rule)
    if values := keyed(text):
        found = [read(_declared(value)) for value in values]
        if len({parsed.answer for parsed in found}) > 1:
            return Parsed(None, "two_picks")
        return Parsed(found[0].answer, "json" if found[0].answer else found[0].rule)
    text = _QUESTION_ANSWER.sub("Answer:", text) if _QUESTION.search(text) else text
    again = next((m for m in _RUN_ON.finditer(text) if text[: m.start()].strip()), None)
    if again is not None:
        first = read(wording(text[: again.start()]))
        if first.answer:
            return first
    parsed = read(wording(text))
    return Parsed(None, "unfinished_thought") if parsed.rule == "empty" and unfinished else parsed
