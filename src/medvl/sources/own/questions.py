"""Question files: rows of picture, question, options and answer, used as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvl.config.own_data import PICTURE_GROUP, ColumnName, OwnDataConfig
from medvl.errors import DataError
from medvl.sources.own.asked import Asked, as_task, gather, read_side
from medvl.sources.own.boxes import read_box
from medvl.sources.own.embedded import store_picture
from medvl.sources.own.groups import group_of
from medvl.sources.own.options import answer_index, is_whole_number, option_columns, read_options, without_options
from medvl.sources.own.place import FoundPicture, PictureFinder, Place
from medvl.sources.own.rows import Row, read_rows
from medvl.sources.own.selection import is_selected
from medvl.sources.record import Domain, Question, SourceScan, Task
from medvl.sources.sizes import size_if_readable

META_COLUMNS: tuple[ColumnName, ...] = ("sex", "age", "view", "device", "operator", "centre")
POLARITIES = {"present": True, "absent": False, "true": True, "false": False, "1": True, "0": False}
"""Value of the column `polarity` -> whether "yes" means that the finding is present."""

DOUBTFUL_FROM = 20
"""Answers as whole numbers without a single 0 from which they are taken to count from 1."""


@dataclass(slots=True)
class _Numbers:
    """How often answers were whole numbers, and how often 0."""

    count: int = 0
    zeros: int = 0
    where: str = ""


def scan(config: OwnDataConfig, place: Place) -> SourceScan:
    """Read a question file.

    Args:
        config: Says where and how.
        place: Its places.

    Returns:
        One record per picture, in the order of the file, with all its questions.

    Raises:
        DataError: A column is missing, or a row does not say what it has to.
        StorageError: A picture that lies in the file cannot be written to the cache.
    """
    warnings: list[str] = []
    numbers = _Numbers()
    records = gather(config.name, _asked(config, place, numbers), warnings)
    if config.answer == "auto" and numbers.count >= DOUBTFUL_FROM and not numbers.zeros:
        raise DataError(
            f"{numbers.where}: expected whole-number answers that count from 0, found {numbers.count} without a single "
            f"0. Say answer: number if those of '{config.name}' count from 1, answer: index if they count from 0."
        )
    return SourceScan(records, warnings)


def _asked(config: OwnDataConfig, place: Place, numbers: _Numbers) -> Iterator[Asked]:
    finder = PictureFinder(place.pictures)
    required = [_column(config, name) for name in ("picture", "question", "answer")]
    if config.group not in (None, PICTURE_GROUP):
        required.append(_column(config, "group"))
    unseen = set(config.columns.values())
    for row in read_rows(place.path, required):
        unseen.difference_update(row.values)
        if is_selected(config, row.values, row.where):
            yield _one(config, place, finder, row, numbers)
    if unseen:
        raise DataError(
            f"{place.path}: expected the column(s) {', '.join(sorted(unseen))} that 'columns' of '{config.name}' "
            "names, found none in any row. Correct the names."
        )


def _one(config: OwnDataConfig, place: Place, finder: PictureFinder, row: Row, numbers: _Numbers) -> Asked:
    picture, named = _picture(config, place, finder, row)
    stated = row.values.get(_column(config, "group"))
    if stated is None and _column(config, "group") in row.values:
        stated = ""
    task = _text(config, row, "task") or config.task
    if task is None:
        raise DataError(
            f"{row.where}: expected a task, found none. Say task: of '{config.name}', or fill in a column 'task'."
        )
    side = read_side(_text(config, row, "split") or row.side, row.where) if config.use_split else None
    return Asked(
        where=row.where,
        picture=picture.path,
        record_id=picture.name,
        is_present=picture.is_present,
        listed_as=picture.listed_as,
        group=group_of(config, named, stated, row.where),
        question=_question(config, row, as_task(task, row.where), picture, numbers),
        domain=_domain(_text(config, row, "domain") or config.domain, row.where),
        side=side,
        meta={name: text for name in META_COLUMNS if (text := _text(config, row, name))},
    )


def _question(config: OwnDataConfig, row: Row, task: Task, picture: FoundPicture, numbers: _Numbers) -> Question:
    text = _text(config, row, "question")
    if not text:
        raise DataError(f"{row.where}: expected a question, found an empty field. Fill it in or remove the row.")
    answer = row.values[_column(config, "answer")]
    try:
        options = read_options(_options(config, row.values))
        index = answer_index(answer, options, config.answer)
    except ValueError as error:
        raise DataError(f"{row.where}: {error}. Correct the row.") from error
    if is_whole_number(answer) and str(answer).strip() not in options:
        numbers.count += 1
        numbers.zeros += int(str(answer)) == 0
        numbers.where = numbers.where or row.where
    stated = row.values.get(_column(config, "box"))
    size = size_if_readable(picture.path) if stated and picture.is_present else None
    box = read_box(stated, config.box_format, row.where, size)
    if task is Task.VG and box is None:
        raise DataError(
            f"{row.where}: expected a box, because a VG question asks about one, found none in "
            f"{_column(config, 'box')!r}. Add it, or name its column: columns: {{box: ...}}."
        )
    return Question(
        question_id=_text(config, row, "id"),
        task=task,
        question=without_options(text, options),
        options=options,
        answer_index=index,
        bbox_xyxy_px=box,
        polarity=_polarity(config, row, task),
    )


def _options(config: OwnDataConfig, values: Mapping[str, Any]) -> object:
    """The cell with the options, or the cells of columns named by letters."""
    column = _column(config, "options")
    if values.get(column) is not None:
        return values[column]
    lettered = option_columns(list(values))
    if not lettered:
        raise ValueError(
            f"expected options in a column {column!r} or in columns A, B, ... or option_A, option_B, ..., "
            f"found the columns {', '.join(values)}; name it: columns: {{options: ...}}"
        )
    return [values[name] for name in lettered]


def _picture(config: OwnDataConfig, place: Place, finder: PictureFinder, row: Row) -> tuple[FoundPicture, str]:
    """The picture of a row, and the name that `group_pattern` looks at."""
    value = row.values[_column(config, "picture")]
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        if len(value) != 1:
            raise DataError(f"{row.where}: expected one picture, found {len(value)}. Questions have one picture each.")
        value = value[0]
    content, name = value, value
    if isinstance(value, Mapping):
        content, name = value.get("bytes"), value.get("path") or ""
    if isinstance(content, bytes) and content:
        path = store_picture(content, _cache(config, place, row))
        return FoundPicture(path.name, path, is_present=True), str(name) if isinstance(
            name, str
        ) and name else path.name
    if not isinstance(name, str) or not name.strip():
        raise DataError(f"{row.where}: expected the path of a picture, found {value!r}. Fill it in or remove the row.")
    found = finder.find(name, row.where)
    return found, found.name


def _cache(config: OwnDataConfig, place: Place, row: Row) -> Path:
    if place.cache is None:
        raise DataError(
            f"{row.where}: expected the path of a picture, found the picture itself. Items name pictures by path: say "
            f"cache: FOLDER below data.root, to which the pictures of '{config.name}' are written once."
        )
    return place.cache


def _domain(text: str, where: str) -> Domain:
    try:
        return Domain(text.casefold())
    except ValueError:
        raise DataError(f"{where}: expected a domain of {', '.join(Domain)}, found {text!r}. Correct it.") from None


def _polarity(config: OwnDataConfig, row: Row, task: Task) -> bool | None:
    text = _text(config, row, "polarity").casefold()
    if task is not Task.FD:
        return None
    if text and text not in POLARITIES:
        raise DataError(f"{row.where}: expected a polarity of present or absent, found {text!r}. Correct it.")
    return POLARITIES[text or "present"]


def _column(config: OwnDataConfig, name: ColumnName) -> str:
    if name == "group" and config.group is not None:
        return config.group
    return config.columns.get(name, name)


def _text(config: OwnDataConfig, row: Row, name: ColumnName) -> str:
    value = row.values.get(_column(config, name))
    return "" if value is None else str(value).strip()
