"""From pictures to questions: which answers are true of a picture, and which distractors are therefore barred."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from medvl.benchmark.options import item_rng
from medvl.benchmark.pictures import Box, ReadPicture
from medvl.benchmark.vocabulary import TaskVocabulary
from medvl.errors import DataError
from medvl.sources.record import Question, Task

OVERLAP_IOU = 0.5
"""A structure whose box overlaps the red one at least this much could also be what it shows."""


_Unmapped = dict[str, list[str]]
"""Label that the vocabulary does not know -> where it occurs."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A question before its options are drawn.

    Attributes:
        item_id: Stable id, free of anything that names a patient.
        picture: The picture it is asked about.
        task: Task.
        raw_label: Label as the dataset writes it.
        answer: Right answer.
        excluded: Answers that must not be distractors.
        bbox_xyxy_px: Red box of a VG question.
        question: Question text where it is not the task's one.
        options: Options where they are given (in any order; the answer is one of them); None where they are drawn.
        polarity: For a finding: True when "yes" means present.
    """

    item_id: str
    picture: ReadPicture
    task: Task
    raw_label: str
    answer: str
    excluded: tuple[str, ...]
    bbox_xyxy_px: Box | None
    question: str | None = None
    options: tuple[str, ...] | None = None
    polarity: bool | None = None


def draft_questions(
    pictures: Sequence[ReadPicture],
    vocabulary: Mapping[Task, TaskVocabulary],
    findings: Literal["balanced", "all"] = "balanced",
    seed: int = 0,
) -> tuple[list[Draft], dict[str, tuple[str, ...]]]:
    """All questions about some pictures of one source.

    Args:
        pictures: Pictures, read.
        vocabulary: Task -> vocabulary.
        findings: `balanced` asks of every picture its present findings and as many absent ones (at least one), chosen
            by seed; `all` asks for every finding that the source states.
        seed: Seed of that choice.

    Returns:
        (drafts in the order of the pictures, `source/record_id` -> every answer that is true of the picture).

    Raises:
        DataError: Listing every raw label that the vocabulary does not know, how often it occurs and where first.
    """
    unmapped: _Unmapped = {}
    drafts: list[Draft] = []
    true_of: dict[str, tuple[str, ...]] = {}
    for picture in pictures:
        answer_to = partial(_answer, picture, vocabulary, unmapped)
        labels = {task: answer_to(task, raw) for task, raw in picture.record.labels.items()}
        boxes = [(raw, answer_to(Task.VG, raw), box) for raw, box in picture.boxes]
        present = _findings(picture, partial(answer_to, Task.FD))
        true_of[picture_key(picture)] = tuple(
            dict.fromkeys(
                [*labels.values(), *(answer for _, answer, _ in boxes), *(f for f, there in present if there)]
            )
        )
        chosen = _asked_findings(picture, present, findings, seed)
        drafts += [_finding_draft(picture, vocabulary[Task.FD], name, there) for name, there in chosen]
        drafts += [_ready_draft(picture, question) for question in picture.record.questions]
        for task, answer in labels.items():
            truths = true_of[picture_key(picture)]
            drafts.append(
                Draft(_item_id(picture, task, 0), picture, task, picture.record.labels[task], answer, truths, None)
            )
        unplaced = _unplaced(picture, vocabulary[Task.VG], {answer for _, answer, _ in boxes})
        for index, (raw, answer, box) in enumerate(boxes):
            also = tuple(other for _, other, there in boxes if other != answer and iou(box, there) >= OVERLAP_IOU)
            also += unplaced
            drafts.append(Draft(_item_id(picture, Task.VG, index), picture, Task.VG, raw, answer, also, box))
    if unmapped:
        listed = ", ".join(f"{label} ({len(at)} x, first in {at[0]})" for label, at in sorted(unmapped.items()))
        raise DataError(
            f"{pictures[0].record.source}: labels that the vocabulary does not know: {listed}; "
            "add them to src/medvl/benchmark/vocabulary.yaml, or rename those of your own data with its `labels:`"
        )
    return drafts, true_of


def _findings(picture: ReadPicture, answer_to: Callable[[str], str]) -> list[tuple[str, bool]]:
    """(finding, present) in the source's order; two raw names of one finding make it present when one of them is."""
    named: dict[str, bool] = {}
    for raw, there in picture.record.findings.items():
        name = answer_to(raw)
        named[name] = named.get(name, False) or there
    return list(named.items())


def _unplaced(picture: ReadPicture, vocabulary: TaskVocabulary, boxed: set[str]) -> tuple[str, ...]:
    """Findings that are present without a box of their own: they could lie in any box of the picture."""
    named = [vocabulary.answer_to(raw) for raw, there in picture.record.findings.items() if there]
    return tuple(name for name in dict.fromkeys(named) if name is not None and name not in boxed)


def _asked_findings(
    picture: ReadPicture, present: list[tuple[str, bool]], findings: str, seed: int
) -> list[tuple[str, bool]]:
    if findings == "all":
        return present
    absent = [name for name, there in present if not there]
    wanted = max(1, len(present) - len(absent))
    rng = item_rng(picture_key(picture), seed)
    drawn = {absent[i] for i in rng.permutation(len(absent))[:wanted]}
    return [(name, there) for name, there in present if there or name in drawn]


def _finding_draft(picture: ReadPicture, vocabulary: TaskVocabulary, finding: str, there: bool) -> Draft:
    answer = "yes" if there else "no"
    return Draft(
        _item_id(picture, Task.FD, finding),
        picture,
        Task.FD,
        finding,
        answer,
        (answer,),
        None,
        question=vocabulary.question.format(finding),
        options=("yes", "no"),
        polarity=True,
    )


def _ready_draft(picture: ReadPicture, question: Question) -> Draft:
    answer = question.options[question.answer_index]
    return Draft(
        _item_id(picture, question.task, question.question_id),
        picture,
        question.task,
        answer,
        answer,
        (answer,),
        question.bbox_xyxy_px,
        question=question.question,
        options=question.options,
        polarity=question.polarity,
    )


def picture_key(picture: ReadPicture) -> str:
    """Unique name of a picture in the benchmark."""
    return f"{picture.record.source}/{picture.record.record_id}"


def iou(a: Box, b: Box) -> float:
    """Intersection over union of two boxes (xyxy, pixels), in [0, 1]."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    return shared / (box_area(a) + box_area(b) - shared)


def box_area(box: Box) -> float:
    """Area in square pixels."""
    return (box[2] - box[0]) * (box[3] - box[1])


def _answer(
    picture: ReadPicture, vocabulary: Mapping[Task, TaskVocabulary], unmapped: _Unmapped, task: Task, raw: str
) -> str:
    answer = vocabulary[task].answer_to(raw)
    if answer is None:
        unmapped.setdefault(f"{task}: '{raw}'", []).append(picture.record.where or picture.record.record_id)
        return raw
    return answer


def _item_id(picture: ReadPicture, task: Task, index: int | str) -> str:
    """File names carry patient numbers, so the id is a hash of them."""
    digest = hashlib.sha256(f"{picture_key(picture)}|{task}|{index}".encode()).hexdigest()[:12]
    return f"{picture.record.source}-{task.lower()}-{digest}"
