"""Reads the pictures of records once: size, hash of the pixels, likeness, and the boxes of the marked structures."""

from __future__ import annotations

import base64
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from medvl.benchmark.near import signature_of
from medvl.benchmark.readings import Readings, reading_key
from medvl.config.schema import BoxConfig
from medvl.errors import DataError
from medvl.imaging.masks import check_mask, mask_boxes, read_mask
from medvl.imaging.reading import pixel_hash, read_picture_noted
from medvl.sources.record import Record, Structure

Box = tuple[float, float, float, float]
Progress = Callable[[int, int], None]

MOST_THREADS = 8
"""Decoding and hashing let other threads run, the rest of a reading does not: more threads gain nothing."""


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
) -> tuple[list[ReadPicture], list[str]]:
    """Read the pictures of records.

    Args:
        records: Records whose pictures are on disk.
        boxes: How masks become boxes.
        progress: Called with (pictures done, pictures in all).
        threads: Decoding threads, by default one a core; the result does not depend on it.
        readings: What was read before; unchanged files are not read again.

    Returns:
        (what was read, in the order of `records`; one sentence for each picture or mask that cannot be used).
    """
    readings = readings or Readings(None)
    keys = [reading_key(record, boxes) for record in records]
    known = readings.known(keys)
    outcomes: list[ReadPicture | str | None] = [
        _from_reading(record, known[key]) if key in known else None for record, key in zip(records, keys, strict=True)
    ]
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
        return f"{record.source}: {error}"
    signature = signature_of(pixels).to_bytes()
    boxes = tuple(dict.fromkeys(found))
    return ReadPicture(record, width, height, pixel_hash(pixels), boxes, tuple(sorted(notes)), signature)


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
            f"{where}: the box {structure.bbox_xyxy_px} leaves the picture ({width} x {height}) or is empty"
        )
    return [(x0, y0, x1, y1)]
