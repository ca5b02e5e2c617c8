"""Read the demo dataset back from its folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from medvl.errors import DataError
from medvl.sources.demo.dataset import MASK_COLUMNS, PICTURE_COLUMNS
from medvl.sources.demo.plan import CONFORMITIES, DIAGNOSES, ORIENTATIONS, PLANES
from medvl.sources.locate import find_folder
from medvl.sources.record import Domain, MaskFile, Record, Source, SourceScan, Structure, Task
from medvl.sources.tables import TableRow, read_table

TASK_COLUMNS: dict[str, tuple[Task, tuple[str, ...]]] = {
    "plane": (Task.PI, PLANES),
    "conformity": (Task.VC, CONFORMITIES),
    "orientation": (Task.FO, ORIENTATIONS),
    "diagnosis": (Task.CD, DIAGNOSES),
}
"""Column of pictures.csv -> task and the labels it may hold."""

_REWRITE = "Delete the folder and write the demo dataset again."


def find(root: Path) -> Path | None:
    """The folder with demo.json and pictures.csv, at most two levels below the root, or None."""
    return find_folder(root, ["demo.json", "pictures.csv"])


def scan(folder: Path) -> SourceScan:
    """Read pictures.csv and masks.csv.

    Args:
        folder: Folder that `find` gave.

    Returns:
        One record a row of pictures.csv, in its order.

    Raises:
        DataError: A table is missing, broken or lacks a column, a cell is not one of its values, a picture is listed
            twice, a mask belongs to no listed picture, a path leads out of the folder, or the mask file of a present
            picture is missing.
    """
    rows: dict[str, TableRow] = {}
    for row in read_table(folder / "pictures.csv", PICTURE_COLUMNS, delimiters=(",",)):
        if row["picture"] in rows:
            raise DataError(f"{folder / row.where}: picture {row['picture']!r} is listed a second time. {_REWRITE}")
        rows[row["picture"]] = row
    structures: dict[str, list[Structure]] = {name: [] for name in rows}
    for row in read_table(folder / "masks.csv", MASK_COLUMNS, delimiters=(",",)):
        if row["picture"] not in rows:
            raise DataError(f"{folder / row.where}: {row['picture']!r} is not listed in pictures.csv. {_REWRITE}")
        structures[row["picture"]].append(_structure(folder, row))
    return SourceScan([_record(folder, row, structures[name]) for name, row in rows.items()])


def _structure(folder: Path, row: TableRow) -> Structure:
    if not row["structure"]:
        raise DataError(f"{folder / row.where}: structure is empty; expected its name. {_REWRITE}")
    mask = _inside(folder, row, "mask")
    # the mask of a picture that is absent anyway may be absent too
    if not mask.is_file() and (folder / row["picture"]).is_file():
        raise DataError(f"{folder / row.where}: the mask file {row['mask']!r} is missing. {_REWRITE}")
    return Structure(row["structure"], mask=MaskFile(mask))


def _record(folder: Path, row: TableRow, structures: Sequence[Structure]) -> Record:
    if not row["patient"]:
        raise DataError(f"{folder / row.where}: patient is empty; expected its id. {_REWRITE}")
    style = _known(folder, row, "style", tuple(Domain))
    labels = {task: _known(folder, row, column, known) for column, (task, known) in TASK_COLUMNS.items() if row[column]}
    picture = _inside(folder, row, "picture")
    return Record(
        source=DEMO.name,
        record_id=row["picture"],
        picture=picture,
        group=row["patient"],
        domain=Domain(style),
        labels=labels,
        structures=tuple(structures),
        is_present=picture.is_file(),
        where=row.where,
    )


def _known(folder: Path, row: TableRow, column: str, known: tuple[str, ...]) -> str:
    if row[column] not in known:
        expected = ", ".join(known)
        raise DataError(f"{folder / row.where}: {column} is {row[column]!r}; expected one of: {expected}. {_REWRITE}")
    return row[column]


def _inside(folder: Path, row: TableRow, column: str) -> Path:
    """The file a cell names, which has to lie in the folder."""
    path = folder / row[column]
    if not row[column] or not path.resolve().is_relative_to(folder.resolve()):
        raise DataError(
            f"{folder / row.where}: {column} is {row[column]!r}; expected a path inside the dataset's folder, not one "
            f"outside it. {_REWRITE}"
        )
    return path


DEMO = Source(
    name="demo",
    title="medvl demo (drawn pictures)",
    homepage="none: medvl draws it",
    licence="Apache-2.0",
    is_redistributable=True,
    published_pictures=2419,
    group_rule="one drawn patient, from the column `patient` of pictures.csv",
    citation="medvl demo dataset",
    tasks=(Task.PI, Task.VC, Task.FO, Task.CD, Task.VG),
    find=find,
    scan=scan,
)
"""The demo source."""
