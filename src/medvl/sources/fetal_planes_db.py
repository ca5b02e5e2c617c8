"""FETAL_PLANES_DB: common maternal-fetal ultrasound planes (Burgos-Artizzu et al., 2020).

Layout as published: `FETAL_PLANES_DB_data.csv` (`;`-separated, the last column and its values end in a blank) and
`Images/PatientNNNNN_PlaneP_k_of_n.png`; the table names pictures without extension.
"""

from __future__ import annotations

import re
from pathlib import Path

from medvl.errors import DataError
from medvl.sources.locate import entry, find_archives, find_folder, list_files
from medvl.sources.record import Domain, Record, Source, SourceScan, Split, Task
from medvl.sources.tables import TableRow, read_table

TABLE = "FETAL_PLANES_DB_data.csv"
COLUMNS = ("Image_name", "Patient_num", "Plane", "Brain_plane", "Operator", "US_Machine", "Train")

BRAIN = "Fetal brain"
OTHER = "Other"
NOT_A_BRAIN = "Not A Brain"
PLANES = ("Fetal abdomen", BRAIN, "Fetal femur", "Fetal thorax", "Maternal cervix", OTHER)
BRAIN_PLANES = ("Trans-thalamic", "Trans-cerebellum", "Trans-ventricular")
SPLITS = {"1": Split.TRAIN, "0": Split.TEST}

PICTURE_NAME = re.compile(r"Patient(?P<patient>\d+)_Plane\d+_\d+_of_\d+", re.IGNORECASE)


def find(root: Path) -> Path | None:
    """Folder with the table, at most two levels below the root, or None."""
    return find_folder(root, [TABLE])


def scan(folder: Path) -> SourceScan:
    """Read the table and look for its pictures.

    Args:
        folder: Folder that `find` gave.

    Returns:
        One record per picture of the table, in table order, present or not. The raw label is the brain plane where the
        table names one, else the plane; pictures of plane `Other` carry no label.

    Raises:
        DataError: The table is broken, a value is unknown, a picture's name and its patient differ, or two rows of one
            picture disagree.
    """
    table = entry(folder, TABLE) or folder / TABLE
    home = entry(folder, "Images") or folder / "Images"
    files = list_files(home)
    records: dict[str, Record] = {}
    warnings: list[str] = []
    first: dict[str, TableRow] = {}
    for row in read_table(table, COLUMNS):
        name = re.sub(r"\.png$", "", row["Image_name"], flags=re.IGNORECASE)
        known = first.setdefault(name.casefold(), row)
        if known is row:
            records[name] = _record(name, row, home, files)
        elif any(known[column] != row[column] for column in COLUMNS[1:]):
            raise DataError(
                f"{row.where}: expected the same values as in row {known.number} for {name}, found others. "
                f"Remove the wrong row of {table}."
            )
        else:
            warnings.append(f"{row.where} repeats row {known.number} ({name}); it counts once.")
    archives = [] if files else find_archives(folder, ["FETAL_PLANES", "Images"])
    if archives:
        warnings.append(f"{archives[0]} is not unpacked: expected the folder {home}. Unpack it there.")
    unlisted = [path.name for key, path in files.items() if key.endswith(".png") and key[:-4] not in first]
    if unlisted:
        shown = ", ".join(unlisted[:3]) + (", ..." if len(unlisted) > 3 else "")
        warnings.append(f"{home}: {len(unlisted)} picture(s) without a row in {TABLE} ({shown}); left out.")
    return SourceScan(list(records.values()), warnings)


def _record(name: str, row: TableRow, home: Path, files: dict[str, Path]) -> Record:
    _check_patient(name, row)
    label = _raw_label(row)
    file_name = f"{name}.png"
    return Record(
        source=FETAL_PLANES_DB.name,
        record_id=f"Images/{file_name}",
        picture=files.get(file_name.casefold(), home / file_name),
        group=row["Patient_num"],
        domain=Domain.CLINICAL,
        labels={Task.PI: label} if label else {},
        official_split=SPLITS[_known(row, "Train", tuple(SPLITS))],
        is_present=file_name.casefold() in files,
        where=row.where,
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
    if row[column] not in values:
        raise DataError(
            f"{row.where} ({row['Image_name']}): expected {column} to be one of {', '.join(values)}, "
            f"found {row[column]!r}. Correct the row or use the table as published."
        )
    return row[column]


def _check_patient(name: str, row: TableRow) -> None:
    match = PICTURE_NAME.fullmatch(name)
    if match is None:
        raise DataError(
            f"{row.where}: expected an Image_name such as Patient00001_Plane1_1_of_15, found {name!r}. "
            "Correct the row or use the table as published."
        )
    if not re.fullmatch(r"[0-9]+", row["Patient_num"]) or int(match["patient"]) != int(row["Patient_num"]):
        raise DataError(
            f"{row.where}: expected Patient_num {int(match['patient'])} as in the name {name}, "
            f"found {row['Patient_num']!r}. A shifted row mixes patients: correct it or use the table as published."
        )


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
