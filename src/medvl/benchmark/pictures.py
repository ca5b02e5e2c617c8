"""Reads the pictures of records once: size, hash of the pixels, likeness, and the boxes of the marked structures."""

from __future__ import annotations

import base64
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvl.benchmark.near import signature_of
from medvl.benchmark.places import Places
from medvl.benchmark.readings import Readings, reading_key
from medvl.config.schema import BoxConfig
from medvl.errors import DataError
from medvl.imaging.masks import check_mask, mask_boxes, read_mask
from medvl.imaging.reading import pixel_hash, read_picture_noted
from medvl.sources.listing import counted
from medvl.sources.record import Record, Structure

Box = tuple[float, float, float, float]
Progress = Callable[[int, int], None]

MOST_THREADS = 8
"""Decoding and hashing let other threads run, the rest of a reading does not: more threads gain nothing."""

PATCH_SHARE = 14 / 560
"""Side of a visual patch over the longer side of the picture: 14 of 560 px, as Llama 3.2 Vision sees one tile."""


@dataclass(frozen=True, slots=True)
class ReadPicture:
    """A record whose picture was read.

    Attributes:
        record: The record.
        width: Pixels.
        height: Pixels.
        sha256_pixels: Hash of the decoded 8-bit RGB pixels.
        boxes: (raw label, bbox_xyxy_px) of every box, in the order of the record's structures.
        notes: Rules of reading that touched the file, by name.
        signature: What near-identical pictures have alike, see `medvl.benchmark.near`.
    """

    record: Record
    width: int
    height: int
    sha256_pixels: str
    boxes: tuple[tuple[str, Box], ...]
    notes: tuple[str, ...] = ()
    signature: bytes = b""


def read_records(
    records: Sequence[Record],
    boxes: BoxConfig,
    progress: Progress | None = None,
    threads: int | None = None,
    readings: Readings | None = None,
    within: Sequence[Path] = (),
) -> tuple[list[ReadPicture], list[str]]:
    """Read the pictures of records.

    Args:
        records: Records whose pictures are on disk.
        boxes: How masks become boxes.
        progress: Called with (pictures done, pictures in all).
        threads: Decoding threads, by default one a core; the result does not depend on it.
        readings: What was read before; unchanged files are not read again.
        within: Folders that pictures and masks must lie in, links followed; anywhere by default.

    Returns:
        (what was read, in the order of `records`; one sentence for each picture or mask that cannot be used).
    """
    readings = readings or Readings(None)
    keys = [reading_key(record, boxes) for record in records]
    known = readings.known(keys)
    places = Places(within)
    outcomes: list[ReadPicture | str | None] = []
    for record, key in zip(records, keys, strict=True):
        problem = places.problem(record)
        if problem is not None:
            outcomes.append(_sentence(record, problem))
        else:
            outcomes.append(_from_reading(record, known[key]) if key in known else None)
    missing = [index for index, outcome in enumerate(outcomes) if outcome is None]
    done = len(records) - len(missing)
    if progress is not None and done:
        progress(done, len(records))
    for index, outcome in _read_all(records, missing, boxes, threads or min(MOST_THREADS, os.cpu_count() or 1)):
        outcomes[index] = outcome
        if isinstance(outcome, ReadPicture):
            readings.add(keys[index], _to_reading(outcome))
        done += 1
        if progress is not None:
            progress(done, len(records))
    readings.save()
    read = [outcome for outcome in outcomes if isinstance(outcome, ReadPicture)]
    return read, [outcome for outcome in outcomes if isinstance(outcome, str)]


def small_box_warnings(pictures: Sequence[ReadPicture]) -> list[str]:
    """A sentence about boxes under one visual patch: they are asked about, but a model hardly sees what they mark."""
    small = [
        f"{picture.record.record_id} {label}"
        for picture in pictures
        for label, (x0, y0, x1, y1) in picture.boxes
        if max(x1 - x0, y1 - y0) < PATCH_SHARE * max(picture.width, picture.height)
    ]
    if not small:
        return []
    return [
        f"{counted(small, 'structure')} with a box under one visual patch ({PATCH_SHARE:.1%} of the picture's longer "
        "side): a model hardly sees what it marks."
    ]


def _read_all(
    records: Sequence[Record], indices: Sequence[int], boxes: BoxConfig, threads: int
) -> Iterator[tuple[int, ReadPicture | str]]:
    """(index, outcome) of records in the order in which they are done; few are in work at a time."""
    waiting = iter(indices)
    pool = ThreadPoolExecutor(threads)
    running: dict[Future[ReadPicture | str], int] = {}
    try:
        while True:
            for index in itertools.islice(waiting, 4 * threads - len(running)):
                running[pool.submit(_read, records[index], boxes)] = index
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _read(record: Record, config: BoxConfig) -> ReadPicture | str:
    try:
        pixels, notes = read_picture_noted(record.picture, record.frame)
        height, width = pixels.shape[:2]
        found = [
            (structure.label, box)
            for structure in record.structures
            for box in _boxes(structure, record, (height, width), config)
        ]
    except DataError as error:
        return _sentence(record, str(error))
    signature = signature_of(pixels).to_bytes()
    boxes = tuple(dict.fromkeys(found))
    return ReadPicture(record, width, height, pixel_hash(pixels), boxes, tuple(sorted(notes)), signature)


def _sentence(record: Record, problem: str) -> str:
    """The problem after the source and the row, where the record comes from a table or an annotation file."""
    is_own_name = record.picture.as_posix().casefold().endswith(record.where.casefold())
    return f"{record.source}: {problem}" if is_own_name else f"{record.source}, {record.where}: {problem}"


def _to_reading(read: ReadPicture) -> dict[str, Any]:
    return {
        "size": [read.width, read.height],
        "sha256": read.sha256_pixels,
        "boxes": read.boxes,
        "notes": read.notes,
        "signature": base64.b64encode(read.signature).decode(),
    }


def _from_reading(record: Record, reading: Mapping[str, Any]) -> ReadPicture:
    width, height = reading["size"]
    boxes = tuple((str(label), (box[0], box[1], box[2], box[3])) for label, box in reading["boxes"])
    signature = base64.b64decode(reading["signature"])
    return ReadPicture(record, width, height, str(reading["sha256"]), boxes, tuple(reading["notes"]), signature)


def _boxes(structure: Structure, record: Record, shape: tuple[int, int], config: BoxConfig) -> list[Box]:
    where = f"{record.record_id}, {structure.label}"
    if structure.mask is not None:
        marks = structure.mask
        mask = read_mask(marks.path, marks.value, colour=marks.colour, frame=marks.frame, array=marks.array)
        if marks.may_be_empty and not mask.any():
            return []
        check_mask(mask, shape, f"{structure.mask.path.name} ({where})")
        found = mask_boxes(
            mask, is_outline=structure.mask.is_outline, per=config.per, min_area_share=config.min_area_share
        )
        return [(float(x0), float(y0), float(x1), float(y1)) for x0, y0, x1, y1 in found]
    if structure.bbox_xyxy_px is None:
        raise DataError(f"{where}: the structure has neither a box nor a mask")
    x0, y0, x1, y1 = structure.bbox_xyxy_px
    height, width = shape
    if not (0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height):
        raise DataError(
            f"{where}: expected a box with an area inside the picture ({width} x {height} px), found "
            f"x {x0:g} to {x1:g}, y {y0:g} to {y1:g}. Correct the annotation, or use the picture it belongs to."
        )
    return [(x0, y0, x1, y1)]
