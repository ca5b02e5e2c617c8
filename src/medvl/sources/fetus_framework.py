"""Dataset for Fetus Framework: first-trimester views for nuchal translucency (Cui and Dong, 2022).

Layout as published: `ObjectDetection.xlsx` (one row per box) and four sets, `Set1-Training&Validation Sets CNN`,
`Set2-Training&Validation Sets ANN Scoring system`, `Internal Test Set`, `External Test Set`, each with folders
`Standard` and `Non-standard` where it is classified. Copies differ in blanks, dashes and underscores of these names,
and some have the sets one folder deeper than the table.

The table names files without their folder while file names repeat between folders, so a box belongs to a picture only
where one picture has the name, or all that have it are copies of one file.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from medvl.errors import DataError
from medvl.sources.listing import warn_of
from medvl.sources.locate import entry, find_where, holds, list_pictures, not_unpacked, or_archive, subfolders
from medvl.sources.record import Box, Domain, Record, Source, SourceScan, Split, Structure, Task
from medvl.sources.row_checks import check_known, file_name_of
from medvl.sources.sheets import SheetRow, read_sheet

TABLE = "ObjectDetection.xlsx"
EDGES = ("w_min", "h_min", "w_max", "h_max")
"""Columns of a box in the order x0, y0, x1, y1; the table itself has y before x."""
COLUMNS = ("fname", "structure", *EDGES)

ARCHIVES = ("fetus framework", "fetus_framework", "fetus-framework")
"""Words in the name of the archive."""

STRUCTURES = ("thalami", "midbrain", "NT", "IT", "CM", "palate", "nasal bone", "nasal tip", "nasal skin")
VIEWS = {"standard": "Standard", "nonstandard": "Non-standard"}
"""Folder name, letters only -> raw label as published."""

SETS = {
    "set1training": ("Set1", Split.TRAIN, "Shenzhen People's Hospital"),
    "set2training": ("Set2", Split.TRAIN, "Shenzhen People's Hospital"),
    "internaltestset": ("Internal Test Set", Split.TEST, "Shenzhen People's Hospital"),
    "externaltestset": ("External Test Set", Split.TEST, "Longhua branch of Shenzhen People's Hospital"),
}
"""How a folder's name starts, letters and digits only -> name in record ids, side, centre."""

Boxes = Mapping[str, tuple[Structure, ...]]


def find(root: Path) -> Path | None:
    """Folder with the table or with sets, at most two levels below the root, or with the archive, or None."""
    folder = find_where(root, lambda folder: holds(folder, TABLE) or len(_set_folders(folder)) > 1)
    return or_archive(folder, root, ARCHIVES)


def scan(folder: Path) -> SourceScan:
    """List the pictures of all sets and give them their boxes.

    Args:
        folder: Folder that `find` gave.

    Returns:
        One record per picture, set by set in the order of `SETS`, then one without labels per name of the table that
        no picture has. The label (VC) is the name of its folder.

    Raises:
        DataError: The table is broken, has an unknown structure or a box without area, or two folders are the same set.
    """
    warnings: list[str] = []
    table = entry(folder, TABLE)
    if table is None and not _set_folders(folder):
        return SourceScan([], not_unpacked(folder, ARCHIVES, f"the table {folder / TABLE} and the sets beside it."))
    if table is None:
        warnings.append(f"{folder}: no {TABLE}; no box is asked about.")
    boxes = _read_boxes(table, warnings) if table is not None else {}
    homes = _set_homes(folder, warnings)
    records = [r for key in SETS if key in homes for r in _scan_set(folder, key, homes[key], warnings)]
    if not homes:
        warnings += not_unpacked(folder, ["fetus", "framework", "set1", "set2", "test"], f"the sets in {folder}.")
    records = _give_boxes(records, boxes, warnings)
    names = {record.picture.name.casefold() for record in records}
    return SourceScan(records + [_absent(folder, name) for name in boxes if name.casefold() not in names], warnings)


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())


def _set_folders(folder: Path, warnings: list[str] | None = None) -> list[tuple[str, Path]]:
    """(key of the set, its folder) in one folder."""
    children = subfolders(folder, warnings=warnings)
    return [(key, child) for child in children for key in SETS if _letters(child.name).startswith(key)]


def _set_homes(folder: Path, warnings: list[str]) -> dict[str, Path]:
    found = _set_folders(folder, warnings)
    if not found:
        found = next((sets for child in subfolders(folder) if (sets := _set_folders(child, warnings))), [])
    homes: dict[str, Path] = {}
    for key, home in found:
        if key in homes:
            raise DataError(
                f"{home.parent}: expected one folder for {SETS[key][0]}, found {homes[key].name!r} and {home.name!r}. "
                "Remove the one that is a copy."
            )
        homes[key] = home
    lacking = [name for key, (name, _, _) in SETS.items() if key not in homes]
    if homes and lacking:
        warnings.append(f"{folder}: without {', '.join(lacking)}; complete the copy to have all pictures.")
    return homes


def _scan_set(folder: Path, key: str, home: Path, warnings: list[str]) -> list[Record]:
    records = [_record(key, None, path) for path in list_pictures(home).values()]
    unknown = []
    for child in subfolders(home, folder, warnings):
        view = VIEWS.get(_letters(child.name))
        if view is None:
            unknown.append(child.name)
        else:
            records += [_record(key, view, path) for path in list_pictures(child).values()]
    warnings += warn_of(home, unknown, "folder", "that the dataset does not have; left out.")
    return records


def _record(key: str, view: str | None, path: Path) -> Record:
    name, side, centre = SETS[key]
    place = "/".join(part for part in (name, view, path.name) if part is not None)
    return Record(
        source=FETUS_FRAMEWORK.name,
        record_id=place,
        picture=path,
        group=f"{name} {view or ''} {path.stem}",
        domain=Domain.CLINICAL,
        labels={Task.VC: view} if view is not None else {},
        official_split=side,
        where=place,
        meta={"centre": centre},
    )


def _absent(folder: Path, name: str) -> Record:
    """A name of the table without a picture; set and class are unknown, so it carries nothing to ask about."""
    return Record(
        source=FETUS_FRAMEWORK.name,
        record_id=f"{TABLE}/{name}",
        picture=folder / name,
        group=name,
        domain=Domain.CLINICAL,
        is_present=False,
        where=f"{TABLE}, {name}",
    )


def _read_boxes(table: Path, warnings: list[str]) -> dict[str, tuple[Structure, ...]]:
    """File name -> its structures, in table order; of several spellings the first stands for all."""
    boxes: dict[str, dict[str, list[Box]]] = defaultdict(lambda: defaultdict(list))
    spelt: dict[str, str] = {}
    repeats = []
    for row in read_sheet(table, COLUMNS):
        name, structure, box = _read_row(row, table)
        name = spelt.setdefault(name.casefold(), name)
        if box in boxes[name][structure]:
            repeats.append(f"row {row.number}")
        else:
            boxes[name][structure].append(box)
    warnings += warn_of(table.name, repeats, "row", "repeated word for word; each counts once.")
    unclear = [f"{name} {label}" for name, labels in boxes.items() for label, found in labels.items() if len(found) > 1]
    what = "with several boxes under one file name; which is right cannot be told, so they are left out."
    warnings += warn_of(table.name, unclear, "structure", what)
    return {
        name: tuple(Structure(label, found[0]) for label, found in labels.items() if len(found) == 1)
        for name, labels in boxes.items()
    }


def _read_row(row: SheetRow, table: Path) -> tuple[str, str, Box]:
    name = file_name_of(row.text("fname"))
    if not name:
        raise DataError(f"{row.where}: expected a file name in column fname, found none. Correct the row in {table}.")
    if "." not in name:  # a spreadsheet program turns names such as 25 into numbers
        name += ".png"
    structure = check_known(row.text("structure"), "structure", STRUCTURES, f"{row.where} ({name})")
    x0, y0, x1, y1 = (row.number_in(column) for column in EDGES)
    if not (0 <= x0 < x1 and 0 <= y0 < y1):
        raise DataError(
            f"{row.where} ({name}, {structure}): expected 0 <= h_min < h_max and 0 <= w_min < w_max, "
            f"found h {y0:g} to {y1:g}, w {x0:g} to {x1:g}. Correct the row or use the table as published."
        )
    return name, structure, (x0, y0, x1, y1)


def _give_boxes(records: list[Record], boxes: Boxes, warnings: list[str]) -> list[Record]:
    """Records with their structures; names that stand for different pictures get none."""
    by_name: dict[str, list[Path]] = defaultdict(list)
    for record in records:
        by_name[record.picture.name.casefold()].append(record.picture)
    unclear: list[str] = []
    named: dict[Path, str] = {}
    for name in boxes:
        alike = by_name[name.casefold()]
        paths = [path for path in alike if path.name == name] or alike
        if _are_copies(paths):
            named |= dict.fromkeys(paths, name)
        else:
            unclear.append(name)
    what = "that different pictures in several folders have; the table does not say which is meant, so their boxes are "
    warnings += warn_of(TABLE, unclear, "name", f"{what}left out.")
    return [
        replace(record, structures=boxes[named[record.picture]], listed_as=named[record.picture])
        if record.picture in named
        else record
        for record in records
    ]


def _are_copies(paths: list[Path]) -> bool:
    if len(paths) < 2:
        return True
    return len({path.stat().st_size for path in paths}) == 1 and len({path.read_bytes() for path in paths}) == 1


FETUS_FRAMEWORK = Source(
    name="fetus_framework",
    title="Dataset for Fetus Framework",
    homepage="https://data.mendeley.com/datasets/n2rbrb9t4f/1",
    licence="CC BY 4.0",
    is_redistributable=True,
    published_pictures=1684,
    group_rule="The picture: its set, class and file name (1,528 pictures of 1,519 women; the names tell no woman).",
    citation="Cui and Dong, Dataset for Fetus Framework, Mendeley Data, 2022",
    tasks=(Task.VC, Task.VG),
    find=find,
    scan=scan,
    has_usable_official_split=True,
    flaws=(
        "It names no woman: about nine of 1,519 have two pictures, which may lie on two sides.",
        "The table of boxes names files without their folder: boxes of names that repeat are left out.",
    ),
)
"""The source. Sets 1 and 2 are its train side, the internal and external test sets its test side."""
