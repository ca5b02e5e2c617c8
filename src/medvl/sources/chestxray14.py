"""NIH ChestX-ray14: frontal chest X-rays with 14 findings mined from reports (Wang et al., CVPR 2017).

Layout as published: `Data_Entry_2017_v2020.csv` (before 2020: `Data_Entry_2017.csv` with ages as `060Y`), 12 archives
that unpack to `images/PPPPPPPP_FFF.png` (patient, follow-up), `train_val_list.txt`, `test_list.txt` and
`BBox_List_2017.csv`. Kaggle's copies unpack to `images_001/images/` to `images_012/images/`; its 5 % sample has
`sample_labels.csv` and `images/`. Headers hold unquoted commas (`OriginalImage[Width,Height]`). Tables may be gzipped.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path

from medvl.errors import DataError
from medvl.imaging.ages import age_in_years
from medvl.sources.files import Files
from medvl.sources.listing import warn_of
from medvl.sources.locate import ARCHIVE_ENDINGS, entry, list_files, not_unpacked, or_archive
from medvl.sources.loose_tables import find_table, find_table_folder, read_loose_table
from medvl.sources.record import Box, Domain, Record, Source, SourceScan, Split, Structure, Task
from medvl.sources.row_checks import file_name_of, is_number
from medvl.sources.sizes import size_if_readable

TABLES = ("Data_Entry_2017_v2020.csv", "Data_Entry_2017.csv", "sample_labels.csv")
"""The first that lies in the folder is read."""
COLUMNS = ("Image Index", "Finding Labels", "Patient ID", "Patient Age", "Patient Gender", "View Position")
BOX_TABLE = "BBox_List_2017.csv"
ARCHIVES = ("images_0", "chestxray14", "chest-xrays", "cxr8")
"""Words in the names of archives: the publisher's parts, what users and Kaggle call all of them."""
TRAIN_LIST, TEST_LIST = "train_val_list.txt", "test_list.txt"

FINDINGS = (
    "Atelectasis",
    "Cardiomegaly",
    "Consolidation",
    "Edema",
    "Effusion",
    "Emphysema",
    "Fibrosis",
    "Hernia",
    "Infiltration",
    "Mass",
    "Nodule",
    "Pleural_Thickening",
    "Pneumonia",
    "Pneumothorax",
)
NO_FINDING = "No Finding"
BOX_LABELS = {name: name for name in FINDINGS} | {"Infiltrate": "Infiltration"}
"""Label of a box -> finding of the picture's row."""
SEXES, VIEWS = ("M", "F", ""), ("PA", "AP", "")

SIDE_PX = 1024
"""Width and height of every picture as published; boxes are in these pixels."""
PICTURES_MEASURED = 8
"""Boxed pictures whose size is looked at: copies are resized as a whole or not at all."""

PICTURE_NAME = re.compile(r"(\d{8})_\d{3}\.png", re.IGNORECASE | re.ASCII)
PICTURE_FOLDER = re.compile(r"images(_\d+)?", re.IGNORECASE | re.ASCII)
FOLDER_DEPTH = 3
"""Picture folders lie in each other at most so deep (`images/images_001/images`)."""


@dataclass(frozen=True, slots=True)
class _Boxes:
    """Boxes by lower-case name of their picture."""

    path: Path
    structures: Mapping[str, tuple[Structure, ...]]


def find(root: Path) -> Path | None:
    """Folder with one of the tables, at most two levels below the root, or with an archive, or None."""
    return or_archive(find_table_folder(root, TABLES), root, ARCHIVES)


def scan(folder: Path) -> SourceScan:
    """Read the table, the boxes and the official lists, and look for the pictures.

    Args:
        folder: Folder that `find` gave.

    Returns:
        One record per row, in table order, present or not, with all 14 findings and the boxes of the box list. No
        record and a warning where only archives are there.

    Raises:
        DataError: A table or list is broken, a value is unknown, a picture's name and its patient differ, two rows of
            one picture disagree, or a box leaves its picture.
    """
    table = find_table(folder, TABLES)
    if table is None:
        expected = f"the table {folder / TABLES[0]} and the pictures beside it. Get the table and unpack the archives."
        return SourceScan([], not_unpacked(folder, ARCHIVES, expected)[:1])
    warnings: list[str] = []
    files, archives = _pictures(folder)
    sides = _sides(folder, warnings)
    boxes = _boxes(folder)
    records, rows = _records(table, files, sides, boxes, warnings)
    if archives and not all(record.is_present for record in records):
        warnings.append(
            f"{folder}: pictures are absent and {len(archives)} archive(s) lie there ({archives[0].name}); "
            "unpack them there if they are not unpacked yet."
        )
    strangers = files.unused({record.picture for record in records})
    warnings += warn_of(folder, strangers, "picture", "without a row in the table; left out.")
    if boxes is not None:
        records = _check_boxes(records, rows, boxes, warnings)
    return SourceScan(records, warnings)


def _records(
    path: Path,
    files: Files,
    sides: Mapping[str, Split],
    boxes: _Boxes | None,
    warnings: list[str],
) -> tuple[list[Record], dict[str, int]]:
    """Records in table order, and the lower-case names of their pictures -> index."""
    table = read_loose_table(path, COLUMNS)
    structures = boxes.structures if boxes is not None else {}
    # Rows share a few hundred combinations of labels and of facts: each is parsed and stored once.
    findings: dict[str, dict[str, bool]] = {}
    metas: dict[tuple[str, str, str], dict[str, str]] = {}
    rows: dict[str, int] = {}
    records: list[Record] = []
    odd_ages: Counter[str] = Counter()
    repeated: list[str] = []
    absent = path.parent / "images"
    pick = itemgetter(*table.index)
    for number, fields in table.rows:
        name, labels, patient, age, sex, view = pick(fields)
        where = f"{path.name} row {number}"
        name = file_name_of(name)
        key = name.casefold()
        if key in rows:
            if not _says_the_same(records[rows[key]], patient, findings.get(labels), metas.get((age, sex, view))):
                raise DataError(
                    f"{where}: expected the same values as in {records[rows[key]].where} for {name}, found others. "
                    f"Remove the wrong row of {path}."
                )
            repeated.append(where)
            continue
        match = PICTURE_NAME.fullmatch(name)
        if match is None or not is_number(patient, match[1]):
            raise _wrong_patient(where, name, patient)
        if labels not in findings:
            findings[labels] = _findings(labels, where)
        picture = files.find(name, where)
        facts = (age, sex, view)
        if facts not in metas:
            metas[facts] = _meta(age, sex, view, where)
        if age and not metas[facts]["age"]:
            odd_ages[age] += 1
        rows[key] = len(records)
        records.append(
            Record(
                source="chestxray14",
                record_id=name,
                picture=picture or absent / name,
                group=patient,
                domain=Domain.CLINICAL,
                findings=findings[labels],
                structures=structures.get(key, ()),
                official_split=sides.get(key) or sides.get(match[1]),
                is_present=picture is not None,
                where=where,
                listed_as=name,
                meta=metas[facts],
            )
        )
    if odd_ages:
        shown = ", ".join(list(odd_ages)[:3])
        warnings.append(f"{path.name}: {odd_ages.total()} age(s) that no patient has ({shown}) are left out.")
    if repeated:
        warnings.append(f"{path.name}: {len(repeated)} row(s) repeat another ({repeated[0]}); each counts once.")
    return records, rows


def _says_the_same(record: Record, patient: str, findings: dict[str, bool] | None, meta: dict[str, str] | None) -> bool:
    """What a row's texts were parsed to is shared between rows, so identity is equality."""
    return record.group == patient and record.findings is findings and record.meta is meta


def _wrong_patient(where: str, name: str, patient: str) -> DataError:
    return DataError(
        f"{where}: expected an Image Index such as 00000001_000.png with its Patient ID 1, found {name[:60]!r} with "
        f"{patient[:60]!r}. A shifted row mixes patients: correct it or use the table as published."
    )


def _findings(text: str, where: str) -> dict[str, bool]:
    labels = text.split("|")
    unknown = [label for label in labels if label not in FINDINGS and label != NO_FINDING]
    if unknown:
        raise DataError(
            f"{where}: expected Finding Labels from {', '.join(FINDINGS)} or {NO_FINDING}, joined by '|', "
            f"found {unknown[0]!r}. Correct the row or use the table as published."
        )
    if NO_FINDING in labels and len(labels) > 1:
        raise DataError(f"{where}: expected {NO_FINDING} alone or findings, found {text!r}. Correct the row.")
    return {name: name in labels for name in FINDINGS}


def _meta(age: str, sex: str, view: str, where: str) -> dict[str, str]:
    for column, value, known in (("Patient Gender", sex, SEXES), ("View Position", view, VIEWS)):
        if value not in known:
            raise DataError(
                f"{where}: expected {column} to be {known[0]} or {known[1]}, found {value!r}. "
                "Correct the row or use the table as published."
            )
    return {"sex": sex, "age": age_in_years(age) or "", "view": view}


def _pictures(folder: Path) -> tuple[Files, list[Path]]:
    """Pictures of all folders, and archives beside them."""
    files: dict[str, Path] = {}
    archives: list[Path] = []
    level = [folder]
    for depth in range(FOLDER_DEPTH + 1):
        deeper: list[Path] = []
        for place in level:
            for name, path in list_files(place).items():
                key = name.casefold()
                if key.endswith(".png"):
                    if depth:
                        files.setdefault(name, path)
                elif PICTURE_FOLDER.fullmatch(key):
                    deeper.append(path)
                elif key.startswith("images") and key.endswith(ARCHIVE_ENDINGS):
                    archives.append(path)
        level = [path for path in deeper if path.is_dir()]
    return Files(files), archives


def _sides(folder: Path, warnings: list[str]) -> dict[str, Split]:
    """Lower-case picture name, or patient as in it, -> official side. Empty unless both lists lie in the folder."""
    lists = {
        split: path
        for split, path in ((Split.TRAIN, entry(folder, TRAIN_LIST)), (Split.TEST, entry(folder, TEST_LIST)))
        if path is not None
    }
    if len(lists) < 2:
        missing = TEST_LIST if Split.TRAIN in lists else TRAIN_LIST
        what = f"no {missing}" if lists else f"neither {TRAIN_LIST} nor {TEST_LIST}"
        warnings.append(f"{folder}: {what}; patients are split anew instead of as published.")
        return {}
    train, test = _listed(lists[Split.TRAIN]), _listed(lists[Split.TEST])
    both = next((name for name in test if name in train), None)
    if both is not None:
        raise DataError(
            f"{TEST_LIST} line {test[both]}: expected each picture in one of the two lists, found {both} in "
            f"{TRAIN_LIST} line {train[both]} too. Use the lists as published."
        )
    sides = dict.fromkeys(train, Split.TRAIN) | dict.fromkeys(test, Split.TEST)
    # A picture that neither list names goes where its patient is.
    return sides | {name[:8]: split for name, split in sides.items()}


def _listed(path: Path) -> dict[str, int]:
    """Lower-case picture name -> line."""
    try:
        lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    except OSError as error:
        raise DataError(f"{path}: the list cannot be opened ({error.strerror}). Complete the copy.") from error
    names = {name: number for number, line in enumerate(lines, start=1) if (name := line.strip().casefold())}
    for name, number in names.items():
        if not PICTURE_NAME.fullmatch(name):
            raise DataError(
                f"{path.name} line {number}: expected one file name such as 00000001_000.png, found {name[:60]!r}. "
                "Put the official list there: lists of other projects share its name but not its split."
            )
    return names


def _boxes(folder: Path) -> _Boxes | None:
    path = find_table(folder, [BOX_TABLE])
    if path is None:
        return None
    table = read_loose_table(path, ("Image Index", "Finding Label"), fields=6)
    found: dict[str, list[Structure]] = {}
    for number, fields in table.rows:
        where = table.where(number)
        name, label = (fields[i] for i in table.index)
        if label not in BOX_LABELS:
            raise DataError(
                f"{where}: expected a Finding Label from {', '.join(BOX_LABELS)}, found {label!r}. "
                "Correct the row or use the list as published."
            )
        found.setdefault(name.casefold(), []).append(Structure(label, _box(fields[2:6], where)))
    return _Boxes(path, {name: tuple(structures) for name, structures in found.items()})


def _box(fields: list[str], where: str) -> Box:
    try:
        x, y, width, height = (float(field) for field in fields)
    except ValueError:
        raise DataError(
            f"{where}: expected the numbers x, y, width and height, found {', '.join(fields)}. Correct the row."
        ) from None
    box = (x, y, x + width, y + height)
    if not all(math.isfinite(edge) for edge in box) or not (
        0 <= box[0] < box[2] <= SIDE_PX and 0 <= box[1] < box[3] <= SIDE_PX
    ):
        raise DataError(
            f"{where}: expected a box inside {SIDE_PX} x {SIDE_PX} px, found x {x:g}, y {y:g}, width {width:g}, "
            f"height {height:g}. Correct the row or use the list as published."
        )
    return box


def _check_boxes(records: list[Record], rows: Mapping[str, int], boxes: _Boxes, warnings: list[str]) -> list[Record]:
    """Say which boxes do not fit the table; drop all where the pictures are not of the published size."""
    unknown = [name for name in boxes.structures if name not in rows]
    table = boxes.path.name
    warnings += warn_of(table, unknown, "picture", "with a box but without a row in the table of pictures; left out.")
    boxed = [records[rows[name]] for name in boxes.structures if name in rows]
    strange = [
        record.record_id
        for record in boxed
        if not all(record.findings[BOX_LABELS[structure.label]] for structure in record.structures)
    ]
    what = "with a box of a finding that the picture's row does not name; kept as drawn."
    warnings += warn_of(table, strange, "picture", what)
    for record in [record for record in boxed if record.is_present][:PICTURES_MEASURED]:
        size = size_if_readable(record.picture)
        if size not in (None, (SIDE_PX, SIDE_PX)):
            warnings.append(
                f"{record.picture} has {size[0]} x {size[1]} px instead of {SIDE_PX} x {SIDE_PX}: no box of this "
                "resized copy is used, because it is not known how the pictures were cut."
            )
            return [replace(record, structures=()) if record.structures else record for record in records]
    return records


CHESTXRAY14 = Source(
    name="chestxray14",
    title="NIH ChestX-ray14",
    homepage="https://nihcc.app.box.com/v/ChestXray-NIHCC",
    licence="no restriction on use; cite the paper, link to the download page, name the NIH Clinical Center",
    is_redistributable=True,
    published_pictures=112120,
    group_rule="The patient: column Patient ID, checked against the number in the file name.",
    citation="Wang et al., ChestX-ray8: Hospital-scale chest X-ray database and benchmarks on weakly-supervised "
    "classification and localization of common thorax diseases, CVPR 2017",
    tasks=(Task.FD, Task.VG),
    find=find,
    scan=scan,
    has_usable_official_split=True,
    flaws=(
        "Findings were mined from reports by a program: of the pictures labelled pneumothorax that radiologists read "
        "again for a later study, fewer than half were confirmed.",
        "A picture without a finding may still show it: reports leave out what is known already.",
        "Boxes exist for 880 pictures of 8 findings only, and all of these pictures lie on the official test side.",
        "Chest drains, view position (AP for the severely ill) and repeated pictures of one patient go with findings.",
    ),
)
"""The source. Its official split has no patient on both sides."""
