"""ACOUSLIC-AI: blind sweeps over the abdomen with fetal abdomen marked, 2D ultrasound in stacks (Sappia et al., 2024).

Layout as published: `acouslic-ai-train-set/` with `images/stacked_fetal_ultrasound/<uuid>.mha` (840 frames of 744 x 562
px, six sweeps), `masks/stacked_fetal_abdomen/<uuid>.mha` and
`circumferences/fetal_abdominal_circumferences_per_sweep.csv` (uuid, subject_id, six circumferences). A mask marks the
abdomen with 1 on frames optimal for measurement and with 2 on suboptimal ones; most frames are not marked.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from medvl.errors import DataError
from medvl.imaging.volumes import iter_frames, volume_frames, volume_size
from medvl.sources.listing import warn_of
from medvl.sources.locate import entry, find_folder, find_inside, list_files, not_unpacked, or_archive
from medvl.sources.record import Domain, MaskFile, Record, Source, SourceScan, Structure, Task
from medvl.sources.row_checks import unique_rows
from medvl.sources.tables import TableRow, read_table

FOLDER = "acouslic-ai-train-set"
TABLE = "circumferences/fetal_abdominal_circumferences_per_sweep.csv"
IMAGES = "images/stacked_fetal_ultrasound"
MASKS = "masks/stacked_fetal_abdomen"
ARCHIVES = ("acouslic",)
"""Words in the name of the archive."""
CONFORMITY = {1: "optimal", 2: "suboptimal"}
"""Level in the masks -> raw label, as the challenge names it."""
LABEL = "fetal abdomen"


def find(root: Path) -> Path | None:
    """Folder with the table of circumferences, at most three levels below, or with the archive, or None."""
    return or_archive(find_folder(root, [TABLE]) or find_inside(root, FOLDER, [TABLE]), root, ARCHIVES)


def scan(folder: Path) -> SourceScan:
    """Read the table and pass over the mask stacks once, to learn which frames are marked and how.

    One frame of a mask stack is in memory at a time; the image stacks are not opened.

    Args:
        folder: Folder that `find` gave.

    Returns:
        One record per marked frame, stack by stack in table order. A stack that is absent or has no marked frame is one
        record without a label. No record and a warning where only the archive is there.

    Raises:
        DataError: The table is broken, a stack has no or two subjects, or a mask stack cannot be read or holds another
            level.
    """
    table = entry(folder, TABLE)
    if table is None:
        return SourceScan([], not_unpacked(folder, ARCHIVES, f"the table {folder / TABLE}. Unpack it there."))
    warnings: list[str] = []
    rows = _rows(table, warnings)
    images, masks = (list_files(entry(folder, part) or folder / part) for part in (IMAGES, MASKS))
    found = [(row, images.find(_name(row), row.where), masks.find(_name(row), row.where)) for row in rows]
    used = {image for _, image, _ in found if image is not None}
    unlisted = [name for name in images.unused(used) if name.casefold().endswith(".mha")]
    warnings += warn_of(folder, unlisted, "stack", f"without a row in {Path(TABLE).name}; left out.")
    bare = [image.name for _, image, mask in found if image is not None and mask is None]
    warnings += warn_of(folder, bare, "stack", "without a mask; no question is asked on them.")
    records = []
    for row, image, mask in found:
        if image is None:
            # Its mask, if there, is passed over: it would cost the time and give nothing to ask about.
            records.append(replace(_record(row, folder / IMAGES / _name(row)), is_present=False))
            continue
        stack = _record(row, image)
        marked = [] if mask is None else _marked_frames(stack, mask, warnings)
        records += marked or [stack]
    return SourceScan(records, warnings)


def _name(row: TableRow) -> str:
    """File name of a stack and of its mask."""
    return f"{row['uuid']}.mha"


def _rows(table: Path, warnings: list[str]) -> list[TableRow]:
    """One row a stack, in table order."""
    rows = read_table(table, ["uuid", "subject_id"])
    for row in rows:
        if not row["uuid"] or not row["subject_id"]:
            raise DataError(
                f"{row.where}: expected uuid and subject_id, found {row['uuid']!r} and {row['subject_id']!r}. "
                f"Without a subject the split cannot be kept apart: use {table} as published."
            )
    return unique_rows(table, rows, lambda row: row["uuid"], ["subject_id"], warnings)


def _record(row: TableRow, picture: Path) -> Record:
    """A whole stack."""
    return Record(
        source=ACOUSLIC_AI.name,
        record_id=f"{IMAGES}/{_name(row)}",
        picture=picture,
        group=row["subject_id"],
        domain=Domain.CLINICAL,
        where=row.where,
        listed_as=_name(row),
    )


def _marked(stack: Record, mask: Path, frame: int, level: int) -> Record:
    """A marked frame of a stack."""
    return replace(
        stack,
        record_id=f"{stack.record_id}#{frame}",
        labels={Task.VC: CONFORMITY[level]},
        structures=(Structure(LABEL, mask=MaskFile(mask, level, frame=frame)),),
        frame=frame,
        where=f"{stack.where}, {stack.picture.name} frame {frame}",
    )


def _marked_frames(stack: Record, path: Path, warnings: list[str]) -> list[Record]:
    """One record for each frame that the mask stack marks."""
    if volume_frames(path) == 1:
        size = " x ".join(map(str, volume_size(path)))
        raise DataError(f"{path}: expected a stack of masks, found one of {size} px. Download this file again.")
    frames, mixed = [], []
    for index, mask in enumerate(iter_frames(path)):
        if not mask.any():
            continue
        levels = np.unique(mask[mask != 0])
        if unknown := [level for level in levels if level not in CONFORMITY]:
            raise DataError(
                f"{path}, frame {index}: expected the levels 0, 1 (optimal) and 2 (suboptimal), found {unknown[0]:g}. "
                "Use the masks as published."
            )
        if len(levels) == 1:
            frames.append(_marked(stack, path, index, int(levels[0])))
        else:
            mixed.append(f"frame {index}")
    warnings += warn_of(path.name, mixed, "frame", "marked both optimal and suboptimal; left out.")
    return frames


ACOUSLIC_AI = Source(
    name="acouslic_ai",
    title="ACOUSLIC-AI: Abdominal circumference operator-agnostic ultrasound measurement, training set",
    homepage="https://zenodo.org/records/12697994",
    licence="CC BY-NC-SA 4.0",
    is_redistributable=False,
    published_pictures=252000,
    group_rule="The subject: column subject_id of the table of circumferences.",
    citation="Sappia et al., ACOUSLIC-AI challenge report: Fetal abdominal circumference measurement on blind-sweep "
    "ultrasound data from low-income countries, Medical Image Analysis, 2025",
    tasks=(Task.VC, Task.VG),
    find=find,
    scan=scan,
    flaws=(
        "Only marked frames are asked about: about 8,000 of 252,000.",
        "The circumferences of version 1.0 (record 11005384) are twice too long; use version 1.1.",
    ),
)
"""The source. Its public part is the training set of the challenge; it publishes no split."""
