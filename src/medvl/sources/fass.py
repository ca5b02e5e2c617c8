"""FASS: fetal abdominal structures segmentation, 2D ultrasound of the abdominal circumference plane.

Layout as published: a zip inside a zip, then `Fetal Abdominal Structures Segmentation Dataset Using Ultrasonic Images/`
with `IMAGES/P<id>_IMG<n>.png` and `ARRAY_FORMAT/P<id>_IMG<n>.npy`. Each array file is a pickled dictionary
`{image, structures: {artery, liver, stomach, vein}}`; a structure that a picture lacks has an array of zeros. Copies
without the titled folder are in use too.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from medvl.sources.listing import warn_of, without_structures
from medvl.sources.locate import entry, find_folder, find_inside, holds, list_pictures, not_unpacked, or_archive
from medvl.sources.record import Domain, MaskFile, Record, Source, SourceScan, Structure, Task

FOLDER = "Fetal Abdominal Structures Segmentation Dataset Using Ultrasonic Images"
PICTURES = "IMAGES"
MASKS = "ARRAY_FORMAT"
ARCHIVES = (FOLDER, "4gcpm9dsc3", "fass.zip")
"""Words in the name of the archive: its title, its number at the publisher, what users call it."""
STRUCTURES = ("artery", "liver", "stomach", "vein")

PICTURE_NAME = re.compile(r"(?P<patient>P\d+)_IMG\d+", re.IGNORECASE)


def find(root: Path) -> Path | None:
    """Folder that holds pictures and arrays, or the archive that would hold them, or None."""
    home = find_folder(root, [PICTURES, MASKS]) or find_inside(root, FOLDER, [PICTURES])
    return or_archive(home, root, ARCHIVES)


def scan(folder: Path) -> SourceScan:
    """List the pictures; arrays are not opened.

    Args:
        folder: Folder that `find` gave.

    Returns:
        One record per picture and per array without a picture, in name order. A record with an array carries all four
        structures, whether or not the array marks them. No record and a warning where only the archive is there.
    """
    if not holds(folder, PICTURES) and not holds(folder, MASKS):
        expected = f"the folders {PICTURES} and {MASKS}. Unpack it there, and the archive inside it."
        return SourceScan([], not_unpacked(folder, ARCHIVES, expected))
    warnings: list[str] = []
    pictures, arrays = _stems(folder, PICTURES, ".png", warnings), _stems(folder, MASKS, ".npy", warnings)
    # The picture's own spelling of a name comes before that of its array.
    names = {stem.casefold(): stem for stem in (*arrays, *pictures)}
    groups = _groups({_patient(name) for name in names.values()}, warnings)
    picture_of = {stem.casefold(): path for stem, path in pictures.items()}
    array_of = {stem.casefold(): path for stem, path in arrays.items()}
    records = [
        _record(folder, name, picture_of.get(key), array_of.get(key), groups[_patient(name)])
        for key, name in sorted(names.items())
    ]
    bare = without_structures(records)
    warnings += warn_of(folder, bare, "picture", "without an array; no question is asked on them.")
    return SourceScan(records, warnings)


def _stems(folder: Path, part: str, ending: str, warnings: list[str]) -> dict[str, Path]:
    """Name without extension -> file, for one of the two folders; warns of archives and of foreign names."""
    home = entry(folder, part) or folder / part
    files = list_pictures(home, (ending,)).by_lower_case()
    if not files:
        advice = "Unpack it there, and the archive inside it."
        warnings += not_unpacked(folder, [part, *ARCHIVES], f"the folder {home}. {advice}")[:1]
    stems = {path.stem: path for path in files.values()}
    strangers = [path.name for stem, path in stems.items() if not PICTURE_NAME.fullmatch(stem)]
    warnings += warn_of(home, strangers, "file", "not named as the dataset names its files; left out.")
    return {stem: path for stem, path in stems.items() if PICTURE_NAME.fullmatch(stem)}


def _patient(name: str) -> str:
    return name.partition("_")[0]


def _groups(patients: Iterable[str], warnings: list[str]) -> dict[str, str]:
    """Patient as written -> group.

    Group ids are compared without leading zeros, so ids that differ in nothing else get their number of digits added.
    """
    spellings: dict[int, list[str]] = defaultdict(list)
    for patient in sorted(patients, key=lambda name: (len(name), name)):
        spellings[int(patient[1:])].append(patient)
    groups = {}
    for alike in spellings.values():
        different = len({len(patient) for patient in alike}) > 1
        if different:
            warnings.append(
                f"{' and '.join(alike)} both occur and count as different patients. "
                "If they are one patient, give her pictures one spelling."
            )
        for patient in alike:
            groups[patient] = f"{patient} with {len(patient) - 1} digits" if different else patient
    return groups


def _record(folder: Path, name: str, picture: Path | None, array: Path | None, group: str) -> Record:
    structures = () if array is None else tuple(_structure(label, array) for label in STRUCTURES)
    listed_as = "" if array is None or picture is None else f"{array.stem}{picture.suffix}"
    return Record(
        source=FASS.name,
        record_id=f"{PICTURES}/{name}.png",
        picture=picture or folder / PICTURES / f"{name}.png",
        group=group,
        domain=Domain.CLINICAL,
        structures=structures,
        is_present=picture is not None,
        where=f"{PICTURES}/{name}.png",
        listed_as=listed_as,
    )


def _structure(label: str, array: Path) -> Structure:
    return Structure(label, mask=MaskFile(array, array=f"structures/{label}", may_be_empty=True))


FASS = Source(
    name="fass",
    title="FASS: Fetal abdominal structures segmentation dataset using ultrasonic images",
    homepage="https://data.mendeley.com/datasets/4gcpm9dsc3/1",
    licence="CC BY 4.0",
    is_redistributable=True,
    published_pictures=1588,
    group_rule="The patient: what a file name starts with (P01_IMG1 and P01_IMG2 are one patient).",
    citation="Fetal Abdominal Structures Segmentation Dataset Using Ultrasonic Images, Mendeley Data V1, "
    "doi:10.17632/4gcpm9dsc3.1",
    tasks=(Task.VG,),
    find=find,
    scan=scan,
    flaws=("Patient ids are written with different numbers of digits (P01, P0149).",),
)
"""The source. It publishes no split."""
