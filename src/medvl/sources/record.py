"""The record: one picture of a public dataset with its raw labels, before any question is asked.

A source turns the files of one dataset, as its users download them, into records. The benchmark builder turns records
into items. Nothing else crosses that border.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

Box = tuple[float, float, float, float]
"""x0, y0, x1, y1 in pixels, origin top left, half-open (x1, y1 are one past the last pixel)."""


class Task(StrEnum):
    """The tasks of the benchmark."""

    PI = "PI"
    """Plane identification: which standard plane."""
    VC = "VC"
    """View conformity: does the view meet the standard for measurement."""
    FO = "FO"
    """Fetal orientation."""
    CD = "CD"
    """Clinical diagnosis: normal, benign or malignant."""
    VG = "VG"
    """Visual grounding: what does the red box show."""
    FD = "FD"
    """Finding detection: is a finding present, yes or no."""


class Domain(StrEnum):
    """Where a picture comes from."""

    CLINICAL = "clinical"
    PHANTOM = "phantom"


class Split(StrEnum):
    """The three parts of a benchmark."""

    TRAIN = "train"
    VAL = "val"
    TEST = "test"


@dataclass(frozen=True, slots=True)
class MaskFile:
    """A picture file that marks one structure.

    Attributes:
        path: Absolute path of the mask.
        value: Grey level of the structure; None leaves it to `medvl.imaging.masks.read_mask` (class numbers: above 0;
            shades of grey: at least half the brightest). A mask of several grey classes needs the level.
        is_outline: True when only the border is drawn. Outlines are filled before boxes are taken.
        colour: RGB colour of the structure in a coloured mask; None where levels of grey tell structures apart.
        frame: Frame of a multi-frame mask (MHA stack); None for a single picture.
        array: Name of the array in a file of named arrays (`structures/liver` in a `.npy` that holds a dictionary).
        may_be_empty: True where the dataset writes an empty mask for a structure that is not seen; elsewhere an empty
            mask is a fault.
    """

    path: Path
    value: int | None = None
    is_outline: bool = False
    colour: tuple[int, int, int] | None = None
    frame: int | None = None
    array: str | None = None
    may_be_empty: bool = False


@dataclass(frozen=True, slots=True)
class Structure:
    """One marked structure of a picture, by a box or by a mask.

    Attributes:
        label: Raw label, exactly as the dataset writes it.
        bbox_xyxy_px: None when `mask` is set.
        mask: Mask file the box is taken from when the benchmark is built. None when `bbox_xyxy_px` is set.
    """

    label: str
    bbox_xyxy_px: Box | None = None
    mask: MaskFile | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A question that a dataset brings ready-made, with its own options.

    Attributes:
        question_id: Unique within the source and stable between copies of it.
        task: One of the benchmark's tasks it belongs to.
        question: Question text without the options.
        options: Option texts as the dataset gives them, in its order; at least two, no two equal.
        answer_index: Index of the right option.
        bbox_xyxy_px: Red box that goes with the question; None without one.
        polarity: For yes/no questions about a finding: True when "yes" means present. None elsewhere.
    """

    question_id: str
    task: Task
    question: str
    options: tuple[str, ...]
    answer_index: int
    bbox_xyxy_px: Box | None = None
    polarity: bool | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One picture with its raw labels.

    Attributes:
        source: Name of the source (`hc18`).
        record_id: Unique within the source and stable between copies of it (usually the relative path).
        picture: Absolute path. May be absent on disk, see `is_present`.
        group: What must not cross a split (patient, video, exam, stream), as the dataset writes it. A group of another
            source (`Source.shares_groups_with`) is written `NAME:ID`, the id as that source writes it.
        domain: `clinical` or `phantom`.
        labels: Task -> raw label for picture-level tasks (PI, VC, FO, CD).
        structures: Marked structures for VG.
        findings: Raw name of a finding -> whether it is present, for FD.
        questions: Questions that the dataset brings ready-made.
        official_split: `train` or `test` when the dataset publishes one.
        frame: Index of the frame in a multi-frame file.
        is_present: False when a table lists the picture but the copy on disk lacks it.
        where: What to name in a message about this record (`table.csv row 17`).
        listed_as: Name, or relative path, by which a table or annotation file names the picture; empty where none does.
        meta: Free facts: sex, age, view, device, operator, centre.
    """

    source: str
    record_id: str
    picture: Path
    group: str
    domain: Domain
    labels: Mapping[Task, str] = field(default_factory=dict)
    structures: tuple[Structure, ...] = ()
    findings: Mapping[str, bool] = field(default_factory=dict)
    questions: tuple[Question, ...] = ()
    official_split: Split | None = None
    frame: int | None = None
    is_present: bool = True
    where: str = ""
    listed_as: str = ""
    meta: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_in_other_case(self) -> bool:
        """Whether the file's name differs from the listed one in upper and lower case."""
        end = self.picture.as_posix()[-len(self.listed_as) :]
        return end != self.listed_as and end.casefold() == self.listed_as.casefold()

    @property
    def is_askable(self) -> bool:
        """Whether any question can be asked about the picture."""
        return bool(self.labels or self.structures or self.findings or self.questions)


@dataclass(frozen=True, slots=True)
class SourceScan:
    """What a source found in one folder.

    Attributes:
        records: All records, in a stable order, those with an absent picture included.
        warnings: Sentences for the user about this copy (pictures without a table row, unlabelled parts, ...).
    """

    records: list[Record]
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Source:
    """One public dataset as distributed.

    Attributes:
        name: Name in configs and tables (`hc18`).
        title: Name of the dataset as published.
        homepage: Where to get it.
        licence: Licence of the data at its home.
        is_redistributable: Whether the licence allows pictures in exported pages.
        published_pictures: Number of pictures the publishers state, with or without labels (decides what is small).
        group_rule: One sentence: what a group is and how it is read.
        citation: Short citation.
        tasks: Tasks the source can feed.
        find: Data root -> folder of this dataset under it, or None. Looks at the root itself and two levels below.
        scan: Folder -> records. Raises DataError naming file and row.
        has_usable_official_split: False when the published split cannot be used (a side without labels).
        flaws: Known flaws, a sentence each; carried into the card and the report.
        shares_groups_with: Names of sources whose patients (or videos, exams) this one holds too, under ids that can be
            told to be theirs. Such a group is one group in all of them. Where ids were given anew it stays empty: then
            only the search for near-identical pictures sees that two sources hold one patient.
    """

    name: str
    title: str
    homepage: str
    licence: str
    is_redistributable: bool
    published_pictures: int
    group_rule: str
    citation: str
    tasks: tuple[Task, ...]
    find: Callable[[Path], Path | None]
    scan: Callable[[Path], SourceScan]
    has_usable_official_split: bool = False
    flaws: tuple[str, ...] = ()
    shares_groups_with: tuple[str, ...] = ()
