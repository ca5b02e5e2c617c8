"""Ultrasound Fetus Dataset: fetal ultrasound pictures in folders normal, benign and malignant (Anitha, 2024).

Layout as published: `Data/Data/{train,test,validation}/{benign,malignant,normal}/`, beside them an unsplit copy
`Datasets/{benign,malignant,normal}/` and `FetusDataset.csv`, all in up to two folders `Ultrasound Fetus Dataset`. Some
pictures have a partner `<stem>_Annotation.png`, which is a drawing and left out. The table holds cardiotocography
values and names no picture; it is not read.
"""

from __future__ import annotations

import re
from pathlib import Path

from medvl.sources.files import Files
from medvl.sources.listing import warn_of
from medvl.sources.locate import entries, entry, find_where, holds, list_pictures, not_unpacked, or_archive, subfolders
from medvl.sources.record import Domain, Record, Source, SourceScan, Split, Task

TABLE = "FetusDataset.csv"
CLASSES = ("benign", "malignant", "normal")
SPLITS = {"train": Split.TRAIN, "validation": Split.TRAIN, "test": Split.TEST}
"""Published folder -> side; `val` is carved from train when a benchmark is built, so validation counts as train."""

UNSPLIT = "Datasets"
ANNOTATION_ENDING = "_annotation"

PARTS = (*SPLITS, UNSPLIT)

NESTINGS = ("Data", "Data/Data", "Ultrasound Fetus Dataset/Data", "Ultrasound Fetus Dataset/Data/Data")
"""Where the folders of pictures may lie below a folder that is looked at, besides itself."""

ARCHIVES = ("ultrasound fetus", "ultrasound_fetus", "ultrasound-fetus")
"""Words in the name of the archive."""

SUBJECT_NAME = re.compile(r"(?P<subject>\d+)_\d?HC", re.IGNORECASE)
"""HC18's names, which some pictures carry: repeats of a subject differ in one digit only."""


def find(root: Path) -> Path | None:
    """Folder that holds the published folders, known by its table or by a name with `fetus`, or the archive's."""
    found = find_where(root, lambda folder: _home(folder, root.absolute()) is not None)
    return or_archive(None if found is None else _home(found, root.absolute()), root, ARCHIVES)


def _home(folder: Path, root: Path) -> Path | None:
    places = [folder] + [place for nesting in NESTINGS for place in entries(folder, nesting)]
    homes = (folder.resolve(), root.resolve())
    places = [place for place in places if any(place.resolve().is_relative_to(home) for home in homes)]
    with_table = [place for place in places if holds(place, TABLE)]
    with_pictures = [place for place in places if _has_classes(place)]
    # Other datasets have folders train/benign too; without the table only a name tells them apart.
    named = [place for place in with_pictures if _is_named(place, folder, root)]
    return next(iter(with_pictures if with_table else named), next(iter(with_table), None))


def _has_classes(place: Path) -> bool:
    return any(holds(place, f"{part}/{name}") for part in PARTS for name in CLASSES)


def _is_named(place: Path, folder: Path, root: Path) -> bool:
    parts = (*place.relative_to(root).parts, *([root.name] if folder == root else []))
    return any("fetus" in part.casefold() for part in parts)


def scan(folder: Path) -> SourceScan:
    """List the pictures of the split copy, or of the unsplit one where the split copy is absent.

    Args:
        folder: Folder that `find` gave.

    Returns:
        One record per picture, folder by folder in name order. The label is the name of its folder.
    """
    if not holds(folder, TABLE) and not _has_classes(folder):
        return SourceScan([], not_unpacked(folder, ARCHIVES, f"the folders {', '.join(SPLITS)}."))
    warnings: list[str] = []
    records = [r for part, side in SPLITS.items() for r in _scan_part(folder, part, side, warnings)]
    unsplit = _scan_part(folder, UNSPLIT, None, warnings)
    if records:
        known = {_content_key(record) for record in records}
        extra = [record.record_id for record in unsplit if _content_key(record) not in known]
        warnings += warn_of(folder, extra, "picture", "only in the unsplit copy; left out.")
    else:
        records = unsplit
        if records:
            warnings.append(f"{folder}: no folders {', '.join(SPLITS)}; the unsplit copy {UNSPLIT} is read.")
    if not records:
        words = ["data", "train", "fetus", *CLASSES]
        warnings += not_unpacked(folder, words, f"the folders {', '.join(SPLITS)}.")
    return SourceScan(records, warnings)


def _scan_part(folder: Path, part: str, side: Split | None, warnings: list[str]) -> list[Record]:
    home = entry(folder, part)
    if home is None:
        return []
    places = Files({path.name: path for path in subfolders(home, folder, warnings)})
    found = {name: place for name in CLASSES if (place := places.find(name, str(home))) is not None}
    unknown = places.unused(set(found.values()))
    warnings += warn_of(home, unknown, "folder", "that the dataset does not have; left out.")
    return [
        _record(part, name, path, side)
        for name, place in found.items()
        for path in list_pictures(place).values()
        if not path.stem.casefold().endswith(ANNOTATION_ENDING)
    ]


def _record(part: str, label: str, path: Path, side: Split | None) -> Record:
    subject = SUBJECT_NAME.fullmatch(path.stem)
    return Record(
        source=ULTRASOUND_FETUS.name,
        record_id=f"{part}/{label}/{path.name}",
        picture=path,
        # Numbers start again in each class.
        group=f"{label} {subject['subject'] if subject is not None else path.stem}",
        domain=Domain.CLINICAL,
        labels={Task.CD: label},
        official_split=side,
        where=f"{part}/{label}/{path.name}",
    )


def _content_key(record: Record) -> tuple[str, str]:
    return record.labels[Task.CD], record.picture.name.casefold()


ULTRASOUND_FETUS = Source(
    name="ultrasound_fetus",
    title="Ultrasound Fetus Dataset",
    homepage="https://data.mendeley.com/datasets/yrzzw9m6kk/2",
    licence="CC BY 4.0",
    is_redistributable=True,
    published_pictures=1669,
    group_rule="The picture: its class and file name, repeats named as in HC18 (010_HC, 010_2HC) together; the dataset "
    "names no patient.",
    citation="Anitha, Ultrasound Fetus Dataset, Mendeley Data, 2024",
    tasks=(Task.CD,),
    find=find,
    scan=scan,
    has_usable_official_split=True,
    flaws=(
        "The origin of its labels is unclear: its table holds cardiotocography values, the pictures look like heads of "
        "HC18, and trained models hardly beat the majority class. Read CD figures on it as no evidence of diagnosis.",
        "It names no patient: whether the published train, validation and test folders share women cannot be checked.",
    ),
)
"""The source. Its published split is by folder; the builder refuses it where a group lies on both sides."""
