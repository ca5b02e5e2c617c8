"""FOCUS: fetal four-chamber views with heart and thorax marked, 2D ultrasound.

Layout as published: `training`, `validation` and `testing`, each with `images/NNN.png` and three copies of the
annotation: `annfiles_rectangle/NNN.txt` (eight corner numbers, class, difficulty), `annfiles_ellipse/NNN.txt` (centre,
half axes, degrees, class) and `annfiles_mask/NNN-cardiac.png`, `NNN-thorax.png`. Numbers restart in each folder.
Rectangles and ellipses of a thorax may reach beyond the picture; they are cut at its border.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

from medvl.errors import DataError
from medvl.sources.listing import warn_of, without_structures
from medvl.sources.locate import entry, find_any, list_files, list_pictures, not_unpacked, or_archive
from medvl.sources.record import Box, Domain, MaskFile, Record, Source, SourceScan, Split, Structure, Task
from medvl.sources.sizes import size_if_readable

# The benchmark carves its own validation part from the training side.
SETS = {"training": Split.TRAIN, "validation": Split.TRAIN, "testing": Split.TEST}
RECTANGLES, ELLIPSES, MASKS = "annfiles_rectangle", "annfiles_ellipse", "annfiles_mask"
LABELS = ("cardiac", "thorax")
ARCHIVES = ("focus-dataset", "focus_dataset", "14597550")
"""Words in the name of the archive: its title, its number at the publisher."""

PICTURE_NAME = re.compile(r"\d+\.png", re.IGNORECASE)


def find(root: Path) -> Path | None:
    """Folder with the annotations of a set, at most two levels below the root, or with the archive, or None."""
    folder = find_any(root, [f"{name}/{kind}" for name in SETS for kind in (RECTANGLES, ELLIPSES, MASKS)])
    return or_archive(folder, root, ARCHIVES)


def scan(folder: Path) -> SourceScan:
    """Read the annotation files of all sets.

    A structure is taken from the ellipses, without these from the masks, without these from the rectangles.

    Args:
        folder: Folder that `find` gave.

    Returns:
        One record per picture and per annotation without a picture, set by set, in name order. No record and a warning
        where only the archive is there.

    Raises:
        DataError: A line of an annotation file cannot be read, names an unknown class, or marks nothing of the picture.
    """
    if not any(entry(folder, name) for name in SETS):
        return SourceScan([], not_unpacked(folder, ARCHIVES, f"the folders {', '.join(SETS)}. Unpack it there."))
    warnings: list[str] = []
    return SourceScan([record for name in SETS for record in _scan_set(folder, name, warnings)], warnings)


def _scan_set(folder: Path, set_name: str, warnings: list[str]) -> list[Record]:
    home = entry(folder, set_name) or folder / set_name
    places = {part: entry(home, part) or home / part for part in ("images", RECTANGLES, ELLIPSES, MASKS)}
    found = {part: list_files(place) for part, place in places.items()} | {"images": list_pictures(places["images"])}
    files = {part: names.by_lower_case() for part, names in found.items()}
    if not any(files.values()):
        packed = not_unpacked(folder, [set_name], f"the folder {home}. Unpack it there.")
        warnings += packed[:1] or [f"{folder}: no folder {set_name}; its pictures cannot be counted."]
    numbers = {name[:-4] for name in files["images"] if PICTURE_NAME.fullmatch(name)}
    numbers |= {re.split(r"[.-]", name)[0] for part in (RECTANGLES, ELLIPSES, MASKS) for name in files[part]}
    records = [_record(home, set_name, number, files) for number in sorted(numbers) if number.isdecimal()]
    bare = without_structures(records)
    warnings += warn_of(home, bare, "picture", "without an annotation; no question is asked on them.")
    strangers = [path.name for name, path in files["images"].items() if not PICTURE_NAME.fullmatch(name)]
    warnings += warn_of(places["images"], strangers, "picture", "not named as the dataset names them; left out.")
    return records


def _record(home: Path, set_name: str, number: str, files: dict[str, dict[str, Path]]) -> Record:
    picture = files["images"].get(f"{number}.png")
    return Record(
        source=FOCUS.name,
        record_id=f"{set_name}/images/{number}.png",
        picture=picture or home / "images" / f"{number}.png",
        group=f"{set_name}_{number}",
        domain=Domain.CLINICAL,
        structures=_structures(number, picture, files),
        official_split=SETS[set_name],
        is_present=picture is not None,
        where=f"{set_name}/images/{number}.png",
    )


def _structures(number: str, picture: Path | None, files: dict[str, dict[str, Path]]) -> tuple[Structure, ...]:
    size = None if picture is None else size_if_readable(picture)
    ellipses, rectangles = (files[part].get(f"{number}.txt") for part in (ELLIPSES, RECTANGLES))
    if ellipses is not None:
        return tuple(_read_lines(ellipses, 6, size))
    masks = [(label, files[MASKS].get(f"{number}-{label}.png")) for label in LABELS]
    if any(path is not None for _, path in masks):
        return tuple(Structure(label, mask=MaskFile(path)) for label, path in masks if path is not None)
    # The box around a turned rectangle is up to 1.4 times as wide and high as what it holds.
    return () if rectangles is None else tuple(_read_lines(rectangles, 10, size))


def _read_lines(path: Path, columns: int, size: tuple[int, int] | None) -> list[Structure]:
    try:
        lines = path.read_text("utf-8-sig", errors="replace").splitlines()
    except OSError as error:
        reason = error.strerror or error
        raise DataError(f"{path}: the annotation cannot be opened ({reason}). Complete the copy.") from error
    structures = []
    for number, line in enumerate(lines, start=1):
        fields = line.split()
        if not fields:
            continue
        where = f"{path.parent.parent.name}/{path.parent.name}/{path.name} line {number}"
        numbers, label = _numbers_and_label(fields, columns, where)
        box = _around_corners(numbers) if columns == 10 else _around_ellipse(numbers)
        structures.append(Structure(label, bbox_xyxy_px=_clip(box, size, where)))
    return structures


def _numbers_and_label(fields: list[str], columns: int, where: str) -> tuple[list[float], str]:
    first = 8 if columns == 10 else 5
    try:
        numbers = [float(field) for field in fields[:first]]
    except ValueError:
        numbers = []
    if len(fields) != columns or len(numbers) != first or not all(map(math.isfinite, numbers)):
        form = "8 corner numbers, class and difficulty" if columns == 10 else "centre, half axes, degrees and class"
        raise DataError(f"{where}: expected {form}, found {' '.join(fields)[:60]!r}. Use the file as published.")
    if fields[first] not in LABELS:
        raise DataError(
            f"{where}: expected the class {' or '.join(LABELS)}, found {fields[first][:60]!r}. "
            "Use the file as published."
        )
    return numbers, fields[first]


def _around_corners(numbers: list[float]) -> Box:
    xs, ys = numbers[0::2], numbers[1::2]
    return min(xs), min(ys), max(xs), max(ys)


def _around_ellipse(numbers: list[float]) -> Box:
    x, y, a, b, degrees = numbers
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    half_width, half_height = math.hypot(a * cos, b * sin), math.hypot(a * sin, b * cos)
    return x - half_width, y - half_height, x + half_width, y + half_height


def _clip(box: Box, size: tuple[int, int] | None, where: str) -> Box:
    """The part of a box inside the picture; one of unknown size has no right and lower border."""
    width, height = size or (math.inf, math.inf)
    x0, y0, x1, y1 = max(box[0], 0.0), max(box[1], 0.0), min(box[2], width), min(box[3], height)
    if x0 >= x1 or y0 >= y1:
        found = ", ".join(f"{edge:g}" for edge in box)
        raise DataError(
            f"{where}: expected a box that lies in the picture ({width} x {height} px), found ({found}). "
            "Use the annotation and the picture of the same number and set."
        )
    return x0, y0, x1, y1


FOCUS = Source(
    name="focus",
    title="FOCUS: Four-chamber ultrasound image dataset for fetal cardiac biometric measurement",
    homepage="https://zenodo.org/records/14597550",
    licence="CC BY 4.0",
    is_redistributable=True,
    published_pictures=300,
    group_rule="The picture, by set and number: no patient is named.",
    citation="FOCUS: Four-chamber Ultrasound Image Dataset for Fetal Cardiac Biometric Measurement, Zenodo, "
    "doi:10.5281/zenodo.14597550",
    tasks=(Task.VG,),
    find=find,
    scan=scan,
    has_usable_official_split=True,
    flaws=(
        "The 300 pictures come from 217 patients who are not named, so a patient may lie on both sides of the split.",
        "The pictures were selected from FETAL_PLANES_DB under new numbers: a patient of that source may be among "
        "these. Only equal pictures are found by the leak audit.",
        "Its rectangles are turned: a copy without ellipses and masks gives boxes up to 1.4 times as wide and high as "
        "the structures.",
    ),
)
"""The source. Its official validation set counts as training, because the benchmark carves its own."""
