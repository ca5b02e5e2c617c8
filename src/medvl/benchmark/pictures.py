"""Reads the pictures of records once: size, hash of the pixels, and the boxes of the marked structures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from medvl.config.schema import BoxConfig
from medvl.errors import DataError
from medvl.imaging.masks import check_mask, mask_boxes, read_mask
from medvl.imaging.reading import pixel_hash, read_picture
from medvl.sources.record import Record, Structure

Box = tuple[float, float, float, float]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class ReadPicture:
    """A record whose picture was read.

    Attributes:
        record: The record.
        width: Pixels.
        height: Pixels.
        sha256_pixels: Hash of the decoded 8-bit RGB pixels.
        boxes: (raw label, bbox_xyxy_px) of every box, in the order of the record's structures.
    """

    record: Record
    width: int
    height: int
    sha256_pixels: str
    boxes: tuple[tuple[str, Box], ...]


def read_records(
    records: Sequence[Record], boxes: BoxConfig, progress: Progress | None = None, threads: int = 2
) -> tuple[list[ReadPicture], list[str]]:
    """Read the pictures of records.

    Args:
        records: Records whose pictures are on disk.
        boxes: How masks become boxes.
        progress: Called with (pictures done, pictures in all).
        threads: Decoding threads; the result does not depend on it.

    Returns:
        (what was read, in the order of `records`; one sentence for each picture or mask that cannot be used).
    """
    read: list[ReadPicture] = []
    broken: list[str] = []
    with ThreadPoolExecutor(threads) as pool:
        for index, outcome in enumerate(pool.map(lambda record: _read(record, boxes), records)):
            if isinstance(outcome, ReadPicture):
                read.append(outcome)
            else:
                broken.append(outcome)
            if progress is not None:
                progress(index + 1, len(records))
    return read, broken


def _read(record: Record, config: BoxConfig) -> ReadPicture | str:
    try:
        pixels = read_picture(record.picture, record.frame)
        height, width = pixels.shape[:2]
        found = [
            (structure.label, box)
            for structure in record.structures
            for box in _boxes(structure, record, (height, width), config)
        ]
    except DataError as error:
        return f"{record.source}: {error}"
    return ReadPicture(record, width, height, pixel_hash(pixels), tuple(dict.fromkeys(found)))


def _boxes(structure: Structure, record: Record, shape: tuple[int, int], config: BoxConfig) -> list[Box]:
    where = f"{record.record_id}, {structure.label}"
    if structure.mask is not None:
        mask = read_mask(structure.mask.path, structure.mask.value)
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
