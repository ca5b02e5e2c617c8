"""MetaImage files (.mha, .mhd): pictures, stacks of frames, and colour pictures stored as three planes.

A stack's frames lie along the first axis of the array that SimpleITK hands to numpy. One frame is read at a time.

A scalar uint8 volume of shape (3, H, W) is one RGB picture when no frame is asked for: that is how PSFHS and FH-PS-AOP
store their pictures. Asked for a frame, it is a stack of three like any other. All other stacks show their first frame
when none is asked for.

The files are read here rather than by SimpleITK, which follows a header to any file of the machine, and which gives out
memory that was never written, with a line on the console, where compressed pixels are damaged.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from medvl.errors import DataError
from medvl.imaging.formats import check_frame, check_size, not_whole, open_file
from medvl.imaging.notes import Note

RGB_PLANES = 3

ELEMENT_TYPES = {
    "MET_CHAR": "i1",
    "MET_UCHAR": "u1",
    "MET_SHORT": "i2",
    "MET_USHORT": "u2",
    "MET_INT": "i4",
    "MET_UINT": "u4",
    "MET_LONG": "i4",  # of 32 bits in this format, on every machine
    "MET_ULONG": "u4",
    "MET_LONG_LONG": "i8",
    "MET_ULONG_LONG": "u8",
    "MET_FLOAT": "f4",
    "MET_DOUBLE": "f8",
}

_HEADER_BYTES = 65536
_PART_BYTES = 1 << 20
_LINE = re.compile(rb"[ \t]*(\w+)[ \t]*=[ \t]*([^\r\n]*?)[ \t]*\r?\n")


@dataclass(frozen=True, slots=True)
class _Volume:
    """What a header says. `data` is the file with the pixels, which start at `start`; a picture has one frame."""

    width: int
    height: int
    frames: int
    channels: int
    dtype: np.dtype[Any]
    data: Path
    start: int
    is_packed: bool

    @property
    def is_planes(self) -> bool:
        """Whether it is one RGB picture when no frame is asked for."""
        return self.frames == RGB_PLANES and self.channels == 1 and self.dtype == np.uint8


def volume_size(path: Path) -> tuple[int, int]:
    """(width, height) of a frame, from the header."""
    volume = _header(path)
    return volume.width, volume.height


def volume_frames(path: Path) -> int:
    """Number of frames that can be asked for, from the header; 1 for a picture."""
    return _header(path).frames


def read_volume(path: Path, frame: int | None) -> tuple[npt.NDArray[Any], set[Note]]:
    """Read one picture with the values it is stored in.

    Args:
        path: .mha or .mhd file.
        frame: Frame of a stack; None reads a picture, three planes as colour, or the first frame.

    Returns:
        ([H, W] of any type or RGB uint8 [H, W, 3], what was done to it).

    Raises:
        DataError: The file is cut short, damaged, of another layout, or lacks the frame.
    """
    volume = _header(path)
    check_frame(frame or 0, volume.frames, path)
    if frame is None and volume.is_planes:
        return np.stack(list(_read(path, volume, 0, RGB_PLANES)), axis=-1), {Note.CHANNELS_FIRST}
    values = next(_read(path, volume, frame or 0, 1))
    return values, {Note.FRAME} if volume.frames > 1 else set()


def iter_frames(path: Path) -> Iterator[npt.NDArray[Any]]:
    """Read all frames of a stack in order, holding one at a time, with the values they are stored in.

    Yields:
        [H, W] of any type, or RGB uint8 [H, W, 3].

    Raises:
        DataError: As for `read_volume`.
    """
    volume = _header(path)
    yield from _read(path, volume, 0, volume.frames)


def _read(path: Path, volume: _Volume, first: int, count: int) -> Iterator[npt.NDArray[Any]]:
    shape = (volume.height, volume.width) + ((volume.channels,) if volume.channels > 1 else ())
    size = math.prod(shape) * volume.dtype.itemsize
    with open_file(volume.data) as file:
        file.seek(volume.start)
        if volume.is_packed:
            contents: Iterator[bytes] = islice(_unpacked(file, size, volume.frames), first, first + count)
        else:
            file.seek(size * first, 1)
            contents = (file.read(size) for _ in range(count))
        for content in contents:
            if len(content) < size:
                raise not_whole(path, "a MetaImage with damaged pixels")
            values = np.frombuffer(content, dtype=volume.dtype).reshape(shape)
            yield values if volume.dtype.isnative else values.astype(volume.dtype.newbyteorder("="))


def _unpacked(file: BinaryIO, size: int, count: int) -> Iterator[bytes]:
    """Decompressed frames, b"" for a damaged one. The checksum over all stands at the end and judges the last."""
    engine = zlib.decompressobj()
    try:
        for index in range(count):
            content = bytearray()
            while len(content) < size:
                packed = engine.unconsumed_tail or file.read(_PART_BYTES)
                part = engine.decompress(packed, size - len(content))
                if not packed and not part:
                    break
                content += part
            if index == count - 1 and not engine.eof:
                engine.decompress(engine.unconsumed_tail + file.read(_PART_BYTES), 1)
                content = content if engine.eof else bytearray()
            yield bytes(content)
    except zlib.error:
        yield b""


def _header(path: Path) -> _Volume:
    """Read the header and check that the pixels it promises are there."""
    with open_file(path) as file:
        head = file.read(_HEADER_BYTES)
        total = file.seek(0, 2)
    fields: dict[str, str] = {}
    start = 0
    while "ElementDataFile" not in fields and (line := _LINE.match(head, start)):
        fields[line[1].decode()] = line[2].decode("latin-1")
        start = line.end()
    try:
        sizes = [int(size) for size in fields["DimSize"].split()]
        channels = int(fields.get("ElementNumberOfChannels", "1"))
        is_big = any(_is_true(fields, name) for name in ("BinaryDataByteOrderMSB", "ElementByteOrderMSB"))
        dtype = np.dtype((">" if is_big else "<") + ELEMENT_TYPES[fields["ElementType"]])
        data_file = fields["ElementDataFile"]
        packed_bytes = int(fields.get("CompressedDataSize", "0"))
        skipped = int(fields.get("HeaderSize", "0"))
    except (KeyError, ValueError) as error:
        raise not_whole(path, f"a MetaImage header that cannot be read ({error})") from error
    is_text = not _is_true(fields, "BinaryData", default="True")
    is_picture = channels == 1 or (channels == RGB_PLANES and dtype == np.uint8)
    if is_text or not is_picture or len(sizes) not in (2, 3) or min(sizes) < 1:
        raise DataError(
            f"{path}: expected a binary MetaImage of 2 or 3 dimensions with one channel or 8-bit RGB, found sizes "
            f"{fields['DimSize']}, {channels} channel(s) of {fields['ElementType']}{' as text' if is_text else ''}. "
            "Convert the file."
        )
    width, height, frames = (*sizes, 1)[:3]
    check_size(width, height, path)
    data = path
    if data_file != "LOCAL":
        data, total = _beside(path, data_file)
    is_packed = _is_true(fields, "CompressedData")
    needed = packed_bytes if is_packed else width * height * frames * channels * dtype.itemsize
    if data_file != "LOCAL":
        start = total - needed if skipped == -1 else max(0, skipped)
    if start < 0 or total - start < needed:
        raise not_whole(path, f"a MetaImage cut short ({max(0, total - start)} of {needed} bytes of pixels)")
    return _Volume(width, height, frames, channels, dtype, data, start, is_packed)


def _is_true(fields: dict[str, str], name: str, default: str = "False") -> bool:
    return fields.get(name, default).casefold() in ("true", "1")


def _beside(path: Path, name: str) -> tuple[Path, int]:
    """A data file and its size. It must lie in the header's folder: a header could name any file of the machine."""
    if re.search(r"[/\\%:\s]", name) or name.upper() == "LIST":
        raise DataError(
            f"{path}: expected pixels in this file or in one file beside it, found ElementDataFile = {name!r}. "
            "Convert the file to one .mha."
        )
    data = path.with_name(name)
    with open_file(data) as file:
        return data, file.seek(0, 2)
