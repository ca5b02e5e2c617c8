"""OmniMedVQA: multiple-choice questions on pictures of many medical datasets (Hu et al., CVPR 2024).

As published, `QA_information/*/NAME.json` with question, `option_A` to `option_D`, gt_answer as text and image_path
(`Images/...`); as the subset of MedVLM-R1, one list with image, question, options, answer and a letter. Questions are
of all kinds: `task` says which task they are taken for, and `only` picks a kind
(`{question_type: [Disease Diagnosis]}`, `{subset: [X-Ray]}`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from medvl.config.own_data import OwnDataConfig
from medvl.errors import DataError
from medvl.sources.own.asked import Asked, as_task, gather
from medvl.sources.own.groups import group_of
from medvl.sources.own.options import LETTERS, answer_index, option_columns, plain_text, read_options
from medvl.sources.own.place import PictureFinder, Place
from medvl.sources.own.rows import objects, read_json
from medvl.sources.own.selection import is_selected
from medvl.sources.record import Domain, Question, SourceScan

QUESTION_FOLDER = "QA_information"


def scan(config: OwnDataConfig, place: Place) -> SourceScan:
    """Read the question files.

    Returns:
        One record per picture, in the order of the files, with all its questions. Questions whose options are equal or
        whose answer is none of them are left out and counted.

    Raises:
        DataError: There is no such file, or a row is not as published.
    """
    warnings: list[str] = []
    left_out: Counter[str] = Counter()
    asked = list(_asked(config, place, left_out))
    for reason, count in left_out.items():
        warnings.append(f"{config.name}: {count} question(s) left out: {reason}.")
    if not asked:
        raise DataError(f"{place.path}: expected questions, found none that 'only' of '{config.name}' picks. Widen it.")
    return SourceScan(gather(config.name, asked, warnings), warnings)


def _asked(config: OwnDataConfig, place: Place, left_out: Counter[str]) -> Iterator[Asked]:
    finder = PictureFinder(place.pictures)
    for path in _files(config, place):
        for where, values in objects(path, read_json(path)):
            if not is_selected(config, values, where):
                continue
            found = _read(values, where)
            if isinstance(found, str):
                left_out[found] += 1
                continue
            options, index = found
            picture = finder.find(_picture(values, where), where)
            # The dataset says no patient anywhere.
            stated = values.get(config.group, "") if config.group is not None else picture.name
            yield Asked(
                where=where,
                picture=picture.path,
                record_id=picture.name,
                is_present=picture.is_present,
                listed_as=picture.listed_as,
                group=group_of(config, picture.name, stated, where),
                question=Question(
                    question_id=str(values.get("question_id") or ""),
                    task=as_task(str(config.task), where),
                    question=str(values["question"]).strip(),
                    options=options,
                    answer_index=index,
                ),
                domain=Domain(config.domain),
            )


def _files(config: OwnDataConfig, place: Place) -> list[Path]:
    if config.is_file:
        return [place.path]
    home = place.path / QUESTION_FOLDER if (place.path / QUESTION_FOLDER).is_dir() else place.path
    files = sorted(path for path in home.rglob("*.json") if not path.name.startswith("."))
    if not files:
        raise DataError(
            f"{place.path}: expected {QUESTION_FOLDER}/Open-access/*.json as published, found none. Unpack the archive."
        )
    return files


def _picture(values: Mapping[str, Any], where: str) -> str:
    value = values.get("image_path", values.get("image"))
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"{where}: expected one picture in image_path or image, found {value!r}. Use it as published.")
    return value


def _read(values: Mapping[str, Any], where: str) -> tuple[tuple[str, ...], int] | str:
    """Options and index of the right one, or why the question cannot be used."""
    answer = values.get("gt_answer", values.get("answer"))
    if not str(values.get("question") or "").strip() or answer is None:
        raise DataError(f"{where}: expected question and gt_answer (or answer), found none. Use it as published.")
    listed = values.get("options") or [values[name] for name in option_columns(list(values))]
    try:
        options = read_options(listed)
    except ValueError as error:
        return str(error).partition(", found")[0].replace("expected ", "it needs ")
    try:
        index = answer_index(answer, options, "text")
    except ValueError:
        return "the answer is none of the options, or several"
    letter = str(values.get("solution") or "").strip()
    if letter and (letter not in LETTERS or plain_text(options[index]) != plain_text(options[LETTERS.index(letter)])):
        return "its letter and its answer differ"
    return options, index
