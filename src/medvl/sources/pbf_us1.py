"""PBF-US1 (NatalIA): blind sweeps over a fetal phantom by 45 volunteers without training (Gonzalez et al., 2024).

Layout as published: `resume.csv` (one row per frame), `metadata.csv` (one row per exam) and 90 folders
`Obstetrics Exam - DD-Mon-YYYY_HMM_AM` (hour without leading zero) that hold `cineframe_N_<time>.jpeg`.
"""

from __future__ import annotations

import re
from pathlib import Path

from medvl.errors import DataError
from medvl.sources.files import Files
from medvl.sources.listing import warn_of
from medvl.sources.locate import entry, find_where, holds, list_pictures, not_unpacked, or_archive, subfolders
from medvl.sources.record import Domain, Record, Source, SourceScan, Task
from medvl.sources.row_checks import check_known, file_name_of, unique_rows
from medvl.sources.tables import TableRow, read_table

TABLE = "resume.csv"
COLUMNS = ("file_name", "studie", "class", "value")
EXAM_TABLE = "metadata.csv"

NO_PLANE = "No plane"
CLASSES = {
    "Biparietal standard plane": "0",
    "Abdominal standard plane": "1",
    "Heart standard plane": "2",
    "Spine standard plane": "3",
    "Femur standard plane": "4",
    NO_PLANE: "5",
}
"""Class -> its value in the table."""

ARCHIVES = ("pbf-us1", "pbf_us1", "natalia")
"""Words in the name of the archive."""

EXAM_PREFIX = "obstetrics exam"
FRAME_NAME = re.compile(r"cineframe_\d+_.+\.jpe?g", re.IGNORECASE)


def find(root: Path) -> Path | None:
    """Folder with `resume.csv` beside `metadata.csv` or exam folders, at most two levels below, or the archive's."""
    return or_archive(find_where(root, _holds_dataset), root, ARCHIVES)


def _holds_dataset(folder: Path) -> bool:
    if not holds(folder, TABLE):
        return False
    # `resume.csv` alone is too common a name.
    return holds(folder, EXAM_TABLE) or any(_is_exam(path.name) for path in subfolders(folder))


def scan(folder: Path) -> SourceScan:
    """Read the tables and look for the frames.

    Args:
        folder: Folder that `find` gave.

    Returns:
        One record per frame of `resume.csv`, in table order, present or not. Frames of class `No plane` carry no label.
        No record and a warning where only the archive is there.

    Raises:
        DataError: A table is broken, a frame has no exam, a class is unknown or does not go with its value, or two rows
            of one frame disagree.
    """
    table = entry(folder, TABLE)
    if table is None:
        return SourceScan([], not_unpacked(folder, ARCHIVES, f"the table {folder / TABLE}. Unpack it there."))
    warnings: list[str] = []
    rows = unique_rows(table, read_table(table, COLUMNS), lambda r: f"{r['studie']}/{_name(r)}", COLUMNS[2:], warnings)
    exams = Files({path.name: path for path in subfolders(folder, warnings=warnings) if _is_exam(path.name)})
    files = {path: list_pictures(path) for path in exams.values()}
    meta = _exam_meta(folder, warnings)
    records = [_record(folder, row, exams, files, meta) for row in rows]
    _warn_of_files(folder, files, records, warnings)
    return SourceScan(records, warnings)


def _is_exam(name: str) -> bool:
    return name.casefold().startswith(EXAM_PREFIX)


def _name(row: TableRow) -> str:
    return file_name_of(row["file_name"])


def _exam_meta(folder: Path, warnings: list[str]) -> dict[str, dict[str, str]]:
    """Exam -> sweep and position of the phantom. Age and sex in the table are the volunteer's and stay out."""
    table = entry(folder, EXAM_TABLE)
    if table is None:
        warnings.append(f"{folder}: no {EXAM_TABLE}; sweep and position of the phantom stay unknown.")
        return {}
    rows = unique_rows(
        table,
        read_table(table, ["Study Name", "protocol", "position"]),
        lambda row: row["Study Name"],
        ["protocol", "position"],
        warnings,
    )
    return {
        row["Study Name"].casefold(): {"view": row["protocol"], "position": row["position"], "device": "Clarius C3 HD3"}
        for row in rows
    }


def _record(
    folder: Path,
    row: TableRow,
    exams: Files,
    files: dict[Path, Files],
    meta: dict[str, dict[str, str]],
) -> Record:
    exam, name = row["studie"], _name(row)
    _check(row)
    home = exams.find(exam, row.where)
    picture = None if home is None else files[home].find(name, row.where)
    return Record(
        source=PBF_US1.name,
        record_id=f"{exam}/{name}",
        picture=picture or (home or folder / exam) / name,
        group=exam,
        domain=Domain.PHANTOM,
        labels={} if row["class"] == NO_PLANE else {Task.PI: row["class"]},
        is_present=picture is not None,
        where=row.where,
        listed_as=name,
        meta=meta.get(exam.casefold(), {}),
    )


def _check(row: TableRow) -> None:
    if not _is_exam(row["studie"]) or set(row["studie"]) & set("/\\"):
        raise DataError(
            f"{row.where} ({row['file_name']}): expected an exam such as 'Obstetrics Exam - 02-May-2024_817_AM' in "
            f"column studie, found {row['studie']!r}. Without its exam a frame cannot be kept on one side of the split."
        )
    if not FRAME_NAME.fullmatch(_name(row)):
        raise DataError(
            f"{row.where}: expected a file_name such as cineframe_100_2024-05-03T12-19-10.jpeg, "
            f"found {row['file_name']!r}. Correct the row or use the table as published."
        )
    check_known(row["class"], "class", CLASSES, f"{row.where} ({row['file_name']})")
    if row["value"] != CLASSES[row["class"]]:
        raise DataError(
            f"{row.where} ({row['file_name']}): expected value {CLASSES[row['class']]} for class {row['class']!r}, "
            f"found {row['value']!r}. Correct the row or use the table as published."
        )


def _warn_of_files(folder: Path, files: dict[Path, Files], records: list[Record], warnings: list[str]) -> None:
    if not any(files.values()):
        words = ["obstetrics", "dataset", "data"]
        warnings += not_unpacked(folder, [*ARCHIVES, *words], f"exam folders in {folder}.")[:1]
    used = {record.picture for record in records}
    unlisted = [f"{home.name}/{name}" for home, pictures in files.items() for name in pictures.unused(used)]
    warnings += warn_of(folder, unlisted, "frame", f"without a row in {TABLE}; left out.")


PBF_US1 = Source(
    name="pbf_us1",
    title="NatalIA PBF-US1: Phantom blind-sweeps for fetal ultrasound scanning",
    homepage="https://zenodo.org/records/14193949",
    licence="CC BY 4.0",
    is_redistributable=True,
    published_pictures=19407,
    group_rule="The exam: the folder (column studie) of one sweep.",
    citation="Gonzalez et al., NatalIA: PBF-US1 (Phantom Blind-sweeps for Fetal Ultrasound Scanning), Zenodo, 2024",
    tasks=(Task.PI,),
    find=find,
    scan=scan,
    has_usable_official_split=False,
    flaws=(
        "One phantom: every picture shows the same fetus, so its scores say little about patients.",
        "Only 346 of the 19,407 frames show a standard plane; the others carry no label.",
        "Neighbouring frames of a sweep are near-identical: pictures count for less than their number.",
    ),
)
"""The source. It publishes no split."""
