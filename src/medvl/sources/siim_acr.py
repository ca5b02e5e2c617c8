"""SIIM-ACR Pneumothorax Segmentation: chest X-rays of the NIH with masks of pneumothorax (Kaggle, 2019).

Layout as published: stage 1 `train-rle.csv` (second column `" EncodedPixels"`, with a leading blank) and
`dicom-images-train/STUDY/SERIES/UID.dcm`; stage 2 `stage_2_train.csv`, which adds the labels of stage 1's
`dicom-images-test`, and `stage_2_images/ID_xxxxxxxxx.dcm` without labels. Flat picture folders and gzipped tables
are in use too. A table has one row per annotation: the rows of a picture are united, `-1` marks a picture without
pneumothorax. Masks are run-length codes on 1024 x 1024 pixels, see `medvl.sources.rle`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from medvl.errors import DataError
from medvl.sources.files import Files
from medvl.sources.listing import counted, warn_of
from medvl.sources.locate import entry, find_archives, not_unpacked, or_archive
from medvl.sources.loose_tables import find_table, find_table_folder, read_loose_table
from medvl.sources.record import Domain, Record, Source, SourceScan, Structure, Task
from medvl.sources.rle import Runs, decode_runs, runs_area, runs_box, union_runs
from medvl.sources.row_checks import file_name_of

TABLES = ("stage_2_train.csv", "train-rle.csv")
"""Stage 2 holds all rows of stage 1 and is read where both lie."""
COLUMNS = ("ImageId", "EncodedPixels")
ARCHIVES = ("siim",)
"""Words in the name of the archive."""
PICTURE_FOLDERS = ("dicom-images-train", "dicom-images-test", "stage_2_images")
NEGATIVE = "-1"
LABEL = "pneumothorax"
"""Raw name of the finding and of every mask; the tables write none, the challenge names it."""
SIDE_PX = 1024
"""Width and height of every picture; masks are counted in these pixels."""
CONSTANT_FROM = 20
"""Pictures from which one patient id on more than half of them is taken for a placeholder."""


@dataclass(frozen=True, slots=True)
class _Header:
    """Facts from the header of one picture; all empty when it cannot be read."""

    patient: str = ""
    size: tuple[int, int] | None = None
    meta: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Labelled:
    """The rows of one picture."""

    where: str
    is_negative: bool
    masks: list[Runs]


def find(root: Path) -> Path | None:
    """Folder with one of the tables, at most two levels below the root, or with the archive, or None."""
    return or_archive(find_table_folder(root, TABLES), root, ARCHIVES)


def scan(folder: Path) -> SourceScan:
    """Read the table and the headers of the pictures.

    Args:
        folder: Folder that `find` gave.

    Returns:
        One record per picture of the table, in table order, present or not. Pictures with pneumothorax carry one
        structure: the box around all their masks together. No record and a warning where only the archive is there.

    Raises:
        DataError: The table is broken, a code is no mask of the picture, or rows of one picture disagree.
    """
    warnings: list[str] = []
    path = find_table(folder, TABLES)
    if path is None:
        return SourceScan([], not_unpacked(folder, ARCHIVES, f"the table {folder / TABLES[0]}. Unpack it there."))
    rows = _rows(path)
    files = _pictures(folder, warnings)
    looked_for = ((name, files.find(_file_name(name), row.where)) for name, row in rows.items())
    found = {name: picture for name, picture in looked_for if picture is not None}
    _warn_of_archives(folder, len(found) < len(rows), warnings)
    headers = {name: _header(path) for name, path in found.items()}
    _warn_of_headers(headers, found, warnings)
    patients = _patients(headers, warnings)
    records = [
        _record(name, row, found.get(name), headers.get(name, _Header()), patients.get(name, ""), folder)
        for name, row in rows.items()
    ]
    unlisted = files.unused({record.picture for record in records})
    warnings += warn_of(folder, unlisted, "picture", f"without a row in {path.name}; left out.")
    return SourceScan(records, warnings)


def _rows(path: Path) -> dict[str, _Labelled]:
    """Picture id -> its rows, in the order of first mention."""
    table = read_loose_table(path, COLUMNS)
    rows: dict[str, _Labelled] = {}
    for number, fields in table.rows:
        name, code = file_name_of(fields[table.index[0]]), fields[table.index[1]]
        where = table.where(number)
        if not name:
            raise DataError(f"{where}: expected an ImageId, found none. Correct this row in {path}.")
        is_negative = code == NEGATIVE
        row = rows.setdefault(name, _Labelled(where, is_negative, []))
        if row.is_negative != is_negative:
            raise DataError(
                f"{where}: expected {name} to have masks or {NEGATIVE}, found both (see {row.where}). "
                f"Remove the wrong row of {path}."
            )
        if not is_negative:
            row.masks.append(_mask(code, name, where))
    return rows


def _mask(code: str, name: str, where: str) -> Runs:
    try:
        runs = decode_runs(code, SIDE_PX * SIDE_PX)
    except ValueError as error:
        raise DataError(
            f"{where} ({name}): expected a run-length code or {NEGATIVE}; {error}. Use the table as published."
        ) from error
    if not len(runs):
        raise DataError(
            f"{where} ({name}): expected a run-length code or {NEGATIVE}, found an empty field. Correct it."
        )
    return runs


def _file_name(name: str) -> str:
    return f"{name}.dcm"


def _pictures(folder: Path, warnings: list[str]) -> Files:
    """Pictures of all picture folders of the copy."""
    files: dict[str, Path] = {}
    links: list[str] = []
    for name in PICTURE_FOLDERS:
        home = entry(folder, name)
        if home is None:
            continue
        for place, below, names in os.walk(home):
            below.sort()
            links += [folder_name for folder_name in below if os.path.islink(os.path.join(place, folder_name))]
            for file_name in sorted(names):
                if file_name.casefold().endswith(".dcm") and not file_name.startswith("."):
                    files.setdefault(file_name, Path(place, file_name))
    warnings += warn_of(folder, links, "folder", "linked and not followed; copy the pictures there.")
    return Files(files)


def _warn_of_archives(folder: Path, are_pictures_absent: bool, warnings: list[str]) -> None:
    archives = find_archives(folder, ["images"], depth=0)
    if archives and are_pictures_absent:
        warnings.append(
            f"{folder}: pictures are absent and {archives[0].name} lies there; "
            f"unpack it to one of the folders {', '.join(PICTURE_FOLDERS)} if it is not unpacked yet."
        )


def _header(path: Path) -> _Header:
    from pydicom import dcmread  # takes half a second, which nobody should wait for who has no DICOM files

    from medvl.imaging.dicom import dicom_facts

    try:
        facts = dicom_facts(path)
        header = dcmread(path, force=True, stop_before_pixels=True, specific_tags=["PatientID", "Rows", "Columns"])
        size = (int(header.get("Columns") or 0), int(header.get("Rows") or 0))
        return _Header(str(header.get("PatientID") or "").strip(), size, facts)
    except Exception:  # pydicom raises almost any type on damaged bytes; the build lists this picture as broken
        return _Header()


def _warn_of_headers(headers: Mapping[str, _Header], files: Mapping[str, Path], warnings: list[str]) -> None:
    unread = [files[key].name for key, header in headers.items() if header.size is None]
    if unread:
        warnings.append(f"{counted(unread, 'picture')} whose DICOM header cannot be read.")
    resized = [files[key].name for key, h in headers.items() if h.size not in (None, (SIDE_PX, SIDE_PX))]
    if resized:
        warnings.append(
            f"{counted(resized, 'picture')} not of {SIDE_PX} x {SIDE_PX} px: their masks do not fit and are not used."
        )


def _patients(headers: Mapping[str, _Header], warnings: list[str]) -> dict[str, str]:
    """Picture id -> patient id of its header, where that tells patients apart."""
    counts = Counter(header.patient for header in headers.values() if header.patient)
    most = max(counts.values(), default=0)
    if len(headers) >= CONSTANT_FROM and most > len(headers) / 2:
        warnings.append(
            f"{most} of {len(headers)} pictures have one PatientID in their headers: taken for a placeholder, "
            "so that each picture is its own group."
        )
        return {}
    return {key: header.patient for key, header in headers.items()}


def _record(name: str, row: _Labelled, path: Path | None, header: _Header, patient: str, folder: Path) -> Record:
    meta = dict(header.meta)
    structures: tuple[Structure, ...] = ()
    if not row.is_negative:
        runs = union_runs(row.masks)
        meta["mask_area_share"] = f"{runs_area(runs) / SIDE_PX**2:.6f}"
        if header.size in (None, (SIDE_PX, SIDE_PX)):
            x0, y0, x1, y1 = runs_box(runs, SIDE_PX)
            structures = (Structure(LABEL, bbox_xyxy_px=(float(x0), float(y0), float(x1), float(y1))),)
    return Record(
        source=SIIM_ACR.name,
        record_id=name,
        picture=path or folder / PICTURE_FOLDERS[0] / _file_name(name),
        group=patient or name,
        domain=Domain.CLINICAL,
        findings={LABEL: not row.is_negative},
        structures=structures,
        is_present=path is not None,
        where=row.where,
        listed_as=_file_name(name),
        meta=meta,
    )


SIIM_ACR = Source(
    name="siim_acr",
    title="SIIM-ACR Pneumothorax Segmentation",
    homepage="https://www.kaggle.com/c/siim-acr-pneumothorax-segmentation",
    licence="Kaggle competition rules: research and education, no redistribution",
    is_redistributable=False,
    published_pictures=15252,
    group_rule="The patient: PatientID of the DICOM header, else the picture's UID. The tables hold no patient.",
    citation="Filice et al., Crowdsourcing pneumothorax annotations using machine learning annotations on the NIH "
    "chest X-ray dataset, Journal of Digital Imaging 33: 490-496, 2020",
    tasks=(Task.FD, Task.VG),
    find=find,
    scan=scan,
    has_usable_official_split=False,
    flaws=(
        "Patient ids are random and may differ between pictures of one patient, so pictures of one patient can lie on "
        "both sides of the split.",
        "The pictures come from NIH ChestX-ray14 under other names: patients of the two datasets overlap and cannot be "
        "matched by name.",
        "A box encloses all masks of a picture together; with pneumothorax on both sides it spans the chest.",
        "The labels of the stage 2 test pictures were not published; there is no usable official split.",
    ),
)
"""The source. Its official test pictures carry no labels, so its split cannot be used."""
