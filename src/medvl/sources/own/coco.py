"""COCO detection files: categories and boxes become questions about a red box.

A path to a JSON file is one file; a path to a folder is an export with sides (`train/_annotations.coco.json`,
`valid/...`, `test/...`), pictures beside each file. Ids may be numbers or texts. Masks are not read: the box counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvl.config.own_data import PICTURE_GROUP, OwnDataConfig
from medvl.errors import DataError
from medvl.imaging.formats import MAX_PICTURE_PX
from medvl.sources.listing import counted
from medvl.sources.locate import entry
from medvl.sources.own.asked import SIDES, official, read_side, warn_of_validation
from medvl.sources.own.boxes import box_from_corners
from medvl.sources.own.groups import group_of
from medvl.sources.own.labels import check_labels
from medvl.sources.own.place import FoundPicture, PictureFinder, Place
from medvl.sources.own.rows import objects, read_json
from medvl.sources.record import Domain, Record, SourceScan, Split, Structure
from medvl.sources.sizes import size_if_readable

EXPORT_FILE = "_annotations.coco.json"


@dataclass(frozen=True, slots=True)
class _File:
    """One COCO file: its path, the folder of its pictures below `Place.pictures`, and its side."""

    path: Path
    below: str
    side: str


@dataclass(frozen=True, slots=True)
class _Image:
    """One picture of a file: what names it in a message, what the file says, where it lies."""

    where: str
    values: Mapping[str, Any]
    picture: FoundPicture


def scan(config: OwnDataConfig, place: Place) -> SourceScan:
    """Read COCO files.

    Returns:
        One record per picture, in the order of the files; pictures without an annotation carry no structure.

    Raises:
        DataError: A file is no COCO file, an id is unknown or occurs twice, or a box has no area or leaves its picture.
    """
    warnings: list[str] = []
    records: dict[str, Record] = {}
    finder = PictureFinder(place.pictures)
    for file in _files(config, place):
        for record in _records(config, finder, file, warnings):
            if record.record_id in records:
                raise DataError(
                    f"{record.where}: expected each picture once, found {record.record_id} again after "
                    f"{records[record.record_id].where}. Remove one of them."
                )
            records[record.record_id] = record
    return SourceScan(list(records.values()), warnings)


def _files(config: OwnDataConfig, place: Place) -> list[_File]:
    if config.is_file:
        return [_File(place.path, "", "")]
    files = []
    for side in ("", *SIDES):
        path = entry(place.path, f"{side}/{EXPORT_FILE}" if side else EXPORT_FILE)
        if path is not None:
            below = path.parent.relative_to(place.pictures).as_posix() if _is_below(path, place.pictures) else side
            files.append(_File(path, "" if below == "." else below, side))
    if not files:
        raise DataError(
            f"{place.path}: expected {EXPORT_FILE} there or in train, valid and test, found none. "
            f"Say the JSON file itself as path of '{config.name}'."
        )
    return files


def _is_below(path: Path, folder: Path) -> bool:
    return path.parent.is_relative_to(folder)


def _records(config: OwnDataConfig, finder: PictureFinder, file: _File, warnings: list[str]) -> list[Record]:
    content = read_json(file.path)
    if not isinstance(content, Mapping) or not {"images", "annotations", "categories"} <= set(content):
        raise DataError(f"{file.path}: expected a COCO file with images, annotations and categories. Check the file.")
    images = _images(file, content, finder)
    structures = _structures(config, file.path, content, images, warnings)
    bare = [image.picture.name for number, image in images.items() if not structures[number]]
    if bare:
        warnings.append(f"{file.path.name}: {counted(bare, 'picture')} without an annotation; no question is asked.")
    side = read_side(file.side, str(file.path)) if config.use_split else None
    if side is Split.VAL:
        warn_of_validation([image.picture.name for image in images.values()], warnings)
    key = config.group if config.group not in (None, PICTURE_GROUP) else "group"
    records = []
    for number, image in images.items():
        picture = image.picture
        records.append(
            Record(
                source=config.name,
                record_id=picture.name,
                picture=picture.path,
                group=group_of(config, picture.name, image.values.get(key), image.where),
                domain=Domain(config.domain),
                structures=tuple(structures[number]),
                official_split=official(side),
                is_present=picture.is_present,
                where=image.where,
                listed_as=picture.listed_as,
            )
        )
    return records


def _images(file: _File, content: Mapping[str, Any], finder: PictureFinder) -> dict[str, _Image]:
    images: dict[str, _Image] = {}
    for where, values in _part(file.path, content, "images"):
        number, name = _id(values, "id", where), values.get("file_name")
        if number in images:
            raise DataError(f"{where}: expected each image id once, found {number} again. Correct the file.")
        if not isinstance(name, str) or not name.strip():
            raise DataError(f"{where}: expected a file_name, found {name!r}. Correct the image.")
        images[number] = _Image(where, values, finder.find(f"{file.below}/{name}" if file.below else name, where))
    return images


def _structures(
    config: OwnDataConfig,
    path: Path,
    content: Mapping[str, Any],
    images: Mapping[str, _Image],
    warnings: list[str],
) -> dict[str, list[Structure]]:
    """Image id -> its structures."""
    categories = {_id(v, "id", where): _name(v, where) for where, v in _part(path, content, "categories")}
    check_labels(config, categories.values(), str(path))
    categories = {number: config.labels.get(name, name) for number, name in categories.items()}
    structures: dict[str, list[Structure]] = {number: [] for number in images}
    sizes: dict[str, tuple[float, float] | None] = {}
    crowds = []
    for where, annotation in _part(path, content, "annotations"):
        number = _id(annotation, "image_id", where)
        if number not in images:
            raise DataError(f"{where}: expected an image_id of the file, found {number}. Correct the annotation.")
        if annotation.get("iscrowd") in (1, True):
            crowds.append(where)
            continue
        if number not in sizes:
            sizes[number] = _size(images[number])
        structures[number].append(_structure(annotation, sizes[number], categories, where))
    if crowds:
        warnings.append(f"{path.name}: {counted(crowds, 'annotation')} of crowds; left out.")
    return structures


def _part(path: Path, content: Mapping[str, Any], key: str) -> list[tuple[str, Mapping[str, Any]]]:
    return [(f"{path.name} {key}[{index}]", value) for index, (_, value) in enumerate(objects(path, content[key]))]


def _id(value: Mapping[str, Any], key: str, where: str) -> str:
    """Ids are compared as text: exports mix `1` and `"1"`."""
    found = value.get(key)
    if found is None or isinstance(found, (bool, float, list, dict)) or not str(found).strip():
        raise DataError(f"{where}: expected {key} to be a number or a text, found {found!r}. Correct it.")
    return str(found).strip()


def _name(category: Mapping[str, Any], where: str) -> str:
    name = category.get("name")
    if not isinstance(name, str) or not name.strip():
        raise DataError(f"{where}: expected a name, found {name!r}. Correct the category.")
    return name.strip()


def _size(image: _Image) -> tuple[float, float] | None:
    """Width and height of a picture that boxes are counted in, None where nothing tells them."""
    sides = [image.values.get(key) for key in ("width", "height")]
    stated = [float(side) for side in sides if isinstance(side, (int, float)) and 0 < side <= MAX_PICTURE_PX]
    found = size_if_readable(image.picture.path) if image.picture.is_present else None
    if len(stated) != 2:
        return found
    if found is not None and list(found) != stated:
        raise DataError(
            f"{image.where}: expected {image.picture.name} to have {stated[0]:g} x {stated[1]:g} px as the file "
            f"states, found {found[0]} x {found[1]} px. Boxes count in the stated pixels: use the picture they were "
            "drawn on."
        )
    return stated[0], stated[1]


def _structure(
    annotation: Mapping[str, Any], size: tuple[float, float] | None, categories: Mapping[str, str], where: str
) -> Structure:
    category = _id(annotation, "category_id", where)
    if category not in categories:
        known = ", ".join(categories)
        raise DataError(f"{where}: expected a category_id of {known}, found {category}. Correct the annotation.")
    bbox = annotation.get("bbox")
    try:
        if not isinstance(bbox, list):
            raise TypeError
        x, y, width, height = (float(number) for number in bbox)
    except (TypeError, ValueError, OverflowError):
        raise DataError(
            f"{where}: expected a bbox of x, y, width and height, found {str(bbox)[:60]!r}. Export the boxes too."
        ) from None
    return Structure(categories[category], box_from_corners((x, y, x + width, y + height), size, where))
