"""JNU-IFM: pubic symphysis and fetal head on frames of intrapartum ultrasound videos (Lu et al., 2022).

Layout as published: `us_data/<video>/` with `image/<video>_<frame>.png`, `mask/<video>_<frame>_mask.png`,
`mask_enhance/` (the masks in colours, for looking at) and `frame_label.csv` (frame_id, frame_label), which copies also
call `framelabel.csv`. Masks: 7 pubic symphysis, 8 fetal head. Frame labels: 3 neither is visible, 4 the symphysis, 5
the head, 6 both.
"""

from __future__ import annotations

import re
from pathlib import Path

from medvl.errors import DataError
from medvl.sources.files import one_of
from medvl.sources.listing import warn_of
from medvl.sources.locate import entry, find_inside, find_where, holds, list_files, not_unpacked, or_archive, subfolders
from medvl.sources.record import Domain, MaskFile, Record, Source, SourceScan, Structure, Task
from medvl.sources.row_checks import check_known, unique_rows
from medvl.sources.tables import TableRow, read_table

FOLDER = "us_data"
ARCHIVES = (FOLDER, "jnu")
"""Words in the name of the archive."""
TABLES = ("frame_label.csv", "framelabel.csv")
LEVELS = {"pubic symphysis": 7, "fetal head": 8}
"""Raw label, as the description names it, -> level in the masks."""
VISIBLE: dict[str, tuple[str, ...]] = {
    "3": (),
    "4": ("pubic symphysis",),
    "5": ("fetal head",),
    "6": ("pubic symphysis", "fetal head"),
}
"""Frame label -> structures that the frame shows."""

VIDEO_NAME = re.compile(r"\d{8}T\d{6}.*", re.IGNORECASE)


def find(root: Path) -> Path | None:
    """Folder of the videos' folders, at most three levels below the root, or with the archive, or None."""
    return or_archive(find_inside(root, FOLDER) or find_where(root, _holds_videos), root, ARCHIVES)


def scan(folder: Path) -> SourceScan:
    """Read the tables of all videos; masks are not opened.

    Args:
        folder: Folder that `find` gave.

    Returns:
        One record per table row, video by video. A frame carries the structures that its frame label calls visible. No
        record and a warning where only the archive is there.

    Raises:
        DataError: A table is broken, holds an unknown label, or gives one frame two labels.
    """
    warnings: list[str] = []
    records = []
    if folder.name.casefold() != FOLDER and not _holds_videos(folder):
        return SourceScan([], not_unpacked(folder, ARCHIVES, f"a folder for each video. Unpack it in {folder}."))
    for path in subfolders(folder, warnings=warnings):
        table = next((found for name in TABLES if (found := entry(path, name)) is not None), None)
        if table is not None:
            records += _scan_video(path, table, warnings)
        elif entry(path, "image") is not None:
            warnings.append(f"{path}: no {TABLES[0]}; the frames of this video are left out.")
    if not records:
        warnings += not_unpacked(folder, ARCHIVES, f"a folder for each video. Unpack it in {folder}.")[:1]
    return SourceScan(records, warnings)


def _holds_videos(folder: Path) -> bool:
    videos = (path for path in list_files(folder).values() if VIDEO_NAME.fullmatch(path.name))
    return any(holds(video, table) for video in videos for table in TABLES)


def _scan_video(home: Path, table: Path, warnings: list[str]) -> list[Record]:
    images = _by_frame(home, "image", ".png", warnings)
    masks = _by_frame(home, "mask", "_mask.png", warnings)
    rows = read_table(table, ["frame_id", "frame_label"])
    for row in rows:
        _check(row, home.name, table)
    named = f"{home}: {table.name}"
    rows = unique_rows(table, rows, lambda row: f"frame {_frame(row)}", ["frame_label"], warnings, named)
    records = [_record(home, row, images.get(_frame(row)), masks.get(_frame(row))) for row in rows]
    unlisted = [images[frame].name for frame in sorted(images.keys() - {_frame(row) for row in rows})]
    warnings += warn_of(home, unlisted, "picture", f"without a row in {table.name}; left out.")
    bare = [images[f].name for f in map(_frame, filter(_visible, rows)) if f in images and f not in masks]
    warnings += warn_of(home, bare, "picture", "without a mask; no question is asked on them.")
    return records


def _by_frame(home: Path, part: str, ending: str, warnings: list[str]) -> dict[int, Path]:
    """Frame number -> file `<video>_<frame><ending>`."""
    folder = entry(home, part) or home / part
    alike: dict[int, list[Path]] = {}
    for name, path in list_files(folder).items():
        if match := re.fullmatch(rf".*_(\d+){re.escape(ending)}", name, re.IGNORECASE):
            alike.setdefault(int(match[1]), []).append(path)
    found = {frame: one_of(paths, f"{home.name}_{frame}{ending}", str(folder)) for frame, paths in alike.items()}
    beside = [path.name for frame, paths in alike.items() for path in paths if path != found[frame]]
    warnings += warn_of(folder, beside, "file", "beside one of the published name; left out.")
    return found


def _check(row: TableRow, video: str, table: Path) -> None:
    if not re.fullmatch(r"[0-9]{1,9}", row["frame_id"]):
        raise DataError(
            f"{video}/{row.where}: expected frame_id to be a frame number, found {row['frame_id']!r}. Correct {table}."
        )
    advice = f"Correct {table} or use it as published."
    check_known(row["frame_label"], "frame_label", VISIBLE, f"{video}/{row.where}", advice)


def _frame(row: TableRow) -> int:
    return int(row["frame_id"])


def _visible(row: TableRow) -> tuple[str, ...]:
    return VISIBLE[row["frame_label"]]


def _record(home: Path, row: TableRow, picture: Path | None, mask: Path | None) -> Record:
    name = f"{home.name}_{row['frame_id']}.png"
    structures = () if mask is None else tuple(_structure(label, mask) for label in _visible(row))
    return Record(
        source=JNU_IFM.name,
        record_id=f"{home.name}/image/{home.name}_{_frame(row)}.png",
        picture=picture or home / "image" / name,
        group=home.name,
        domain=Domain.CLINICAL,
        structures=structures,
        is_present=picture is not None,
        where=f"{home.name}/{row.where}",
    )


def _structure(label: str, mask: Path) -> Structure:
    return Structure(label, mask=MaskFile(mask, LEVELS[label]))


JNU_IFM = Source(
    name="jnu_ifm",
    title="JNU-IFM: intrapartum transperineal ultrasound dataset",
    homepage="https://figshare.com/articles/dataset/JNU-IFM/14371652",
    licence="CC BY 4.0",
    is_redistributable=True,
    published_pictures=6224,
    group_rule="The video: the folder of a frame.",
    citation="Lu et al., The JNU-IFM dataset for segmenting pubic symphysis-fetal head, Data in Brief 41: 107904, 2022",
    tasks=(Task.VG,),
    find=find,
    scan=scan,
    flaws=(
        "The 78 videos come from 51 women; which videos are of one woman is not told, so a woman may be on two sides.",
        "Its frames are in FH-PS-AOP too, at another size, and clips of its videos are in IUGC 2024, as names and "
        "counts suggest: only the search for near copies guards against that.",
    ),
)
"""The source. It publishes no split."""
