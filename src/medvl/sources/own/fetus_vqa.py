"""FetUS-VQA: multiple-choice questions on fetal ultrasound pictures of other datasets (FetUSAgents, 2026).

`vqa_*.json`: lists of image_id (with or without extension), question, options `(A) ...` and a letter. The questions on
planes are used; those on gestational age, circumferences, areas and delivery belong to no task here. The publishers
ship no pictures: they are looked for by name anywhere below the folder of the pictures.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from medvl.config.own_data import OwnDataConfig
from medvl.errors import DataError
from medvl.sources.locate import list_files
from medvl.sources.own.asked import Asked, gather
from medvl.sources.own.groups import group_of
from medvl.sources.own.options import answer_index, read_options, without_options
from medvl.sources.own.pictures import list_tree
from medvl.sources.own.place import Place
from medvl.sources.own.rows import objects, read_json
from medvl.sources.record import Domain, Question, SourceScan, Task

FILE_NAME = re.compile(r"vqa_\w+\.json", re.IGNORECASE)
PLANE_FILES = ("vqa_plane_multi", "vqa_plane_binary", "vqa_brain_subplane_multi", "vqa_brain_subplane_binary")
"""Files whose questions ask for a plane."""
PATIENT = re.compile(r"(patient\d+_[A-Z]{3})_plane\d+", re.IGNORECASE)
"""Names of the African planes: patients are counted anew in each country."""


def scan(config: OwnDataConfig, place: Place) -> SourceScan:
    """Read the question files.

    Returns:
        One record per picture, in the order of the files, with all questions on its plane.

    Raises:
        DataError: There is no such file, a row is not as published, or two pictures have one name.
    """
    warnings: list[str] = []
    files = (
        [place.path] if config.is_file else [p for p in list_files(place.path).values() if FILE_NAME.fullmatch(p.name)]
    )
    if not files:
        raise DataError(f"{place.path}: expected files such as {PLANE_FILES[0]}.json, found none. Say their folder.")
    pictures = _pictures(place.pictures, warnings)
    asked: list[Asked] = []
    for path in files:
        rows = list(objects(path, read_json(path)))
        if path.stem.casefold() in PLANE_FILES:
            asked += [_asked(config, place, pictures, path, where, values) for where, values in rows]
        else:
            warnings.append(f"{path.name}: {len(rows)} questions belong to none of the tasks; left out.")
    records = gather(config.name, asked, warnings)
    absent = sum(not record.is_present for record in records)
    if absent:
        warnings.append(
            f"{absent} of {len(records)} pictures are absent: FetUS-VQA ships none. Put those of the African planes "
            f"and of Zenodo record 14093338 below {place.pictures}."
        )
    return SourceScan(records, warnings)


def _pictures(folder: Path, warnings: list[str]) -> dict[str, list[Path]]:
    """Lower-case name without extension -> files."""
    found: dict[str, list[Path]] = {}
    for name, path in list_tree(folder, warnings)[0].items():
        found.setdefault(PurePosixPath(name).stem.casefold(), []).append(path)
    return found


def _asked(
    config: OwnDataConfig,
    place: Place,
    pictures: Mapping[str, list[Path]],
    path: Path,
    where: str,
    values: Mapping[str, Any],
) -> Asked:
    missing = [key for key in ("image_id", "question", "options", "answer") if not values.get(key)]
    if missing:
        raise DataError(f"{where}: expected {', '.join(missing)}, found none. Use the file as published.")
    name = PurePosixPath(str(values["image_id"]).strip().replace("\\", "/")).name
    stem = PurePosixPath(name).stem
    alike = pictures.get(stem.casefold(), [])
    files = [path for path in alike if path.stem == stem] or alike
    if len(files) > 1:
        raise DataError(
            f"{where}: expected one picture named {stem}, found {files[0]} and {files[1]}. "
            "Keep the one that the question is about below the folder of the pictures."
        )
    try:
        options = read_options(values["options"])
        index = answer_index(values["answer"], options, "letter")
    except ValueError as error:
        raise DataError(f"{where}: {error}. Use the file as published.") from error
    patient = PATIENT.fullmatch(stem)
    return Asked(
        where=where,
        picture=files[0] if files else place.pictures / (name if PurePosixPath(name).suffix else f"{name}.png"),
        record_id=stem,
        is_present=bool(files),
        listed_as=f"{stem}{files[0].suffix}" if files else "",
        group=group_of(config, stem, patient[1] if patient else stem, where),
        question=Question(
            question_id=f"{path.stem}/{stem}",
            task=Task.PI,
            question=without_options(str(values["question"]), options),
            options=options,
            answer_index=index,
        ),
        domain=Domain(config.domain),
    )
