"""IUGC 2024: intrapartum ultrasound videos, standard planes and pubic symphysis and fetal head (Bai et al., 2026).

Layout as published: `new` (in a later release `DatasetV3`) with `train`, `val` and `test`. Each has `videos/*.avi`, a
table of standard-plane frames (`cls/class_label.csv` in train, `cls/cls_label.csv` elsewhere: pos_index and neg_index
are lists of frames, ALL or NONE) and masks of 512 x 512 px listed in `seg/seg_info.csv`:
`seg/<video>/mask/<video>_<frame>_6.png` in train, `seg/<video>_<frame>.png` in val, `seg/<video>.png` in test. Levels:
1 pubic symphysis, 2 fetal head; the challenge's own sample has 7 and 8. Videos on disk may be named otherwise than in
the tables: twice over (`X__X.avi`), or with Chinese characters that the tables have lost.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from medvl.errors import DataError
from medvl.imaging.reading import decode_image
from medvl.sources.files import one_of
from medvl.sources.listing import warn_of
from medvl.sources.locate import entry, find_folder, find_inside, holds, list_files, not_unpacked, or_archive
from medvl.sources.record import Domain, MaskFile, Record, Source, SourceScan, Split, Structure, Task
from medvl.sources.row_checks import file_name_of, unique_rows
from medvl.sources.tables import TableRow, read_table

FOLDERS = ("new", "DatasetV3")
# The benchmark carves its own validation part from the training side.
SETS = {"train": Split.TRAIN, "val": Split.TRAIN, "test": Split.TEST}
CLASS_TABLES = {"train": "cls/class_label.csv", "val": "cls/cls_label.csv", "test": "cls/cls_label.csv"}
MASK_TABLE = "seg/seg_info.csv"
MASK_COLUMNS = ("labeled_index", "labeled_frame_index")
ARCHIVES = ("iugc", "datasetv3")
"""Words in the name of the archive."""
VIDEO_ENDINGS = (".avi", ".mp4")

STANDARD, NON_STANDARD = "standard plane", "non-standard plane"
STRUCTURES = ("pubic symphysis", "fetal head")
LEVELS = ((1, 2), (7, 8))
"""Levels of the two structures: as released, and as in the challenge's sample."""

FRAMES_PER_LABEL = 10
"""Frames of each label that are taken from a video: neighbouring frames are near copies, and long videos would outweigh
all others."""

MAX_FRAMES = 100_000
"""A larger count is no count: the longest video has 778 frames."""


@dataclass(frozen=True, slots=True)
class Video:
    """What the tables say of one video.

    Attributes:
        name: Name in the tables, without extension.
        where: First row that names it.
        labels: Frame -> raw label of its view.
        masks: Frame -> mask.
    """

    name: str
    where: str
    labels: dict[int, str]
    masks: dict[int, Path]


def find(root: Path) -> Path | None:
    """Folder with the table of standard planes of a set, at most three levels below, or with the archive, or None."""
    for marker in [f"{name}/{table}" for name, table in CLASS_TABLES.items()]:
        tried = (find_folder(root, [marker]), *(find_inside(root, inner, [marker]) for inner in FOLDERS))
        home = next((place for place in tried if place is not None), None)
        if home is not None:
            return home
    return or_archive(None, root, ARCHIVES)


def scan(folder: Path) -> SourceScan:
    """Read the tables of all sets; videos are not opened, and one mask of each set is, to learn its levels.

    Args:
        folder: Folder that `find` gave.

    Returns:
        Of each video, in table order: every frame with a mask and evenly spread further ones, up to
        `FRAMES_PER_LABEL` of each label. Training videos give labels only where all their frames have the same.

    Raises:
        DataError: A table is broken, names a frame that the video does not have or under both labels, or a mask holds
            other levels.
    """
    if not any(holds(folder, f"{name}/{table}") for name, table in CLASS_TABLES.items()):
        return SourceScan([], not_unpacked(folder, ARCHIVES, f"the folders {', '.join(SETS)}. Unpack it there."))
    warnings: list[str] = []
    return SourceScan([record for name in SETS for record in _scan_set(folder, name, warnings)], warnings)


def _scan_set(folder: Path, set_name: str, warnings: list[str]) -> list[Record]:
    home = entry(folder, set_name)
    if home is None:
        warnings.append(f"{folder}: no folder {set_name}; its videos cannot be counted.")
        return []
    videos = _videos(home, set_name, warnings)
    files = _match_files(home, set_name, list(videos), warnings)
    levels = _levels([mask for video in videos.values() for mask in video.masks.values()])
    return [
        _record(home, set_name, video, frame, files.get(name), levels)
        for name, video in videos.items()
        for frame in _choose_frames(video)
    ]


def _videos(home: Path, set_name: str, warnings: list[str]) -> dict[str, Video]:
    """Videos of both tables by name, in the order of the table of classes."""
    classes = _rows(home, CLASS_TABLES[set_name], ("filename", "frame_count", "pos_index", "neg_index"), warnings)
    listed = _rows(home, MASK_TABLE, ("filename", "frame_count"), warnings)
    videos: dict[str, Video] = {}
    unclear, lost = [], []
    for name in dict.fromkeys([*classes, *listed]):
        row, mask_row = classes.get(name), listed.get(name)
        labels = {} if row is None else _labels(row, set_name)
        if row is not None and not labels:
            unclear.append(name)
        frames = [] if mask_row is None else _mask_frames(mask_row)
        found = _find_masks(home, set_name, name, frames)
        lost += [f"{name} frame {frame}" for frame in frames if frame not in found]
        first = row or mask_row
        videos[name] = Video(name, f"{set_name}/{first.where}" if first else name, labels, found)
    warnings += warn_of(home, unclear, "video", "without a usable label; only the masks are used.")
    warnings += warn_of(home, lost, "listed mask", "absent; no structure is asked about there.")
    return videos


def _rows(home: Path, name: str, columns: Sequence[str], warnings: list[str]) -> dict[str, TableRow]:
    """Video -> row of one table; empty when the copy lacks the table."""
    table = entry(home, name)
    if table is None:
        warnings.append(f"{home}: no {name}; the questions it would give are missing.")
        return {}
    rows = read_table(table, columns)
    for row in rows:
        if not _name(row):
            raise DataError(f"{home.name}/{row.where}: expected a video in filename, found none. Correct {table}.")
    rows = unique_rows(table, rows, _name, list(rows[0].values), warnings, named=f"{home}: {table.name}")
    return {_name(row): row for row in rows}


def _name(row: TableRow) -> str:
    return re.sub(r"\.\w+$", "", file_name_of(row["filename"]))


def _labels(row: TableRow, set_name: str) -> dict[int, str]:
    count = _count(row)
    positive, negative = (_frames(row, column, count) for column in ("pos_index", "neg_index"))
    if both := sorted(set(positive) & set(negative)):
        raise DataError(
            f"{set_name}/{row.where} ({row['filename']}): expected each frame under one of pos_index and neg_index, "
            f"found frame {both[0]} under both. Correct the row or use the table as published."
        )
    if set_name == "train" and len(set(positive)) != count and len(set(negative)) != count:
        return {}
    return dict.fromkeys(positive, STANDARD) | dict.fromkeys(negative, NON_STANDARD)


def _frames(row: TableRow, column: str, count: int) -> list[int]:
    """Frames that a cell names: a list with or without brackets, ALL or NONE."""
    text = row[column].strip().strip("[]")
    if text.upper() == "ALL":
        return list(range(count))
    if text.upper() in ("", "NONE", "NULL", "NAN"):
        return []
    frames = [_number(row, part, column) for part in re.split(r"[,;\s]+", text.strip(" ,;"))]
    if beyond := [frame for frame in frames if frame >= count]:
        raise DataError(
            f"{row.where} ({row['filename']}): expected frames below frame_count {count} in {column}, "
            f"found {beyond[0]}. Correct the row or use the table as published."
        )
    return frames


def _count(row: TableRow) -> int:
    count = _number(row, row["frame_count"], "frame_count")
    if count > MAX_FRAMES:
        raise DataError(
            f"{row.where} ({row['filename']}): expected a frame_count of at most {MAX_FRAMES:,}, found {count}. "
            "Correct the row or use the table as published."
        )
    return count


def _number(row: TableRow, text: str, column: str) -> int:
    if not re.fullmatch(r"[0-9]+(\.0)?", text.strip()):
        raise DataError(
            f"{row.where} ({row['filename']}): expected whole numbers in {column}, found {text!r}. "
            "Correct the row or use the table as published."
        )
    return int(float(text))


def _mask_frames(row: TableRow) -> list[int]:
    column = next((name for name in MASK_COLUMNS if name in row.values), None)
    if column is None:
        raise DataError(
            f"{row.where}: expected a column {' or '.join(MASK_COLUMNS)}, found {', '.join(row.values)}. "
            "Use the table as published."
        )
    return _frames(row, column, _count(row))


def _find_masks(home: Path, set_name: str, video: str, frames: list[int]) -> dict[int, Path]:
    if not frames:
        return {}
    seg, where = entry(home, "seg") or home / "seg", f"{set_name}/{video}"
    masks = list_files(seg / video / "mask" if set_name == "train" else seg)
    found: dict[int, Path] = {}
    for frame in frames:
        name = f"{video}_{frame}_6.png" if set_name == "train" else f"{video}_{frame}.png"
        mask = masks.find(name, where)
        if mask is None and set_name != "train" and len(frames) == 1:
            mask = masks.find(f"{video}.png", where)
        if mask is not None:
            found[frame] = mask
    return found


def _match_files(home: Path, set_name: str, names: Sequence[str], warnings: list[str]) -> dict[str, Path]:
    """Name in the tables -> video file: the same name, else the only one that differs in what gets lost."""
    alike: dict[str, list[Path]] = {}
    for path in list_files(entry(home, "videos") or home / "videos").values():
        if path.suffix.casefold() in VIDEO_ENDINGS:
            alike.setdefault(path.stem.casefold(), []).append(path)
    matched = {
        name: one_of(alike[name.casefold()], f"{name}.avi", f"{set_name}/videos")
        for name in names
        if name.casefold() in alike
    }
    used = set(matched.values())
    left = [path for paths in alike.values() for path in paths if path not in used]
    unmatched = [name for name in names if name not in matched]
    in_tables, on_disk = (Counter(map(_what_stays, some)) for some in (unmatched, [path.stem for path in left]))
    loose = {_what_stays(path.stem): path for path in left}
    for name in unmatched:
        key = _what_stays(name)
        if in_tables[key] == on_disk[key] == 1:
            matched[name] = loose[key]
            left.remove(loose[key])
    stray = [path.name for path in left]
    warnings += warn_of(home, stray, "video", f"without a row in {CLASS_TABLES[set_name]}; left out.")
    return matched


def _what_stays(name: str) -> str:
    """A video's name without what differs between tables and disk: doubling, non-ASCII characters, `tmp`."""
    left, _, right = name.partition("__")
    plain = re.sub(r"#U[0-9a-f]{4}", "", left if left == right else name, flags=re.IGNORECASE)
    plain = plain.encode("ascii", "ignore").decode().casefold().replace("_tmp", "")
    return re.sub(r"_+", "_", plain)


def _levels(masks: Sequence[Path]) -> tuple[int, int]:
    """Levels of symphysis and head in the masks of a set, read from the first one that marks anything."""
    for mask in masks:
        try:
            shown = decode_image(mask).convert("L")
        except DataError:
            continue  # the build names broken masks, all of them at once
        present = {int(level) for level in np.unique(np.asarray(shown))} - {0}
        for levels in LEVELS:
            if present and present <= set(levels):
                return levels
        if present:
            raise DataError(
                f"{mask}: expected the levels 1 and 2 (symphysis, head), or 7 and 8, found "
                f"{', '.join(map(str, sorted(present)[:5]))}. Use the masks as published, not a picture of them."
            )
    return LEVELS[0]


def _choose_frames(video: Video) -> list[int]:
    chosen = set(video.masks)
    for label in (STANDARD, NON_STANDARD):
        frames = sorted(frame for frame, given in video.labels.items() if given == label)
        rest = [frame for frame in frames if frame not in chosen]
        chosen.update(_spread(rest, FRAMES_PER_LABEL - (len(frames) - len(rest))))
    return sorted(chosen)


def _spread(frames: list[int], count: int) -> list[int]:
    """At most `count` of some frames, evenly spread over them."""
    if len(frames) <= count:
        return frames
    return [frames[(2 * i + 1) * len(frames) // (2 * count)] for i in range(count)]


def _record(home: Path, set_name: str, video: Video, frame: int, path: Path | None, levels: tuple[int, int]) -> Record:
    mask = video.masks.get(frame)
    structures = () if mask is None else _structures(mask, levels)
    return Record(
        source=IUGC2024.name,
        record_id=f"{set_name}/videos/{video.name}.avi#{frame}",
        picture=path or home / "videos" / f"{video.name}.avi",
        group=_session(video.name),
        domain=Domain.CLINICAL,
        labels={Task.VC: video.labels[frame]} if frame in video.labels else {},
        structures=structures,
        official_split=SETS[set_name],
        frame=frame,
        is_present=path is not None,
        where=f"{video.where}, {video.name} frame {frame}",
        listed_as=f"{video.name}.avi",
    )


def _structures(mask: Path, levels: tuple[int, int]) -> tuple[Structure, ...]:
    return tuple(Structure(label, mask=MaskFile(mask, level)) for label, level in zip(STRUCTURES, levels, strict=True))


def _session(video: str) -> str:
    """What a video's name starts with where it tells the recording that the clip was cut from, else the name."""
    match = re.match(r"\d{8}T\d{6}|\d+(?=I\d+$)", video)
    return match[0] if match else video


IUGC2024 = Source(
    name="iugc2024",
    title="IUGC 2024: Intrapartum ultrasound grand challenge",
    homepage="https://zenodo.org/records/17655183",
    licence="CC BY 4.0 as others state it, not confirmed; see its home",
    is_redistributable=False,
    published_pictures=68106,
    group_rule="The recording: clips whose names start with one time stamp (20190909T155747I1, ...I5) are one group, "
    "other videos are one each.",
    citation="Bai et al., Beyond benchmarks of IUGC: Rethinking requirements of deep learning methods for intrapartum "
    "ultrasound biometry from fetal ultrasound videos, arXiv:2602.12922, 2026",
    tasks=(Task.VC, Task.VG),
    find=find,
    scan=scan,
    has_usable_official_split=True,
    flaws=(
        f"Of each label at most {FRAMES_PER_LABEL} frames a video are taken (more where more have masks), because "
        "neighbouring frames are near copies: accuracies are not those of the challenge, which counts every frame.",
        "No training video holds frames of both labels, while most videos of the test side do.",
        "No woman is named: several videos of one woman may be on two sides, and names suggest that its training clips "
        "were cut from the videos of JNU-IFM.",
    ),
)
"""The source. Its official validation set counts as training, because the benchmark carves its own."""
