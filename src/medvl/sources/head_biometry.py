"""Large-scale fetal head biometry: brain, cavum septi pellucidi and lateral ventricle (Alzubaidi et al., 2023).

Layout as published: four zips, `Trans-thalamic`, `Trans-cerebellum`, `Trans-ventricular` and `Diverse Fetal Head
Images`, each with the pictures at 959 x 661 px and nested zips of the annotations in eleven formats. Read are the
coloured masks, `SegmentationClass/*.png` with a `labelmap.txt` beside it, unpacked into a folder of its own
(`Trans-thalamic-Segmentation`, ...) or straight into the plane's folder. Without them the COCO copy is read,
`annotations/instances_default.json`. CSP is green in the three planes and yellow in the diverse images.

The pictures are brain planes of FETAL_PLANES_DB and pictures of HC18's training set (the only one with repeats such as
`010_2HC`), and their names kept the numbers of patients and subjects: the groups are those of these two sources. FOCUS
and the Ultrasound Fetus Dataset reuse pictures of them too, under numbers of their own, which cannot be compared; there
only the search for near-identical pictures sees it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from medvl.errors import DataError
from medvl.imaging.reading import read_picture
from medvl.sources.fetal_planes_db import FETAL_PLANES_DB
from medvl.sources.hc18 import HC18
from medvl.sources.listing import counted, warn_of, without_structures
from medvl.sources.locate import entry, find_any, find_archives, list_pictures, not_unpacked, subfolders
from medvl.sources.record import Box, Domain, MaskFile, Record, Source, SourceScan, Structure, Task
from medvl.sources.row_checks import file_name_of

Colour = tuple[int, int, int]

BLACK, RED, GREEN, BLUE, YELLOW = (0, 0, 0), (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0)
LABELS = ("Brain", "CSP", "LV")
MASKS = "SegmentationClass"
COCO = "annotations/instances_default.json"

PICTURE_NAME = re.compile(r"(?:Patient(?P<patient>\d+)_.*|(?P<hc18>\d+)_\d?HC)\.png", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Part:
    """One of the four zips.

    Attributes:
        folder: What the zip unpacks to.
        pictures: Folder of the 959 x 661 px pictures in it.
        plane: Raw label of the plane; None where the planes are mixed.
        colours: Structure -> colour in the masks.
    """

    folder: str
    pictures: str
    plane: str | None
    colours: dict[str, Colour]


PARTS = (
    *(
        Part(plane, plane, plane, {"Brain": RED, "CSP": GREEN, "LV": BLUE})
        for plane in ("Trans-thalamic", "Trans-cerebellum", "Trans-ventricular")
    ),
    Part(
        "Diverse Fetal Head Images",
        "Orginal_train_images_to_959_661",  # sic
        None,
        {"Brain": RED, "CSP": YELLOW, "LV": BLUE},
    ),
)


def find(root: Path) -> Path | None:
    """Folder that holds at least one of the four parts, or the archive of one, or None."""
    folder = find_any(root, [f"{part.folder}/{part.pictures}" for part in PARTS])
    if folder is not None:
        return folder
    archives = find_archives(root, [f"{part.folder}.zip" for part in PARTS])
    return archives[0].parent if archives else None


def scan(folder: Path) -> SourceScan:
    """List pictures and masks of the parts that are there. Masks are opened to see whether their colours are known.

    Args:
        folder: Folder that `find` gave.

    Returns:
        One record per picture and per annotation without a picture, part by part, in name order. A picture with a mask
        carries all three structures, whether or not the mask shows them.

    Raises:
        DataError: A picture's name holds no patient and no HC18 number, or a COCO file or label map is broken.
    """
    warnings: list[str] = []
    return SourceScan([record for part in PARTS for record in _scan_part(folder, part, warnings)], warnings)


def _scan_part(folder: Path, part: Part, warnings: list[str]) -> list[Record]:
    home = entry(folder, part.folder)
    if home is None:
        packed = not_unpacked(folder, [f"{part.folder}.zip"], f"the folder {folder / part.folder}. Unpack it there.")
        warnings += packed[:1] or [f"{folder}: no folder {part.folder}; its pictures cannot be counted."]
        return []
    place = entry(home, part.pictures) or home / part.pictures
    files = list_pictures(place, (".png",)).by_lower_case()
    structures = _structures(home, part, warnings)
    # A picture's own spelling of its name comes before that of its annotation.
    names = {name.casefold(): name for name in (*structures, *(path.name for path in files.values()))}
    marked = {name.casefold(): name for name in structures}
    records = [
        _record(part, name, place, files.get(key), structures.get(listed_as, ()), listed_as)
        for key, name in sorted(names.items())
        for listed_as in [marked.get(key, "")]
    ]
    bare = without_structures(records)
    warnings += warn_of(home, bare, "picture", "without an annotation; no structure is asked about.")
    warnings += _warn_of_colours(home, records)
    return records


def _warn_of_colours(home: Path, records: Sequence[Record]) -> list[str]:
    """A sentence about masks of one part with colours that none of its structures has."""
    colours: dict[Path, dict[Colour, str]] = {}
    for structure in (s for record in records if record.is_present for s in record.structures):
        mask = structure.mask
        if mask is not None and mask.colour is not None:
            colours.setdefault(mask.path, {BLACK: "background"})[mask.colour] = structure.label
    with ThreadPoolExecutor() as pool:
        found = dict(zip(colours, pool.map(_unknown_colours, colours, colours.values()), strict=True))
    strange = [path.name for path, unknown in found.items() if unknown]
    if not strange:
        return []
    often = Counter(colour for unknown in found.values() for colour in unknown)
    named = ", ".join(f"{colour} in {count}" for colour, count in often.most_common(3))
    more = f" and {len(often) - 3} more colours" if len(often) > 3 else ""
    known = ", ".join(f"{label} {colour}" for colour, label in next(iter(colours.values())).items())
    return [
        f"{home}: {counted(strange, 'mask')} with colours that stand for nothing ({named}{more}); expected {known}. "
        "What they mark is not asked about: use the masks as published, with their labelmap.txt."
    ]


def _unknown_colours(path: Path, known: dict[Colour, str]) -> set[Colour]:
    try:
        shown = read_picture(path)
    except DataError:  # the build reads every mask again and names the broken ones
        return set()
    codes = (shown[..., 0].astype(np.uint32) << 16) | (shown[..., 1].astype(np.uint32) << 8) | shown[..., 2]
    expected = [red << 16 | green << 8 | blue for red, green, blue in known]
    codes = codes[~np.isin(codes, expected)]
    return {(code >> 16, code >> 8 & 255, code & 255) for code in np.unique(codes).tolist()}


def _record(
    part: Part, name: str, place: Path, picture: Path | None, structures: tuple[Structure, ...], listed_as: str
) -> Record:
    name = re.sub(r"\.png$", ".png", name, flags=re.IGNORECASE)
    where = f"{part.folder}/{part.pictures}/{name}"
    match = PICTURE_NAME.fullmatch(name)
    if match is None:
        raise DataError(
            f"{where}: expected a name such as Patient00168_Plane3_1_of_3.png or 010_HC.png, which tells the patient. "
            "Give the file its published name or remove it."
        )
    return Record(
        source=HEAD_BIOMETRY.name,
        record_id=where,
        picture=picture or place / name,
        group=f"{FETAL_PLANES_DB.name}:{match['patient']}" if match["patient"] else f"{HC18.name}:{match['hc18']}",
        domain=Domain.CLINICAL,
        labels={Task.PI: part.plane} if part.plane else {},
        structures=structures,
        is_present=picture is not None,
        where=where,
        listed_as=listed_as,
    )


def _structures(home: Path, part: Part, warnings: list[str]) -> dict[str, tuple[Structure, ...]]:
    """Picture name as the annotation writes it -> structures, from the masks, else from the COCO copy."""
    masks = next(_inside(home, MASKS), None)
    if masks is not None:
        colours = part.colours | _label_map(masks.parent)
        return {
            path.name: tuple(
                Structure(label, mask=MaskFile(path, colour=colours[label], may_be_empty=True)) for label in LABELS
            )
            for path in list_pictures(masks, (".png",)).by_lower_case().values()
        }
    coco = next(_inside(home, COCO), None)
    if coco is not None:
        return _read_coco(coco)
    archives = find_archives(home, ["segmentation", "coco"], depth=0)
    what = f"{archives[0].name} is not unpacked" if archives else "there are no masks"
    warnings.append(f"{home}: {what}: expected a folder {MASKS} or the file {COCO}. Unpack the segmentation masks.")
    return {}


def _inside(home: Path, relative: str) -> Iterator[Path]:
    """This file or folder in a part's folder or one level below; folders of masks before those of other formats."""
    for place in (
        home,
        *sorted(subfolders(home), key=lambda path: ("segmentation" not in path.name.casefold(), path.name)),
    ):
        found = entry(place, relative)
        if found is not None:
            yield found


def _label_map(folder: Path) -> dict[str, Colour]:
    """Structure -> colour as the annotation tool wrote them (`CSP:0,255,0::`); empty without such a file."""
    path = entry(folder, "labelmap.txt")
    if path is None:
        return {}
    colours = {}
    known = {label.casefold(): label for label in LABELS}
    for number, line in enumerate(path.read_text("utf-8-sig", errors="replace").splitlines(), start=1):
        label, _, rest = line.partition(":")
        if label.strip().casefold() not in known:
            continue
        match = re.fullmatch(r"\s*(\d{1,3})\s*,\s*(\d{1,3})\s*,\s*(\d{1,3})\s*", rest.partition(":")[0])
        if match is None or any(int(level) > 255 for level in match.groups()):
            raise DataError(
                f"{path} line {number}: expected a label and its colour such as CSP:0,255,0::, found {line!r}. "
                "Use the file as published."
            )
        colours[known[label.strip().casefold()]] = (int(match[1]), int(match[2]), int(match[3]))
    return colours


def _read_coco(path: Path) -> dict[str, tuple[Structure, ...]]:
    structures: dict[str, list[Structure]] = {}
    try:
        content = json.loads(path.read_text("utf-8-sig"))
        labels = {category["id"]: category["name"] for category in content["categories"]}
        images = {image["id"]: image for image in content["images"]}
        names = {key: file_name_of(image["file_name"]) for key, image in images.items()}
        for annotation in content["annotations"]:
            where = f"{path}, annotation {annotation['id']}"
            image, label = images.get(annotation["image_id"]), labels.get(annotation["category_id"])
            if image is None or label not in LABELS:
                raise DataError(
                    f"{where}: expected a listed image and one of the categories {', '.join(LABELS)}, "
                    f"found image {annotation['image_id']!r} and {label!r}. Use the file as published."
                )
            size = (int(image["width"]), int(image["height"]))
            box = _coco_box([float(number) for number in annotation["bbox"]], size, where)
            structures.setdefault(names[image["id"]], []).append(Structure(label, bbox_xyxy_px=box))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path}: expected COCO annotations (images, annotations, categories), found {error!r}. "
            "Unpack the file again."
        ) from error
    return {name: tuple(structures.get(name, ())) for name in names.values()}


def _coco_box(bbox: list[float], size: tuple[int, int], where: str) -> Box:
    x, y, width, height = bbox
    if not (0 <= x < x + width <= size[0] and 0 <= y < y + height <= size[1]):
        raise DataError(
            f"{where}: expected a box inside the picture ({size[0]} x {size[1]} px), found x {x:g}, y {y:g}, "
            f"{width:g} x {height:g} px. Use the file as published."
        )
    return x, y, x + width, y + height


HEAD_BIOMETRY = Source(
    name="head_biometry",
    title="Large-scale annotation dataset for fetal head biometry in ultrasound images",
    homepage="https://zenodo.org/records/8265464",
    licence="CC BY 4.0",
    is_redistributable=True,
    published_pictures=3832,
    group_rule="The patient number of FETAL_PLANES_DB or the subject number of HC18 in the file name (Patient00168, "
    "010_HC); one group with the same patient or subject in these sources.",
    citation="Alzubaidi et al., Large-scale annotation dataset for fetal head biometry in ultrasound images, "
    "Data in Brief 51: 109708, 2023",
    tasks=(Task.PI, Task.VG),
    find=find,
    scan=scan,
    flaws=(
        "The pictures are those of FETAL_PLANES_DB (brain planes) and HC18 (training set) at another size: built "
        "together with them, each patient stays on one side, but the benchmark holds most of these pictures twice.",
        "CSP is green in the masks of the three planes and yellow in those of the diverse images.",
    ),
    shares_groups_with=(FETAL_PLANES_DB.name, HC18.name),
)
"""The source. It publishes no split."""
