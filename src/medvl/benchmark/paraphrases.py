"""Other words for a question: the table `paraphrases.yaml`, written by hand so that what is asked stays the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

import yaml

from medvl.sources.record import Task

ANY = "any"
"""Key of what can be said around a question that is not in the table."""

GAP = "{}"


@dataclass(frozen=True, slots=True)
class Wordings:
    """What a question can be asked as.

    Attributes:
        texts: The question as it is, then its paraphrases, all different.
        is_known: Whether the question is in the table. The paraphrases of another one add a sentence around it only.
    """

    texts: tuple[str, ...]
    is_known: bool


@cache
def load_paraphrases() -> Mapping[str, tuple[str, ...]]:
    """Task, or `any` -> templates, the benchmark's own first."""
    text = resources.files("medvl.benchmark").joinpath("paraphrases.yaml").read_text(encoding="utf-8")
    return {str(name): tuple(templates) for name, templates in yaml.safe_load(text).items()}


def wordings(task: Task, question: str) -> Wordings:
    """Find the paraphrases of a question.

    Args:
        task: Its task.
        question: Its text. One that the table holds among its paraphrases is as good as the first.
    """
    table = load_paraphrases()
    for template in table[task]:
        found = _pattern(template).fullmatch(question.strip())
        if found is not None:
            others = [other for other in table[task] if other != template]
            filled = [other.replace(GAP, "".join(found.groups())) for other in others]
            return Wordings((question, *filled), is_known=True)
    return Wordings((question, *(other.replace(GAP, question) for other in table[ANY][1:])), is_known=False)


@cache
def _pattern(template: str) -> re.Pattern[str]:
    return re.compile(re.escape(template).replace(re.escape(GAP), r"(.+?)"), re.IGNORECASE)
