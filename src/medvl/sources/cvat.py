"""CVAT for images 1.1: the boxes and tags of many pictures in one XML file.

Read by defusedxml, because a file from elsewhere must not make the reader open other files or fill its memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element

from defusedxml import DefusedXmlException  # type: ignore[import-untyped]
from defusedxml.ElementTree import ParseError, parse  # type: ignore[import-untyped]

from medvl.errors import DataError

EDGES = ("xtl", "ytl", "xbr", "ybr")
"""Attributes of a box in the order x0, y0, x1, y1; pixels, origin top left."""


@dataclass(frozen=True, slots=True)
class CvatBox:
    """One box.

    Attributes:
        label: As written.
        bbox_xyxy_px: Pixels, origin top left, half-open.
    """

    label: str
    bbox_xyxy_px: tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class CvatTag:
    """One tag of a whole picture.

    Attributes:
        label: As written.
        attributes: Name -> text without blanks at its ends.
    """

    label: str
    attributes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CvatImage:
    """One picture as the file describes it.

    Attributes:
        name: File name as written, with folders where the export has them.
        width: Pixels.
        height: Pixels.
        boxes: In file order.
        tags: In file order; the same tag may be there twice.
    """

    name: str
    width: int
    height: int
    boxes: tuple[CvatBox, ...]
    tags: tuple[CvatTag, ...]

    def tag_values(self, label: str, attribute: str) -> list[str]:
        """Different values that this attribute has in the tags of this label, in file order."""
        values = [tag.attributes[attribute] for tag in self.tags if tag.label == label and attribute in tag.attributes]
        return list(dict.fromkeys(values))


def read_cvat(path: Path) -> list[CvatImage]:
    """Read one file.

    Args:
        path: An `annotations.xml`.

    Returns:
        Images in file order (exports often run backwards).

    Raises:
        DataError: The file is absent, no whole XML, no CVAT for images, declares a document type or entities, names an
            image twice, or has a box without area or outside its image.
    """
    root = _parse(path)
    if root.tag != "annotations" or root.find("track") is not None:
        found = f"<{root.tag}>" if root.tag != "annotations" else "tracks of a video"
        raise DataError(
            f"{path}: expected CVAT for images 1.1 (<annotations> with <image> elements), found {found}. "
            "Export the task in this format or use the file as published."
        )
    images = [_image(element, path) for element in root.findall("image")]
    seen: set[str] = set()
    for image in images:
        if image.name in seen:
            raise DataError(f"{_where(path)}: expected each image once, found {image.name} again. Correct {path}.")
        seen.add(image.name)
    return images


def _parse(path: Path) -> Element:
    try:
        # The parser is untyped; what it gives is an Element.
        root: Element = parse(path, forbid_dtd=True).getroot()
    except DefusedXmlException as error:
        raise DataError(
            f"{path}: expected plain XML, found a document type or entities ({type(error).__name__}), which may open "
            "other files. CVAT writes neither: use the file as published."
        ) from error
    except OSError as error:
        reason = error.strerror or error
        raise DataError(f"{path}: the file cannot be opened ({reason}). Complete the copy of the dataset.") from error
    except (ParseError, LookupError, ValueError) as error:
        raise DataError(
            f"{path}: expected a whole XML file, found {error}. Download or copy this file again."
        ) from error
    return root


def _where(path: Path) -> str:
    """All files of a dataset are called alike; their folder tells them apart."""
    return f"{path.parent.name}/{path.name}"


def _image(element: Element, path: Path) -> CvatImage:
    name = element.get("name", "").strip()
    if not name:
        raise DataError(f"{_where(path)}: expected a name for each image, found none in image {element.get('id')!r}.")
    where = f"{_where(path)}, {name}"
    width, height = (_number(element, attribute, where, path) for attribute in ("width", "height"))
    if not (width >= 1 and height >= 1 and width.is_integer() and height.is_integer()):
        raise DataError(
            f"{where}: expected width and height in whole pixels, found {width:g} x {height:g}. Correct {path}."
        )
    boxes = tuple(_box(box, int(width), int(height), where, path) for box in element.findall("box"))
    tags = tuple(_tag(tag) for tag in element.findall("tag"))
    return CvatImage(name, int(width), int(height), boxes, tags)


def _box(element: Element, width: int, height: int, where: str, path: Path) -> CvatBox:
    label = element.get("label", "").strip()
    x0, y0, x1, y1 = (_number(element, edge, f"{where}, box {label!r}", path) for edge in EDGES)
    if not (0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height):
        raise DataError(
            f"{where}: expected a box {label!r} with an area inside {width} x {height} px, "
            f"found x {x0:g} to {x1:g}, y {y0:g} to {y1:g}. Correct this box in {path} or use the file as published."
        )
    return CvatBox(label, (x0, y0, x1, y1))


def _tag(element: Element) -> CvatTag:
    values = {item.get("name", ""): (item.text or "").strip() for item in element.findall("attribute")}
    return CvatTag(element.get("label", "").strip(), values)


def _number(element: Element, attribute: str, where: str, path: Path) -> float:
    text = element.get(attribute)
    try:
        number = float(text or "")
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise DataError(f"{where}: expected a number as {attribute}, found {text!r}. Correct {path}.")
    return number
