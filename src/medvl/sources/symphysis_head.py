"""What PSFHS and FH-PS-AOP share: pairs of MetaImage files that mark pubic symphysis and fetal head.

Layout as published: `image_mha/NNNNN.mha` (3 x 256 x 256, three equal channels) and `label_mha/NNNNN.mha` (256 x 256; 0
background, 1 pubic symphysis, 2 fetal head). Nothing inside the folders tells the two datasets apart but the numbers:
the challenge numbered 5,101 pictures, FH-PS-AOP is its training set (1 to 4000) and PSFHS begins at 3744.
"""

from __future__ import annotations

import re
from pathlib import Path

from medvl.sources.files import one_of
from medvl.sources.listing import warn_of, without_structures
from medvl.sources.locate import entry, find_where, holds, list_files, not_unpacked, or_archive
from medvl.sources.record import Domain, MaskFile, Record, SourceScan, Structure

IMAGES, LABELS = "image_mha", "label_mha"
LEVELS = {"pubic symphysis": 1, "fetal head": 2}
"""Raw label, as the description names it, -> level in the masks."""
FIRST_OF_PSFHS = 3744

ARCHIVES = {"psfhs": ("psfhs",), "fh_ps_aop": ("fh-ps-aop", "fh_ps_aop", "pubic symphysis-fetal head")}
"""Source -> words in the name of its archive."""

PICTURE_NAME = re.compile(r"\d+\.mha", re.IGNORECASE)


def find_pairs(root: Path, source: str) -> Path | None:
    """Folder of one of the two datasets, at most two levels below the root, or with its archive, or None.

    Args:
        root: Data root.
        source: `psfhs` or `fh_ps_aop`.
    """
    folder = find_where(root, lambda home: holds(home, IMAGES) and _dataset(home, root) == source)
    return or_archive(folder, root, ARCHIVES[source])


def scan_pairs(folder: Path, source: str, neighbours: int) -> SourceScan:
    """List pictures and masks; neither is opened.

    Args:
        folder: Folder that holds `image_mha` and `label_mha`.
        source: Name of the source.
        neighbours: Pictures with neighbouring numbers that share a group.

    Returns:
        One record per picture and per mask without a picture, in order of their numbers. No record and a warning where
        only the archive is there.
    """
    if not holds(folder, IMAGES) and not holds(folder, LABELS):
        expected = f"the folder {folder / IMAGES}. Unpack it there."
        return SourceScan([], not_unpacked(folder, ARCHIVES[source], expected))
    warnings: list[str] = []
    images, masks = (_numbered(folder, part, warnings) for part in (IMAGES, LABELS))
    records = []
    for number in sorted(images.keys() | masks.keys()):
        name, first = _name(number), number // neighbours * neighbours
        picture, mask = images.get(number), masks.get(number)
        records.append(
            Record(
                source=source,
                record_id=f"{IMAGES}/{name}",
                picture=picture or folder / IMAGES / name,
                group=f"{first} to {first + neighbours - 1}",
                domain=Domain.CLINICAL,
                structures=() if mask is None else _structures(mask),
                is_present=picture is not None,
                where=f"{IMAGES}/{name}",
            )
        )
    bare = without_structures(records)
    warnings += warn_of(folder, bare, "picture", "without a mask; no question is asked on them.")
    return SourceScan(records, warnings)


def _dataset(home: Path, root: Path) -> str | None:
    """Which of the two a folder holds: by the names of the folders around it, else by its numbers, else None."""
    for place in (home, *home.parents):
        name = re.sub(r"[^a-z]", "", place.name.casefold())
        if "fhpsaop" in name or "psfhaop" in name or "angleofprogression" in name:
            return "fh_ps_aop"
        if "psfhs" in name:
            return "psfhs"
        if place == root.absolute():
            break
    files = list_files(entry(home, IMAGES) or home)
    numbers = [_number(name) for name in files if PICTURE_NAME.fullmatch(name)]
    if not numbers:
        return None
    return "psfhs" if min(numbers) >= FIRST_OF_PSFHS else "fh_ps_aop"


def _numbered(folder: Path, part: str, warnings: list[str]) -> dict[int, Path]:
    """Number -> file of one of the two folders."""
    home = entry(folder, part) or folder / part
    files = list_files(home)
    if not files:
        warnings += not_unpacked(folder, [part], f"the folder {home}. Unpack it there.")[:1]
    alike: dict[int, list[Path]] = {}
    for name, path in files.items():
        if PICTURE_NAME.fullmatch(name):
            alike.setdefault(_number(name), []).append(path)
    found = {number: one_of(paths, _name(number), str(home)) for number, paths in alike.items()}
    strangers = files.unused(set(found.values()))
    warnings += warn_of(home, strangers, "file", "not named as the dataset names its files; left out.")
    return found


def _number(name: str) -> int:
    return int(name.partition(".")[0])


def _name(number: int) -> str:
    return f"{number:05d}.mha"


def _structures(mask: Path) -> tuple[Structure, ...]:
    return tuple(Structure(label, mask=MaskFile(mask, level)) for label, level in LEVELS.items())
