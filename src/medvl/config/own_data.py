"""How a configuration names data of the user's own, or a question file of others that is used as it is."""

from __future__ import annotations

import os
import re
from pathlib import PurePath
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from medvl.config.node import Node, TaskName

FormatName = Literal["questions", "coco", "yolo", "folders", "fetus_vqa", "omnimedvqa", "slake"]
ColumnName = Literal[
    "picture",
    "question",
    "options",
    "answer",
    "task",
    "group",
    "box",
    "split",
    "domain",
    "id",
    "polarity",
    "sex",
    "age",
    "view",
    "device",
    "operator",
    "centre",
]
"""Columns of a question file, named as medvl names them."""

PICTURE_GROUP = "picture"
"""Value of `group` that makes each picture its own group."""
FILE_ENDINGS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
"""Endings by which a path is a file; any other is a folder."""
PICTURE_TASKS = ("PI", "VC", "FO", "CD")
"""Tasks that a label of the whole picture answers."""


class OwnDataConfig(Node):
    """One set of own data."""

    name: str
    """Name in tables and files, lower case (`mylab`)."""
    format: FormatName
    """`questions`: rows of picture, question, options and answer (JSON Lines, JSON, CSV, TSV, Parquet, saved Hugging
    Face dataset). `coco`, `yolo`: boxes. `folders`: one folder a class. `fetus_vqa`, `omnimedvqa`, `slake`: these
    datasets as published."""
    path: str
    """File or folder, relative to data.root."""
    pictures: str | None = None
    """Folder that picture names are relative to; by default the folder of the file, or `path` itself."""
    task: TaskName | None = None
    """Task of all questions, where no column says it."""
    group: str | None = None
    """Column (or key of a COCO image) with the patient, exam or video. `picture`: each picture is another patient."""
    group_pattern: str | None = None
    """Regular expression on the relative path of a picture whose one group is the patient (`^(P\\d+)_`)."""
    columns: dict[ColumnName, str] = Field(default_factory=dict)
    """medvl's name of a column -> its name in the file."""
    answer: Literal["auto", "letter", "index", "number", "text"] = "auto"
    """How answers are written: `letter` (A), `index` (from 0), `number` (from 1), `text` (as the option). `auto`: text
    or letter; whole numbers count from 0 and are refused where this is in doubt."""
    box_format: Literal["xyxy", "xywh"] = "xyxy"
    """Corners, or corner and size; pixels, origin top left."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Name of a class, category or folder -> label that the vocabulary knows."""
    only: dict[str, Annotated[list[str], Field(min_length=1)]] = Field(default_factory=dict)
    """Column -> values; rows with another value are passed over (`{modality: [X-Ray]}`)."""
    domain: Literal["clinical", "phantom"] = "clinical"
    """Where the pictures come from, where no column says it."""
    use_split: bool = True
    """True: train and test sides that the data state are kept. False: patients are split anew."""
    is_test_only: bool = False
    """True: everything goes to test, unless the data state their sides."""
    cache: str | None = None
    """Folder below data.root to which pictures that lie as bytes in a file are written."""
    title: str = ""
    licence: str = ""
    citation: str = ""

    @property
    def is_file(self) -> bool:
        """Whether `path` is a file, by its ending."""
        return PurePath(self.path).suffix.casefold() in FILE_ENDINGS

    @field_validator("name")
    @classmethod
    def _plain_name(cls, name: str) -> str:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise ValueError(f"must be lower-case letters, digits and _, starting with a letter; got {name!r}")
        return name

    @field_validator("path", "pictures", "cache")
    @classmethod
    def _stays_below(cls, path: str | None) -> str | None:
        if path is None:
            return None
        plain = path.strip().replace("\\", "/")
        if not plain or ".." in plain.split("/") or plain.startswith("/") or re.match("[A-Za-z]:", plain):
            raise ValueError(
                f"must be relative to data.root, without '..', because items name pictures so; got {path!r}"
            )
        return os.path.normpath(plain)

    @field_validator("group_pattern")
    @classmethod
    def _one_group(cls, pattern: str | None) -> str | None:
        if pattern is None:
            return None
        try:
            groups = re.compile(pattern).groups
        except re.error as error:
            raise ValueError(f"is no regular expression: {error}") from error
        if groups != 1:
            raise ValueError(f"needs one group in brackets around the patient, as '^(P\\d+)_'; got {groups} groups")
        return pattern

    @model_validator(mode="after")
    def _fits_its_format(self) -> Self:
        for problem in (self._group_problem(), self._task_problem(), self._unused_problem()):
            if problem:
                raise ValueError(problem)
        return self

    def _group_problem(self) -> str:
        if self.group is not None and self.group_pattern is not None:
            return "group and group_pattern are both set; say one of them"
        has_columns = self.format in ("questions", "coco", "omnimedvqa", "slake")
        if self.group not in (None, PICTURE_GROUP) and not has_columns:
            return f"format {self.format} has no columns; say group_pattern, or group: {PICTURE_GROUP}"
        if self.group is not None and "group" in self.columns:
            return "group and columns.group are both set; say one of them"
        return ""

    def _task_problem(self) -> str:
        allowed = {"coco": ("VG",), "yolo": ("VG",), "folders": PICTURE_TASKS, "fetus_vqa": ("PI",)}.get(self.format)
        if self.task is None:
            if self.format in ("folders", "omnimedvqa", "slake"):
                return f"format {self.format} needs task: say which task its questions belong to, e.g. task: CD"
        elif allowed is not None and self.task not in allowed:
            return f"format {self.format} feeds {', '.join(allowed)}, not {self.task}"
        return ""

    def _unused_problem(self) -> str:
        """A setting without effect is a misunderstanding."""
        used_by: dict[str, tuple[str, ...]] = {
            "columns": ("questions",),
            "answer": ("questions",),
            "box_format": ("questions",),
            "cache": ("questions",),
            "only": ("questions", "omnimedvqa", "slake"),
            "labels": ("coco", "yolo", "folders"),
        }
        for name, formats in used_by.items():
            default = type(self).model_fields[name].get_default(call_default_factory=True)
            if getattr(self, name) != default and self.format not in formats:
                return f"{name} has no effect on format {self.format}; it is for {', '.join(formats)}"
        if self.format in ("yolo", "folders") and self.is_file:
            return f"format {self.format} needs a folder as path, got {self.path!r}"
        return ""
