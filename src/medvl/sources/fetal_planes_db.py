"""FETAL_PLANES_DB: common maternal-fetal ultrasound planes (Burgos-Artizzu et al., 2020).

Layout as published: `FETAL_PLANES_DB_data.csv` (`;`-separated, the last column and its values end in a blank) and
`Images/PatientNNNNN_PlaneP_k_of_n.png`; the table names pictures without extension.
"""

from __future__ import annotations

import re
from pathlib import Path

from medvl.errors import DataError
from medvl.sources.files import Files
from medvl.sources.listing import warn_of
from medvl.sources.locate import entry, find_folder, list_pictures, not_unpacked, or_archive
from medvl.sources.record import Domain, Record, Source, SourceScan, Split, Task
from medvl.sources.row_checks import check_known, check_patient, file_name_of, unique_rows
from medvl.sources.tables import TableRow, read_table

TABLE = "FETAL_PLANES_DB_data.csv"
COLUMNS = ("Image_name", "Patient_num", "Plane", "Brain_plane", "Operator", "US_Machine", "Train")
ARCHIVES = ("fetal_planes",)
"""Words in the name of the archive."""

BRAIN = "Fetal brain"
OTHER = "Other"
NOT_A_BRAIN = "Not A Brain"
PLANES = ("Fetal abdomen", BRAIN, "Fetal femur", "Fetal thorax", "Maternal cervix", OTHER)
BRAIN_PLANES = ("Trans-thalamic", "Trans-cerebellum", "Trans-ventricular")
SPLITS = {"1": Split.TRAIN, "0": Split.TEST}

PICTURE_NAME = re.compile(r"Patient(?P<patient>\d+)_Plane\d+_\d+_of_\d+", re.IGNORECASE)


def find(root: Path) -> Path | None:
    """Folder with the table, at most two levels below the root, or with its archive, or None."""
    return or_archive(find_folder(root, [TABLE]), root, ARCHIVES)


def scan(folder: Path) -> SourceScan:
    """Read the table and look for its pictures.

    Args:
        folder: Folder that `find` gave.

    Returns:
        One record per picture of the table, in table order, present or not. The raw label is the brain plane where the
        table names one, else the plane; pictures of plane `Other` carry no label. No record and a warning where only
        the archive is there.

    Raises:
        DataError: The table is broken, a value is unknown, a picture's name and its patient differ, or two rows of one
            picture disagree.
    """
    table = entry(folder, TABLE)
    if table is None:
        return SourceScan([], not_unpacked(folder, ARCHIVES, f"the table {folder / TABLE}. Unpack it there."))
    home = entry(folder, "Images") or folder / "Images"
    files = list_pictures(home, (".png",))
    warnings: list[str] = []
    rows = unique_rows(table, read_table(table, COLUMNS), _name, COLUMNS[1:], warnings)
    records = [_record(row, home, files) for row in rows]
    if not files:
        warnings += not_unpacked(folder, ["FETAL_PLANES", "Images"], f"the folder {home}. Unpack it there.")[:1]
    unlisted = files.unused({record.picture for record in records})
    warnings += warn_of(home, unlisted, "picture", f"without a row in {TABLE}; left out.")
    return SourceScan(records, warnings)


def _name(row: TableRow) -> str:
    return re.sub(r"\.png$", "", file_name_of(row["Image_name"]), flags=re.IGNORECASE)


def _record(row: TableRow, home: Path, files: Files) -> Record:
    name = _name(row)
    match = PICTURE_NAME.fullmatch(name)
    if match is None:
        raise DataError(
            f"{row.where}: expected an Image_name such as Patient00001_Plane1_1_of_15, found {name!r}. "
            "Correct the row or use the table as published."
        )
    check_patient(row, "Patient_num", match["patient"], name)
    label = _raw_label(row)
    file_name = f"{name}.png"
    picture = files.find(file_name, row.where)
    return Record(
        source=FETAL_PLANES_DB.name,
        record_id=f"Images/{file_name}",
        picture=picture or home / file_name,
        group=row["Patient_num"],
        domain=Domain.CLINICAL,
        labels={Task.PI: label} if label else {},
        official_split=SPLITS[_known(row, "Train", tuple(SPLITS))],
        is_present=picture is not None,
        where=row.where,
        listed_as=file_name,
        meta={"device": row["US_Machine"], "operator": row["Operator"]},
    )


def _raw_label(row: TableRow) -> str | None:
    """The most specific plane that the row names; None for plane `Other`."""
    plane = _known(row, "Plane", PLANES)
    brain_plane = _known(row, "Brain_plane", (*BRAIN_PLANES, OTHER) if plane == BRAIN else (NOT_A_BRAIN,))
    if brain_plane in BRAIN_PLANES:
        return brain_plane
    return None if plane == OTHER else plane


def _known(row: TableRow, column: str, values: tuple[str, ...]) -> str:
    return check_known(row[column], column, values, f"{row.where} ({row['Image_name']})")


FETAL_PLANES_DB = Source(
    name="fetal_planes_db",
    title="FETAL_PLANES_DB: Common maternal-fetal ultrasound images",
    homepage="https://zenodo.org/records/3904280",
    licence="CC BY 4.0",
    is_redistributable=True,
    published_pictures=12400,
    group_rule="The patient: column Patient_num, checked against the number in the file name.",
    citation="Burgos-Artizzu et al., Evaluation of deep convolutional neural networks for automatic classification of "
    "common maternal fetal ultrasound planes, Scientific Reports 10: 10200, 2020",
    tasks=(Task.PI,),
    find=find,
    scan=scan,
    has_usable_official_split=True,
)
"""The source. Its official split has 896 patients on each side and none on both."""
