"""The vocabulary: what each task asks, and which answer each raw label of a dataset means.

Three things stay apart: the raw label as the dataset writes it, the answer as a question shows it, and whether that
answer is generic (names the organ only). The table is `vocabulary.yaml`; it is checked for collisions when it is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

from medvl.errors import DataError
from medvl.sources.record import Task

_TASK_KEYS = {"question", "num_options", "answers"}
_ANSWER_KEYS = {"labels", "generic", "is_a", "not_beside", "field"}


@dataclass(frozen=True, slots=True)
class TaskVocabulary:
    """Question and answers of one task.

    Attributes:
        question: Question text.
        num_options: Options shown when enough answers exist.
        answers: Answer texts, in the order of the table.
        generic: Answers that name the organ only.
        by_label: Normalised raw label -> answer.
        conflicts: Answer -> answers that must not stand beside it (broader, narrower, easily the same thing, or of
            another field of medicine, which would give the question away).
    """

    question: str
    num_options: int
    answers: tuple[str, ...]
    generic: frozenset[str]
    by_label: Mapping[str, str]
    conflicts: Mapping[str, frozenset[str]]

    def answer_to(self, raw_label: str) -> str | None:
        """Answer that a raw label means, or None when the table does not know it."""
        return self.by_label.get(normalise_label(raw_label))


def normalise_label(label: str) -> str:
    """Raw label without case, runs of blanks, `_` and `-`."""
    return re.sub(r"[\s_\-]+", " ", label.strip()).casefold()


@cache
def load_vocabulary() -> dict[Task, TaskVocabulary]:
    """The shipped table, checked."""
    return parse_vocabulary(yaml.safe_load(vocabulary_text()))


def vocabulary_text() -> str:
    """The shipped table as it is written."""
    return resources.files("medvl.benchmark").joinpath("vocabulary.yaml").read_text(encoding="utf-8")


def parse_vocabulary(table: Mapping[str, Any]) -> dict[Task, TaskVocabulary]:
    """Check a vocabulary table and index it.

    Args:
        table: Task -> {question, num_options, answers: {answer: {labels, generic, is_a, not_beside, field}}}.

    Raises:
        DataError: An unknown task or key, a missing key, fewer than two options, a label that means two answers, a
            reference to an answer that is absent.
    """
    if unknown := sorted(set(table) - set(Task)):
        raise DataError(f"vocabulary: unknown task {unknown}; known: {', '.join(Task)}")
    return {Task(name): _parse_task(name, node) for name, node in table.items()}


def _parse_task(name: str, node: Mapping[str, Any]) -> TaskVocabulary:
    if set(node) != _TASK_KEYS:
        raise DataError(f"vocabulary, {name}: has the keys {sorted(node)}, expected {sorted(_TASK_KEYS)}")
    if min(int(node["num_options"]), len(node["answers"])) < 2:
        raise DataError(f"vocabulary, {name}: a question needs two answers and num_options of at least 2")
    answers = tuple(node["answers"])
    by_label: dict[str, str] = {}
    pairs: set[tuple[str, str]] = set()
    for answer, facts in node["answers"].items():
        if not isinstance(facts, Mapping) or (unknown := set(facts) - _ANSWER_KEYS):
            found = sorted(unknown) if isinstance(facts, Mapping) else facts
            raise DataError(f"vocabulary, {name}, '{answer}': unknown {found}; expected {sorted(_ANSWER_KEYS)} or {{}}")
        for label in (answer, *facts.get("labels", ())):
            key = normalise_label(str(label))
            if by_label.setdefault(key, answer) != answer:
                raise DataError(f"vocabulary, {name}: the label '{label}' means both '{by_label[key]}' and '{answer}'")
        for other in (*([facts["is_a"]] if "is_a" in facts else ()), *facts.get("not_beside", ())):
            if other not in node["answers"]:
                raise DataError(f"vocabulary, {name}, '{answer}': refers to '{other}', which is not an answer")
            pairs |= {(answer, other), (other, answer)}
    field = {answer: facts.get("field", "fetal") for answer, facts in node["answers"].items()}
    pairs |= {(a, b) for a in answers for b in answers if field[a] != field[b]}
    conflicts = {answer: frozenset(b for a, b in pairs if a == answer) for answer in answers}
    generic = frozenset(answer for answer, facts in node["answers"].items() if facts.get("generic"))
    return TaskVocabulary(str(node["question"]), int(node["num_options"]), answers, generic, by_label, conflicts)
