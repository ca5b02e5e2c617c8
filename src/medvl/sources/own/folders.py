"""Folders as classes: the name of a folder is the answer for the pictures in it.

`CLASS/...` or `train/CLASS/...`, `val/CLASS/...`, `test/CLASS/...`; pictures may lie deeper (`CLASS/PATIENT/...`).
"""

from __future__ import annotations

from pathlib import Path

from medvl.config.own_data import OwnDataConfig
from medvl.errors import DataError
from medvl.sources.listing import counted
from medvl.sources.own.asked import SIDES, official, read_side, warn_of_validation
from medvl.sources.own.groups import group_of
from medvl.sources.own.labels import check_labels
from medvl.sources.own.pictures import list_tree
from medvl.sources.own.place import Place
from medvl.sources.record import Domain, Record, SourceScan, Split, Task


def scan(config: OwnDataConfig, place: Place) -> SourceScan:
    """Read a folder of classes.

    Returns:
        One record per picture, in the order of their paths, labelled for the task of the configuration.

    Raises:
        DataError: There are no classes, sides and classes lie in one folder, or a picture has no group.
    """
    warnings: list[str] = []
    pictures, _ = list_tree(place.path, warnings)
    has_sides = _has_sides(place.path, list(pictures))
    depth = 2 if has_sides else 1
    loose = [name for name in pictures if name.count("/") < depth]
    if loose:
        warnings.append(f"{place.path}: {counted(loose, 'picture')} in no folder of a class; left out.")
    records = [
        _record(config, name, path, name.split("/")[depth - 1], name.split("/")[0] if has_sides else "")
        for name, path in pictures.items()
        if name.count("/") >= depth
    ]
    if not records:
        raise DataError(
            f"{place.path}: expected a folder with pictures for each class, found none. "
            f"Say the folder above the classes as path of '{config.name}'."
        )
    check_labels(config, {name.split("/")[depth - 1] for name in pictures if name.count("/") >= depth}, str(place.path))
    if has_sides and config.use_split:
        warn_of_validation([n for n in pictures if SIDES[n.split("/")[0].casefold()] is Split.VAL], warnings)
    return SourceScan(records, warnings)


def _has_sides(folder: Path, names: list[str]) -> bool:
    tops = {name.split("/")[0] for name in names if "/" in name}
    sides = {top for top in tops if top.casefold() in SIDES}
    if sides and sides != tops:
        raise DataError(
            f"{folder}: expected folders of classes or of sides, found both ({', '.join(sorted(sides))} beside "
            f"{', '.join(sorted(tops - sides))}). Move the classes into the sides, or rename the folder."
        )
    return bool(sides)


def _record(config: OwnDataConfig, name: str, path: Path, label: str, side: str) -> Record:
    return Record(
        source=config.name,
        record_id=name,
        picture=path,
        group=group_of(config, name, None, name),
        domain=Domain(config.domain),
        labels={Task(str(config.task)): config.labels.get(label, label)},
        official_split=official(read_side(side, name)) if config.use_split else None,
        where=name,
    )
