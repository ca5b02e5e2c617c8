"""Which kind of file a picture lies in, decided by its content."""

from __future__ import annotations

import re
from enum import Enum, auto
from pathlib import Path
from typing import BinaryIO

from medvl.errors import DataError
from medvl.imaging.wholeness import JPEG_START, PNG_START, describe_content

PICTURE_FORMATS = ("PNG", "JPEG", "TIFF", "BMP", "GIF", "WEBP", "JPEG2000", "PPM")
"""Formats that Pillow tries. A closed list: Pillow knows others that start outside programs."""

ALL_FORMATS = (*PICTURE_FORMATS, "DICOM", "MHA", "AVI", "MP4")

MAX_PICTURE_PX = 80_000_000
"""Largest picture that is decoded, in pixels (width x height). A chest film has about 12 million."""

DICOM_ENDINGS = (".dcm", ".dicom")
"""Only under these names is a DICOM file without its 128-byte preamble recognised."""

_HEAD_BYTES = 512
_META_IMAGE = re.compile(rb"\s*(?:ObjectType|ObjectSubType|Comment|NDims)\s*=")
# The first element of a data set without preamble is of group 0002 or 0008, in either byte order.
_DICOM_GROUPS = (b"\x02\x00", b"\x08\x00", b"\x00\x02", b"\x00\x08")
_STILL_BRANDS = (b"avif", b"avis", b"heic", b"heix", b"heif", b"mif1", b"msf1")


class Kind(Enum):
    """Kinds of files, each with its own reader."""

    PICTURE = auto()
    """Whatever Pillow is let try; also what is none of the others."""
    DICOM = auto()
    VOLUME = auto()
    """MetaImage: .mha, or .mhd with its data beside it."""
    VIDEO = auto()


def open_file(path: Path) -> BinaryIO:
    """Open a file for reading.

    Raises:
        DataError: The file is absent or may not be read.
    """
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise DataError(f"{path}: expected a picture, found no file of this name. Complete the copy.") from None
    except OSError as error:
        reason = error.strerror or error
        raise DataError(f"{path}: the picture cannot be opened ({reason}). Check the path and its rights.") from error


def find_kind(path: Path) -> Kind:
    """Kind of a file.

    Raises:
        DataError: The file is absent or may not be read.
    """
    with open_file(path) as file:
        return kind_of(file, path)


def kind_of(file: BinaryIO, path: Path) -> Kind:
    """Kind of an open file; its position goes back to the start."""
    head = file.read(_HEAD_BYTES)
    file.seek(0)
    if head.startswith((PNG_START, JPEG_START)):
        return Kind.PICTURE
    if head[128:132] == b"DICM":
        return Kind.DICOM
    if _META_IMAGE.match(head):
        return Kind.VOLUME
    if head.startswith(b"RIFF") and head[8:12] == b"AVI ":
        return Kind.VIDEO
    if head[4:8] in (b"ftyp", b"moov", b"mdat") and head[8:12] not in _STILL_BRANDS:
        return Kind.VIDEO
    if path.suffix.casefold() in DICOM_ENDINGS and head.startswith(_DICOM_GROUPS):
        return Kind.DICOM
    return Kind.PICTURE


def check_size(width: int, height: int, path: Path) -> None:
    """Refuse a picture that is too large to be one, before it is decoded.

    Raises:
        DataError: More than `MAX_PICTURE_PX` pixels.
    """
    if width * height > MAX_PICTURE_PX:
        raise DataError(
            f"{path}: expected at most {MAX_PICTURE_PX:,} pixels, found {width} x {height}. "
            "Scale the picture down or remove the file if it is not a picture of the dataset."
        )


def check_frame(frame: int, frames: int, path: Path) -> None:
    """Refuse a frame that a file does not have.

    Raises:
        DataError: `frame` is not in 0..frames-1.
    """
    if not 0 <= frame < frames:
        raise DataError(f"{path}: expected frame {frame}, found {frames} frame(s) (0 to {frames - 1}).")


def not_whole(path: Path, found: str) -> DataError:
    """The error about a file that is cut short or damaged."""
    return DataError(f"{path}: expected a whole picture, found {found}. Download or copy this file again.")


def no_picture(path: Path) -> DataError:
    """The error about a file that no reader can make a picture of, naming what it holds."""
    with open_file(path) as file:
        found = describe_content(file.read())
    return DataError(
        f"{path}: expected a picture ({', '.join(ALL_FORMATS)}), found {found}. Download or copy this file again."
    )
