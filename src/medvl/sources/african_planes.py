"""African planes: fetal ultrasound planes from five low-resource centres (Sendra-Balcells et al., 2023).

Layout as published (`Zenodo_dataset.tar.xz`): `African_planes_database.csv` and one folder per centre with
`patientNNN_<ISO3>_planeK.png`; the table names pictures without extension. Patient numbers start again in each centre.
"""

from __future__ import annotations

import re
from pathlib import Path

from medvl.errors import DataError
from medvl.sources.files import Files
from medvl.sources.listing import counted, warn_of
from medvl.sources.locate import entry, find_folder, list_pictures, not_unpacked, or_archive
from medvl.sources.record import Domain, Record, Source, SourceScan, Split, Task
from medvl.sources.row_checks import check_known, check_patient, file_name_of, unique_rows
from medvl.sources.tables import TableRow, read_table

TABLE = "African_planes_database.csv"
COLUMNS = ("Patient_num", "Plane", "Train", "Center", "Filename")

PLANES = ("Fetal abdomen", "Fetal brain", "Fetal femur", "Fetal thorax")
"""In the order of the number K in file names."""

ARCHIVES = ("zenodo_dataset", "african_planes")
"""Words in the name of the archive: as published, what users call it."""

CENTRES = {"Algeria": "DZA", "Egypt": "EGY", "Ghana": "GHA", "Malawi": "MWI", "Uganda": "UGA"}
"""Centre, which is also its folder -> country code in file names."""

SPLITS = {"1": Split.TRAIN, "0": Split.TEST}

PICTURE_NAME = re.compile(r"patient(?P<patient>\d+)_(?P<country>[a-z]{3})_plane(?P<plane>\d).*", re.IGNORECASE)


def find(root: Path) -> Path | None:
    """Folder with the table, at most two levels below the root, or with the archive, or None."""
    return or_archive(find_folder(root, [TABLE]), root, ARCHIVES)


def scan(folder: Path) -> SourceScan:
    """Read the table and look for its pictures.

    Args:
        folder: Folder that `find` gave.

    Returns:
        One record per picture of the table, in table order, present or not. No record and a warning where only the
        archive is there.

    Raises:
        DataError: The table is broken, a value is unknown, a picture's name and its patient or centre differ, or two
            rows of one picture disagree.
    """
    table = entry(folder, TABLE)
    if table is None:
        return SourceScan([], not_unpacked(folder, ARCHIVES, f"the table {folder / TABLE}. Unpack it there."))
    warnings: list[str] = []
    rows = unique_rows(table, read_table(table, COLUMNS), _file_name, COLUMNS[:4], warnings)
    homes = {centre: entry(folder, centre) or folder / centre for centre in CENTRES}
    files = {centre: list_pictures(home) for centre, home in homes.items()}
    records, odd = [], []
    for row in rows:
        if not _check(row):
            odd.append(row.where)
        records.append(_record(row, homes, files))
    if odd:
        warnings.append(f"{counted(odd, 'picture')} named for another plane than the table says; the table is kept.")
    _warn_of_files(folder, homes, files, {record.picture for record in records}, warnings)
    return SourceScan(records, warnings)


def _file_name(row: TableRow) -> str:
    return re.sub(r"\.png$", "", file_name_of(row["Filename"]), flags=re.IGNORECASE) + ".png"


def _check(row: TableRow) -> bool:
    """Refuse unknown values and mixed-up patients; False when the name's plane is not the row's."""
    for column, known in (("Center", CENTRES), ("Plane", PLANES), ("Train", SPLITS)):
        check_known(row[column], column, known, f"{row.where} ({row['Filename']})")
    match = PICTURE_NAME.fullmatch(_file_name(row))
    if match is None:
        raise DataError(
            f"{row.where}: expected a Filename such as patient001_DZA_plane0, found {row['Filename']!r}. "
            "Correct the row or use the table as published."
        )
    if match["country"].upper() != CENTRES[row["Center"]]:
        raise DataError(
            f"{row.where}: expected a Filename of {row['Center']} ({CENTRES[row['Center']]}), found {row['Filename']}. "
            "A shifted row mixes centres: correct it or use the table as published."
        )
    check_patient(row, "Patient_num", match["patient"], row["Filename"])
    return int(match["plane"]) == PLANES.index(row["Plane"])


def _record(row: TableRow, homes: dict[str, Path], files: dict[str, Files]) -> Record:
    centre, name = row["Center"], _file_name(row)
    picture = files[centre].find(name, row.where)
    return Record(
        source=AFRICAN_PLANES.name,
        record_id=f"{centre}/{name}",
        picture=picture or homes[centre] / name,
        group=f"{centre} {row['Patient_num']}",
        domain=Domain.CLINICAL,
        labels={Task.PI: row["Plane"]},
        official_split=SPLITS[row["Train"]],
        is_present=picture is not None,
        where=row.where,
        listed_as=name,
        meta={"centre": centre},
    )


def _warn_of_files(
    folder: Path, homes: dict[str, Path], files: dict[str, Files], used: set[Path], warnings: list[str]
) -> None:
    if not any(files.values()):
        warnings += not_unpacked(folder, ARCHIVES, f"the folders {', '.join(CENTRES)}.")
    for centre, home in homes.items():
        warnings += warn_of(home, files[centre].unused(used), "picture", f"without a row in {TABLE}; left out.")


AFRICAN_PLANES = Source(
    name="african_planes",
    title="Maternal fetal ultrasound planes from low-resource imaging settings in five African countries",
    homepage="https://zenodo.org/records/7540448",
    licence="not clearly stated on its record; named CC BY 4.0 elsewhere",
    is_redistributable=False,
    published_pictures=450,
    group_rule="The patient: columns Center and Patient_num together, checked against the file name; numbers start "
    "again in each centre.",
    citation="Sendra-Balcells et al., Generalisability of fetal ultrasound deep learning models to low-resource "
    "imaging settings in five African countries, Scientific Reports 13: 2728, 2023",
    tasks=(Task.PI,),
    find=find,
    scan=scan,
    has_usable_official_split=True,
    flaws=(
        "Ghana and Uganda have no thorax planes, so centre and plane are not independent.",
        "Planes are named by organ only (generic answers).",
    ),
)
"""The source. Its published split (column Train) is by patient."""
