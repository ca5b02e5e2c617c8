"""The item: one multiple-choice question on one picture, and its table form.

`items.parquet` has one row an item with exactly the columns of `ITEM_SCHEMA`. It is the only thing later stages read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

import polars as pl

from medvl.sources.record import Domain, Split, Task

LETTERS = "ABCDEFGHIJ"
"""Option letters in order. `options[i]` is shown as `LETTERS[i]`."""

META_FIELDS = ("sex", "age", "view", "device", "operator", "centre")
"""Free facts about a picture that reports may group by."""


@dataclass(frozen=True, slots=True)
class Item:
    """One multiple-choice question on one picture.

    Attributes:
        item_id: Unique in the benchmark and stable between builds of the same data.
        picture: Path relative to the data root.
        frame: Frame index in a multi-frame file, else None.
        sha256_pixels: Hash of the decoded 8-bit RGB pixels (before any box is drawn) and their shape.
        width: Pixels.
        height: Pixels.
        task: Task of the question.
        question: Question text without the options.
        options: Option texts in the order shown. No two mean the same.
        answer_index: Index of the right option.
        raw_label: Label as the dataset writes it.
        answer: Right option text, equal to `options[answer_index]`.
        generic_plane: True for a generic "[organ] plane" answer (the dataset names the organ only).
        polarity: For yes/no findings: True when "yes" means present. None elsewhere.
        labels: Normalised answers that are true of the picture, for audits.
        group: Normalised group id. Stays local.
        source: Source name.
        domain: `clinical` or `phantom`.
        split: `train`, `val` or `test`.
        bbox_xyxy_px: Box of a VG item in pixels, half-open, origin top left; None elsewhere.
        area_share: Area of the box over the area of the picture, in (0, 1]; None without a box.
        tier: `small`, `medium` or `large` by `area_share`; None without a box.
        option_pool: `source` when every distractor comes from the source's own answers, `given` when the options come
            with the question, else `task`.
        constant_answer: True when the source has one answer only for this task; left out of macro figures.
        meta: Facts named in META_FIELDS; "" where unknown.
    """

    item_id: str
    picture: str
    sha256_pixels: str
    width: int
    height: int
    task: Task
    question: str
    options: tuple[str, ...]
    answer_index: int
    raw_label: str
    answer: str
    group: str
    source: str
    domain: Domain
    split: Split
    frame: int | None = None
    generic_plane: bool = False
    polarity: bool | None = None
    labels: tuple[str, ...] = ()
    bbox_xyxy_px: tuple[float, float, float, float] | None = None
    area_share: float | None = None
    tier: str | None = None
    option_pool: str = "source"
    constant_answer: bool = False
    meta: dict[str, str] = field(default_factory=dict)

    @property
    def answer_letter(self) -> str:
        """Letter of the right option."""
        return LETTERS[self.answer_index]

    @property
    def letters(self) -> str:
        """Letters of all options, in order."""
        return LETTERS[: len(self.options)]

    def fingerprint(self) -> str:
        """Hash of what a model is asked and what counts as right (not of split, group or path).

        Returns:
            16 hex digits. Two items with the same fingerprint show the same pixels, box, question and options.
        """
        box = None if self.bbox_xyxy_px is None else [float(x) for x in self.bbox_xyxy_px]
        asked = [self.sha256_pixels, self.frame, self.question, self.options, self.answer_index, box]
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


ITEM_SCHEMA: dict[str, Any] = {
    "item_id": pl.String,
    "picture": pl.String,
    "frame": pl.Int64,
    "sha256_pixels": pl.String,
    "width": pl.Int64,
    "height": pl.Int64,
    "task": pl.String,
    "question": pl.String,
    "options": pl.List(pl.String),
    "answer_index": pl.Int64,
    "raw_label": pl.String,
    "answer": pl.String,
    "generic_plane": pl.Boolean,
    "polarity": pl.Boolean,
    "labels": pl.List(pl.String),
    "group": pl.String,
    "source": pl.String,
    "domain": pl.String,
    "split": pl.String,
    "bbox_xyxy_px": pl.List(pl.Float64),
    "area_share": pl.Float64,
    "tier": pl.String,
    "option_pool": pl.String,
    "constant_answer": pl.Boolean,
    "meta": pl.Struct(dict.fromkeys(META_FIELDS, pl.String)),
}
"""Column -> polars type of `items.parquet`, in order."""


def items_to_frame(items: Iterable[Item]) -> pl.DataFrame:
    """Put items into a table with the columns of `ITEM_SCHEMA`, one row an item, order kept."""
    listed = list(items)
    columns: dict[str, list[Any]] = {name: [getattr(item, name) for item in listed] for name in ITEM_SCHEMA}
    columns["meta"] = [{key: item.meta.get(key, "") for key in META_FIELDS} for item in listed]
    return pl.DataFrame(columns, schema=ITEM_SCHEMA)


def frame_to_items(frame: pl.DataFrame) -> list[Item]:
    """Read items back from a table written by `items_to_frame`."""
    names = [f.name for f in fields(Item)]
    items = []
    for row in frame.iter_rows(named=True):
        row["task"], row["domain"], row["split"] = Task(row["task"]), Domain(row["domain"]), Split(row["split"])
        row["options"], row["labels"] = tuple(row["options"]), tuple(row["labels"])
        if row["bbox_xyxy_px"] is not None:
            row["bbox_xyxy_px"] = tuple(row["bbox_xyxy_px"])
        items.append(Item(**{name: row[name] for name in names}))
    return items
