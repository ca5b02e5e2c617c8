"""SLAKE 1.0: questions on CT, MRI and X-ray pictures (Liu et al., ISBI 2021); the closed English ones are used.

`train.json`, `validate.json` and `test.json` with img_name (`xmlab102/source.jpg`, below `imgs/`). Closed questions
have no options written out: yes or no, or the alternatives that the question itself names (`heart or lung?`). Questions
whose alternatives cannot be read from their text are left out and counted. `task` says which task the questions are
taken for, and `only` picks a kind (`{modality: [X-Ray], content_type: [Abnormality]}`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from medvl.config.own_data import OwnDataConfig
from medvl.errors import DataError
from medvl.sources.locate import entry
from medvl.sources.own.asked import Asked, as_task, gather
from medvl.sources.own.groups import group_of
from medvl.sources.own.options import plain_text
from medvl.sources.own.place import PictureFinder, Place
from medvl.sources.own.rows import objects, read_json
from medvl.sources.own.selection import is_selected
from medvl.sources.record import Domain, Question, SourceScan, Split, Task

FILES = {"train.json": Split.TRAIN, "validate.json": Split.VAL, "test.json": Split.TEST}
PICTURE_FOLDER = "imgs"
LANGUAGE, KIND = "en", "CLOSED"
YES_NO = ("Yes", "No")

LISTED = re.compile(r"[^,]*,\s*(?P<list>.+\bor\b.+?)\s*\?*\s*")
"""`Which organ is abnormal, heart or lung?`"""
PAIR = re.compile(r"(?P<one>[\w-]+)(?:\s+weighted)?\s+or\s+(?P<other>[\w-]+)", re.IGNORECASE)
"""`Is the abnormality hyperdense or hypodense?`, `Is this a T1 weighted or T2 weighted MRI image?`"""

ABNORMAL = re.compile(r"\b(abnormal\w*|unhealthy|observed|evidence|tumou?r)\b", re.IGNORECASE)
NORMAL = re.compile(r"\b(normal|healthy)\b", re.IGNORECASE)


def scan(config: OwnDataConfig, place: Place) -> SourceScan:
    """Read the question files.

    Returns:
        One record per picture, in the order of the files, with its closed English questions.

    Raises:
        DataError: There is no such file, or a row is not as published.
    """
    warnings: list[str] = []
    left_out: list[str] = []
    asked = list(_asked(config, place, left_out))
    if left_out:
        warnings.append(
            f"{config.name}: {len(left_out)} closed question(s) left out, because their text does not name the "
            f"alternatives ({left_out[0]})."
        )
    if not asked:
        raise DataError(f"{place.path}: expected closed English questions, found none that '{config.name}' picks.")
    return SourceScan(gather(config.name, asked, warnings), warnings)


def _asked(config: OwnDataConfig, place: Place, left_out: list[str]) -> Iterator[Asked]:
    finder = PictureFinder(entry(place.pictures, PICTURE_FOLDER) or place.pictures)
    for path, side in _files(config, place).items():
        for where, values in objects(path, read_json(path)):
            missing = [key for key in ("img_name", "question", "answer", "q_lang", "answer_type") if key not in values]
            if missing:
                raise DataError(f"{where}: expected {', '.join(missing)}, found none. Use the file as published.")
            if values["q_lang"] != LANGUAGE or str(values["answer_type"]).strip() != KIND:
                continue
            if not is_selected(config, values, where):
                continue
            question, answer = str(values["question"]).strip(), str(values["answer"])
            options = alternatives(question, answer)
            if not options:
                left_out.append(f"{where}: {question!r} with {answer!r}")
                continue
            yield _one(config, finder, values, where, options, side)


def _one(
    config: OwnDataConfig,
    finder: PictureFinder,
    values: Mapping[str, Any],
    where: str,
    options: tuple[str, ...],
    side: Split | None,
) -> Asked:
    picture = finder.find(str(values["img_name"]), where)
    # The dataset says no patient anywhere.
    stated = values.get(config.group, "") if config.group is not None else picture.name
    right = [plain_text(option) for option in options].index(plain_text(str(values["answer"])))
    task = as_task(str(config.task), where)
    return Asked(
        where=where,
        picture=picture.path,
        record_id=picture.name,
        is_present=picture.is_present,
        listed_as=picture.listed_as,
        group=group_of(config, picture.name, stated, where),
        question=Question(
            question_id=str(values.get("qid", "")),
            task=task,
            question=str(values["question"]).strip(),
            options=options,
            answer_index=right,
            polarity=_polarity(str(values["question"])) if task is Task.FD and options == YES_NO else None,
        ),
        domain=Domain(config.domain),
        side=side if config.use_split else None,
    )


def _files(config: OwnDataConfig, place: Place) -> dict[Path, Split | None]:
    if config.is_file:
        return {place.path: FILES.get(place.path.name.casefold())}
    found = {entry(place.path, name): side for name, side in FILES.items()}
    files: dict[Path, Split | None] = {path: side for path, side in found.items() if path is not None}
    if not files:
        raise DataError(f"{place.path}: expected {', '.join(FILES)}, found none. Say the folder that holds them.")
    return files


def _polarity(question: str) -> bool | None:
    """Whether "yes" means that something is wrong; None for questions about something else."""
    if ABNORMAL.search(question):
        return True
    return False if NORMAL.search(question) else None


def alternatives(question: str, answer: str) -> tuple[str, ...]:
    """Options of a closed question, in the order of its text.

    Returns:
        `("Yes", "No")`, or what the question names; empty when that cannot be told or the answer is none of it.
    """
    if plain_text(answer) in ("yes", "no"):
        return YES_NO
    listed = LISTED.fullmatch(question)
    pair = PAIR.search(question)
    if listed is not None:
        parts = re.split(r"\s*,\s*|\s*\bor\b\s+", listed["list"])
        options = tuple(part.strip() for part in parts if part.strip())
    elif pair is not None:
        options = (pair["one"], pair["other"])
    else:
        return ()
    plain = [plain_text(option) for option in options]
    is_usable = len(options) >= 2 and len(set(plain)) == len(plain) and plain.count(plain_text(answer)) == 1
    return options if is_usable else ()
