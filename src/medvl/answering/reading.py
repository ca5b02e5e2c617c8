"""Reads a reply to an item: which of its options the reply commits to, if any."""

from __future__ import annotations

import re

from medvl.answering.parsing import Parsed, parse_choice, parse_yes_no
from medvl.benchmark.item import Item

_SAYS_NO_OPTION = ("no_commitment", "truncated")
"""Reasons of a reply that may state something without naming an option. With any other it contradicts or declines."""
_LAST_WORD = re.compile(r"\b\w+\Z")


def read_reply(item: Item, reply: str, *, is_cut: bool = False) -> Parsed:
    """Read the option of an item that a reply commits to.

    Where the options are yes and no, a reply without either word is read for what it states: "There is no nodule".

    Args:
        item: Item that was asked.
        reply: What the model wrote, without its prompt.
        is_cut: Whether the reply was stopped at its longest. The word it was cut in then counts for nothing: the "A" at
            the end may have been about to become "Abdomen".

    Returns:
        A letter of the item and the rule that found it, or None and the reason. A reply that was cut before it came to
        anything is `truncated`.
    """
    told = _LAST_WORD.sub("", reply) if is_cut else reply
    found = parse_choice(told, dict(zip(item.letters, item.options, strict=True)))
    letters = {text.strip().casefold(): letter for letter, text in zip(item.letters, item.options, strict=True)}
    if len(item.options) == 2 and letters.keys() == {"yes", "no"}:
        stated = parse_yes_no(told, item.question)
        if stated.rule == "contradiction":
            return stated
        if found.rule in _SAYS_NO_OPTION and stated.answer is not None:
            return Parsed(letters[stated.answer], stated.rule)
    return Parsed(None, "truncated") if is_cut and found.rule in ("empty", "no_commitment") else found
