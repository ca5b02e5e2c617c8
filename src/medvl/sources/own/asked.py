"""From questions, one a row, to records, one a picture."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from medvl.errors import DataError
from medvl.sources.listing import counted
from medvl.sources.record import Domain, Question, Record, Split, Task

SIDES = {
    "train": Split.TRAIN,
    "training": Split.TRAIN,
    "val": Split.VAL,
    "valid": Split.VAL,
    "validation": Split.VAL,
    "dev": Split.VAL,
    "test": Split.TEST,
    "testing": Split.TEST,
}
"""What data call their sides."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One question with the facts about its picture.

    Attributes:
        where: What to name in a message.
        picture: Absolute path.
        record_id: Id of the picture.
        is_present: Whether the picture is there.
        group: Its group.
        question: The question. An empty id is replaced by a hash of picture, text, options and box.
        domain: Its domain.
        side: Side that the data state.
        listed_as: Path by which the data name the picture.
        meta: Facts about the picture.
    """

    where: str
    picture: Path
    record_id: str
    is_present: bool
    group: str
    question: Question
    domain: Domain = Domain.CLINICAL
    side: Split | None = None
    listed_as: str = ""
    meta: Mapping[str, str] = field(default_factory=dict)


def gather(source: str, asked: Iterable[Asked], warnings: list[str]) -> list[Record]:
    """Records of all pictures, in the order of first mention, each with its questions.

    Args:
        source: Name of the source.
        asked: Questions.
        warnings: Takes a sentence about repeats and about validation sides.

    Raises:
        DataError: Questions about one picture disagree on its group, domain or side, an id occurs twice, or a question
            occurs twice with another answer.
    """
    first: dict[str, Asked] = {}
    questions: dict[str, dict[str, Question]] = {}
    owners: dict[str, str] = {}
    repeats: list[str] = []
    for one in asked:
        known = first.setdefault(one.record_id, one)
        _check_agreement(known, one)
        question = one.question
        if not question.question_id:
            question = replace(question, question_id=_question_id(one.record_id, question))
        here = questions.setdefault(one.record_id, {})
        if question.question_id in owners:
            if here.get(question.question_id) == question:
                repeats.append(one.where)
                continue
            raise DataError(
                f"{one.where}: expected each question once, found {question.question_id!r} again after "
                f"{owners[question.question_id]} with other content ({question.question!r}). "
                "Remove the wrong row, or give ids that differ."
            )
        owners[question.question_id] = one.where
        here[question.question_id] = question
    if repeats:
        warnings.append(f"{counted(repeats, 'question')} repeated word for word; each counts once.")
    warn_of_validation([key for key, one in first.items() if one.side is Split.VAL], warnings)
    return [
        Record(
            source=source,
            record_id=key,
            picture=one.picture,
            group=one.group,
            domain=one.domain,
            questions=tuple(questions[key].values()),
            official_split=official(one.side),
            is_present=one.is_present,
            where=one.where,
            listed_as=one.listed_as,
            meta=one.meta,
        )
        for key, one in first.items()
    ]


def read_side(text: str, where: str) -> Split | None:
    """Side by its name; None for an empty field.

    Raises:
        DataError: The name is unknown.
    """
    if not text.strip():
        return None
    side = SIDES.get(text.strip().casefold())
    if side is None:
        raise DataError(f"{where}: expected a split of {', '.join(SIDES)}, found {text!r}. Correct it.")
    return side


def warn_of_validation(names: Sequence[str], warnings: list[str]) -> None:
    """Say which pictures of a validation side count as training pictures."""
    if names:
        warnings.append(
            f"{counted(names, 'picture')} of a validation side count as training pictures; val is carved from train by "
            "group."
        )


def official(side: Split | None) -> Split | None:
    """Side as records carry it: validation pictures are training pictures."""
    return Split.TRAIN if side is Split.VAL else side


def _question_id(record_id: str, question: Question) -> str:
    parts = (record_id, question.task, question.question, *question.options, repr(question.bbox_xyxy_px))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _check_agreement(known: Asked, one: Asked) -> None:
    for name in ("group", "domain", "side"):
        if getattr(known, name) != getattr(one, name):
            raise DataError(
                f"{one.where}: expected the {name} {getattr(known, name)!s} for {one.record_id} as in {known.where}, "
                f"found {getattr(one, name)!s}. Correct one of them."
            )


def as_task(name: str, where: str) -> Task:
    """Task by its name, any case.

    Raises:
        DataError: The name is no task.
    """
    try:
        return Task(name.strip().upper())
    except ValueError:
        raise DataError(f"{where}: expected a task of {', '.join(Task)}, found {name!r}. Correct it.") from None
