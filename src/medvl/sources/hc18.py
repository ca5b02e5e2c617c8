"""HC18: fetal head circumference, 2D ultrasound of the standard plane (van den Heuvel et al., 2018).

Layout as published: `training_set/NNN_HC.png` with `NNN_HC_Annotation.png` (an ellipse outline), repeats of a subject
as `NNN_2HC.png` to `NNN_4HC.png`; `test_set/NNN_HC.png` without annotations; one table per set. Copies with filled
annotations are in use too and give the same boxes, because annotations are filled before boxes are taken.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from medvl.errors import DataError
from medvl.sources.files import Files
from medvl.sources.listing import warn_of, without_structures
from medvl.sources.locate import entry, find_folder, list_pictures, not_unpacked, or_archive
from medvl.sources.record import Domain, MaskFile, Record, Source, SourceScan, Split, Structure, Task
from medvl.sources.row_checks import file_name_of
from medvl.sources.tables import read_table

TRAINING_TABLE = "training_set_pixel_size_and_HC.csv"
TEST_TABLE = "test_set_pixel_size.csv"
ARCHIVES = ("hc18",)
"""Words in the name of an archive of all parts."""
LABEL = "fetal head"
"""Raw label of every annotation; the dataset writes none, its description names the fetal head."""

PICTURE_NAME = re.compile(r"\d+_\d?HC\.png", re.IGNORECASE)
ANNOTATION_NAME = re.compile(r"\d+_\d?HC_Annotation\.png", re.IGNORECASE)


def find(root: Path) -> Path | None:
    """Folder with the training table, at most two levels below the root, or with the archive, or None."""
    return or_archive(find_folder(root, [TRAINING_TABLE]), root, ARCHIVES)


def scan(folder: Path) -> SourceScan:
    """Read all pictures of both sets.

    Args:
        folder: Folder that `find` gave.

    Returns:
        One record per table row (picture present or not) and per picture without a row. Test pictures carry neither
        labels nor structures. No record and a warning where only the archive is there.

    Raises:
        DataError: A table is broken, or names a picture twice or in a form that the dataset does not use.
    """
    if entry(folder, TRAINING_TABLE) is None:
        return SourceScan([], not_unpacked(folder, ARCHIVES, f"the table {folder / TRAINING_TABLE}. Unpack it there."))
    warnings: list[str] = []
    records = _scan_set(folder, "training_set", TRAINING_TABLE, Split.TRAIN, warnings)
    records += _scan_set(folder, "test_set", TEST_TABLE, Split.TEST, warnings)
    return SourceScan(records, warnings)


def _scan_set(folder: Path, set_name: str, table_name: str, split: Split, warnings: list[str]) -> list[Record]:
    home = entry(folder, set_name) or folder / set_name
    files = list_pictures(home, (".png",))
    if not files:
        warnings += not_unpacked(folder, [set_name], f"the folder {home}. Unpack it there.")[:1]
    rows = _rows(folder, table_name, warnings)
    records = [_record(home, set_name, name, files, split, where) for name, where in rows.items()]
    unlisted = [n for n in files.unused({record.picture for record in records}) if PICTURE_NAME.fullmatch(n)]
    if rows:
        warnings += warn_of(home, unlisted, "picture", f"without a row in {table_name}.")
    records += [_record(home, set_name, name, files, split, f"{set_name}/{name}") for name in unlisted]
    if split is Split.TRAIN:
        bare = without_structures(records)
        warnings += warn_of(home, bare, "picture", "without an annotation; no question is asked on them.")
        _warn_of_strays(home, files, records, warnings)
    return records


def _rows(folder: Path, table_name: str, warnings: list[str]) -> dict[str, str]:
    """File name -> where it is listed, in table order; empty when the copy lacks the table."""
    table = entry(folder, table_name)
    if table is None:
        warnings.append(f"{folder}: no {table_name}; absent pictures of this set cannot be counted.")
        return {}
    rows: dict[str, str] = {}
    seen: set[str] = set()
    for row in read_table(table, ["filename"]):
        name = file_name_of(row["filename"])
        if not PICTURE_NAME.fullmatch(name):
            raise DataError(
                f"{row.where}: expected a file name such as 010_HC.png or 010_2HC.png, found {name!r}. "
                f"Correct the row in {table}."
            )
        if name.casefold() in seen:
            raise DataError(f"{row.where}: expected each picture once, found {name} again. Remove one row of {table}.")
        seen.add(name.casefold())
        rows[name] = row.where
    return rows


def _record(home: Path, set_name: str, name: str, files: Files, split: Split, where: str) -> Record:
    subject = name.partition("_")[0]
    picture, annotation = files.find(name, where), files.find(f"{name[:-4]}_Annotation.png", where)
    structures = (Structure(LABEL, mask=MaskFile(annotation, is_outline=True)),) if annotation else ()
    return Record(
        source=HC18.name,
        record_id=f"{set_name}/{name}",
        picture=picture or home / name,
        # Both sets count from 000: equal numbers are different subjects.
        group=subject if split is Split.TRAIN else f"test_{subject}",
        domain=Domain.CLINICAL,
        structures=structures if split is Split.TRAIN else (),
        official_split=split,
        is_present=picture is not None,
        where=where,
        listed_as=name,
    )


def _warn_of_strays(home: Path, files: Files, records: Sequence[Record], warnings: list[str]) -> None:
    present = [record for record in records if record.is_present]
    masks = {structure.mask.path for record in present for structure in record.structures if structure.mask is not None}
    unused = files.unused({record.picture for record in records} | masks)
    orphans = [name for name in unused if ANNOTATION_NAME.fullmatch(name)]
    strangers = [name for name in unused if name not in orphans]
    warnings += warn_of(home, orphans, "annotation", "without a picture.")
    warnings += warn_of(home, strangers, "file", "not named as the dataset names its pictures; left out.")


HC18 = Source(
    name="hc18",
    title="HC18: Automated measurement of fetal head circumference",
    homepage="https://zenodo.org/records/1327317",
    licence="CC BY 4.0",
    is_redistributable=True,
    published_pictures=1334,
    group_rule="The subject: the number that a file name starts with (010_HC and 010_2HC are one subject).",
    citation="van den Heuvel et al., Automated measurement of fetal head circumference using 2D ultrasound images, "
    "PLOS ONE 13(8): e0200412, 2018",
    tasks=(Task.VG,),
    find=find,
    scan=scan,
    has_usable_official_split=False,
)
"""The source. Its official test set has no annotations, so its split cannot be used."""
