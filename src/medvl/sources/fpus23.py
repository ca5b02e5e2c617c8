"""FPUS23: an ultrasound fetus phantom at 23 weeks (Prabakaran et al., 2023).

Two layouts are in use, and both may lie in one folder:

- the archive: `Dataset/four_poses/<stream>/frame_NNNNNN.png`, tags in
  `Dataset/annos/annotation/<stream>/annotations.xml`, boxes in `Dataset/boxes/annotation/<stream>/annotations.xml`, and
  `Dataset_Plane/{AC,BPD,FL,NO}_PLANE/*.png`; copies carry it in a folder `archive`;
- the repository: `annotation/<stream>/annotations.xml` with tags and boxes together, without pictures.

A stream is one recording, named `stream_<pose>_<region>_<h or v>`; one name is misspelt (`aroundsbd`). The files name
frames backwards, some tag a frame twice with the same pose, and the `longrec` streams have no boxes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from medvl.errors import DataError
from medvl.sources.cvat import CvatImage, read_cvat
from medvl.sources.files import Files, one_of
from medvl.sources.listing import warn_of
from medvl.sources.locate import entry, find_where, holds, list_pictures, not_unpacked, or_archive, subfolders
from medvl.sources.record import Domain, Record, Source, SourceScan, Structure, Task
from medvl.sources.row_checks import check_known, file_name_of
from medvl.sources.sizes import size_if_readable

POSES = ("hdvb", "hdvf", "huvb", "huvf")
BOX_LABELS = ("head", "abdomen", "arm", "legs")
PLANES = ("AC_PLANE", "BPD_PLANE", "FL_PLANE")
NO_PLANE = "NO_PLANE"

FILE = "annotations.xml"
ARCHIVES = ("fpus",)
"""Words in the name of an archive of all parts."""
USE_AS_PUBLISHED = "Correct the file or use it as published."
FRAME_NAME = re.compile(r"frame_(\d{1,9})\.png", re.IGNORECASE)
STREAM_NAME = re.compile(rf"stream_(?P<pose>{'|'.join(POSES)})_[a-z]+_[hv]", re.IGNORECASE)
LAST_NUMBER = re.compile(r"(?P<before>.*?)(?P<number>\d+)\D*")

BLOCK = 100
"""Plane pictures of consecutive numbers that share a group."""


@dataclass(frozen=True, slots=True)
class _Stream:
    """Where the parts of one stream lie; a part that the copy lacks is None."""

    name: str
    pictures: Path | None
    tags: Path | None
    boxes: Path | None


def find(root: Path) -> Path | None:
    """Folder of either layout, at most two levels below the root, or with the archive, or None."""
    return or_archive(find_where(root, _holds_dataset), root, ARCHIVES)


def scan(folder: Path) -> SourceScan:
    """Read all annotation files and look for their pictures.

    Args:
        folder: Folder that `find` gave.

    Returns:
        One record per frame, streams in name order and frames in the order of their numbers, then one per plane
        picture. A frame carries its pose (FO) and its boxes (VG), a plane picture its plane (PI; none for `NO_PLANE`).

    Raises:
        DataError: An annotation file is broken, a frame has two poses, or a label is unknown.
    """
    warnings: list[str] = []
    records: list[Record] = []
    for stream in _streams(folder, warnings):
        records += _scan_stream(folder, stream, warnings)
    planes = _scan_planes(folder, warnings)
    if not any(record.is_present for record in [*records, *planes]):
        words = [*ARCHIVES, "archive", "dataset", "four_poses"]
        warnings += not_unpacked(folder, words, "pictures, found none. Unpack it there.")[:1]
    return SourceScan(records + planes, warnings)


def _holds_dataset(folder: Path) -> bool:
    names = ("Dataset_Plane", "four_poses", "annos/annotation", "boxes/annotation")
    if any(holds(folder, f"{base}{name}") for base in ("", "Dataset/") for name in names):
        return True
    streams = subfolders(folder / "annotation")
    return any(path.name.startswith("stream_") and holds(path, FILE) for path in streams)


def _streams(folder: Path, warnings: list[str]) -> list[_Stream]:
    links: list[str] = []

    def places(*names: str) -> dict[str, Path]:
        """Stream -> its folder; where several layouts have it, the one named first."""
        tried = [entry(folder, f"{base}{name}") for name in names for base in ("Dataset/", "archive/Dataset/", "")]
        found: dict[str, Path] = {}
        for home in reversed([place for place in tried if place is not None]):
            found |= {path.name: path for path in subfolders(home, folder, links)}
        return found

    pictures = places("four_poses", "annotation")
    tags = {name: entry(place, FILE) for name, place in places("annos/annotation", "annotation").items()}
    boxes = {name: entry(place, FILE) for name, place in places("boxes/annotation", "annotation").items()}
    streams = [
        _Stream(name, pictures.get(name), tags.get(name), boxes.get(name))
        for name in sorted(pictures.keys() | tags.keys() | boxes.keys())
    ]
    warnings += dict.fromkeys(links)
    bare = [stream.name for stream in streams if stream.tags is None and stream.boxes is None]
    warnings += warn_of(folder, bare, "stream", f"without {FILE}; no question is asked on them.")
    return streams


def _scan_stream(folder: Path, stream: _Stream, warnings: list[str]) -> list[Record]:
    tagged = _read_frames(stream.tags)
    boxed = tagged if stream.boxes == stream.tags else _read_frames(stream.boxes)
    listed = tagged.keys() | boxed.keys()
    files = Files({}) if stream.pictures is None else list_pictures(stream.pictures)
    on_disk = _frames_on_disk(stream.name, files)
    records = {
        number: _frame_record(folder, stream, number, tagged.get(number), boxed.get(number), on_disk.get(number))
        for number in sorted(listed | on_disk.keys())
    }
    if not _have_their_size(tagged | boxed, on_disk, warnings):
        records = {number: replace(record, structures=()) for number, record in records.items()}
    if listed:
        _warn_of_labels(stream, records, listed, warnings)
    strangers = files.unused(set(on_disk.values()))
    warnings += warn_of(stream.name, strangers, "picture", "not named as the frames are; left out.")
    return list(records.values())


def _frames_on_disk(stream: str, files: Files) -> dict[int, Path]:
    """Frame number -> picture; of several spellings the published one."""
    alike: dict[int, list[Path]] = {}
    for name, path in files.items():
        if match := FRAME_NAME.fullmatch(name):
            alike.setdefault(int(match[1]), []).append(path)
    return {number: one_of(paths, _frame_name(number), stream) for number, paths in alike.items()}


def _frame_name(number: int) -> str:
    return f"frame_{number:06d}.png"


def _have_their_size(frames: Mapping[int, CvatImage], on_disk: Mapping[int, Path], warnings: list[str]) -> bool:
    """Whether boxes are counted in the pixels of the pictures. Copies are resized as a whole or not at all."""
    for number, image in sorted(frames.items()):
        size = size_if_readable(on_disk[number]) if number in on_disk and image.boxes else None
        if size is None:
            continue
        if size == (image.width, image.height):
            return True
        warnings.append(
            f"{on_disk[number]} has {size[0]} x {size[1]} px, its boxes are counted in {image.width} x {image.height} "
            "px: no box of this stream is used. Copy the pictures as published."
        )
        return False
    return True


def _warn_of_labels(
    stream: _Stream, records: Mapping[int, Record], listed: Collection[int], warnings: list[str]
) -> None:
    unlisted = [record.picture.name for number, record in records.items() if number not in listed]
    warnings += warn_of(stream.name, unlisted, "picture", f"that {FILE} does not name; left unlabelled.")
    poses = {number: record.labels.get(Task.FO) for number, record in records.items() if number in listed}
    untagged = [records[number].picture.name for number, pose in poses.items() if pose is None]
    warnings += warn_of(stream.name, untagged, "frame", "without an Orientation tag.")
    name = STREAM_NAME.fullmatch(stream.name)
    if name is not None:
        others = [
            f"{records[n].picture.name} {p}" for n, p in poses.items() if p not in (None, name["pose"].casefold())
        ]
        what = "tagged with another pose than the stream is named for; the tags are kept."
        warnings += warn_of(stream.name, others, "frame", what)


def _read_frames(path: Path | None) -> dict[int, CvatImage]:
    """Frame number -> image of one annotation file; empty without a file."""
    frames: dict[int, CvatImage] = {}
    for image in read_cvat(path) if path is not None else ():
        name = file_name_of(image.name)
        match = FRAME_NAME.fullmatch(name)
        where = f"{path.parent.name}/{FILE}" if path is not None else ""
        if match is None:
            raise DataError(
                f"{where}: expected frame names such as frame_000012.png, found {image.name[:60]!r} in {path}."
            )
        if int(match[1]) in frames:
            raise DataError(f"{where}: expected each frame once, found {name} again. Correct {path}.")
        frames[int(match[1])] = image
    return frames


def _frame_record(
    folder: Path, stream: _Stream, number: int, tagged: CvatImage | None, boxed: CvatImage | None, picture: Path | None
) -> Record:
    name = _frame_name(number)
    file = stream.tags if tagged is not None else stream.boxes if boxed is not None else None
    where = f"{stream.name}/{name}" if file is None else f"{file.relative_to(folder).as_posix()}, {name}"
    images = [image for image in (tagged, boxed) if image is not None]
    pose = _pose(images, where)
    # Where both files have boxes, the file for boxes is the right one.
    described = boxed or tagged
    boxes = described.boxes if described is not None else ()
    for box in boxes:
        check_known(box.label, "the label of a box", BOX_LABELS, where, USE_AS_PUBLISHED)
    views = [view for image in images for view in image.tag_values("location", "View_fetus")]
    return Record(
        source=FPUS23.name,
        record_id=f"{stream.name}/{name}",
        picture=picture or _home(stream, folder) / name,
        group=stream.name,
        domain=Domain.PHANTOM,
        labels={Task.FO: pose} if pose is not None else {},
        structures=tuple(Structure(box.label, box.bbox_xyxy_px) for box in boxes),
        is_present=picture is not None,
        where=where,
        listed_as="" if described is None else file_name_of(described.name),
        meta={"view": views[0]} if views else {},
    )


def _home(stream: _Stream, folder: Path) -> Path:
    """Where the pictures of a stream are expected."""
    file = stream.tags or stream.boxes
    return stream.pictures or (folder / "four_poses" / stream.name if file is None else file.parent)


def _pose(images: Iterable[CvatImage], where: str) -> str | None:
    poses = dict.fromkeys(pose for image in images for pose in image.tag_values("Orientation", "Pose"))
    if len(poses) > 1:
        raise DataError(
            f"{where}: expected one pose for a frame, found {' and '.join(poses)}. "
            "Remove the wrong Orientation tag or use the file as published."
        )
    return check_known(next(iter(poses)), "Pose", POSES, where, USE_AS_PUBLISHED) if poses else None


def _scan_planes(folder: Path, warnings: list[str]) -> list[Record]:
    homes = [place for name in ("Dataset_Plane", "archive/Dataset_Plane") if (place := entry(folder, name)) is not None]
    records = []
    for home in homes[:1]:
        for plane in (*PLANES, NO_PLANE):
            place = entry(home, plane)
            files = list_pictures(place) if place is not None else {}
            if not files:
                warnings.append(f"{home}: no pictures of {plane}; complete the copy to ask about this plane.")
            records += [_plane_record(plane, path) for path in sorted(files.values(), key=_number_order)]
        unknown = [path.name for path in subfolders(home) if path.name.upper() not in (*PLANES, NO_PLANE)]
        warnings += warn_of(home, unknown, "folder", "that the dataset does not have; left out.")
    return records


def _number_order(path: Path) -> tuple[str, int, str]:
    match = LAST_NUMBER.fullmatch(path.stem)
    return (match["before"], int(match["number"]), path.name) if match is not None else (path.stem, -1, path.name)


def _plane_record(plane: str, path: Path) -> Record:
    return Record(
        source=FPUS23.name,
        record_id=f"Dataset_Plane/{plane}/{path.name}",
        picture=path,
        group=_plane_group(plane, path.stem),
        domain=Domain.PHANTOM,
        labels={Task.PI: plane} if plane in PLANES else {},
        where=f"Dataset_Plane/{plane}/{path.name}",
    )


def _plane_group(plane: str, stem: str) -> str:
    """The stream where the name tells it, else the hundred within its series of numbered names."""
    stream = STREAM_NAME.search(stem)
    if stream is not None:
        return stream[0]
    match = LAST_NUMBER.fullmatch(stem)
    if match is None:
        return f"{plane} unnumbered"
    return f"{plane} {match['before']} block {int(match['number']) // BLOCK}"


FPUS23 = Source(
    name="fpus23",
    title="FPUS23: An ultrasound fetus phantom dataset",
    homepage="https://github.com/bharathprabakaran/FPUS23",
    licence="MIT for the repository and its annotations; the picture archive states none",
    is_redistributable=False,
    published_pictures=20378,
    group_rule="The stream (recording) of a frame. Plane pictures: the stream if the file name tells it, else a "
    "hundred of consecutive file numbers of one plane.",
    citation="Prabakaran et al., FPUS23: An ultrasound fetus phantom dataset with deep neural network evaluations for "
    "fetus orientations, fetal planes, and anatomical features, IEEE Access 11, 2023",
    tasks=(Task.PI, Task.FO, Task.VG),
    find=find,
    scan=scan,
    has_usable_official_split=False,
    flaws=(
        "One phantom: every picture shows the same fetus, so its scores say little about patients.",
        "All frames of a stream have one pose and the stream decides the split, so FO rests on 39 recordings.",
        "The plane pictures name no recording: hundreds of consecutive file numbers stand in for it, so near-identical "
        "neighbours at their borders, and frames of the streams, may lie on two sides.",
        "5,658 frames have no box, among them all of the longrec streams.",
        "The publishers count 15,728 frames because 615 are tagged twice; there are 15,113.",
    ),
)
"""The source. It publishes no split."""
