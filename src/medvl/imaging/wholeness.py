"""Is a picture file whole, and if it is no picture, what is it?

PNG and JPEG are walked by their own structure. A decoder that has been told to accept cut files (a global switch that
any library in the process may set) would return a picture whose lower half is grey; this check does not depend on it.
"""

from __future__ import annotations

import re
import struct
import zlib

PNG_START = b"\x89PNG\r\n\x1a\n"
JPEG_START = b"\xff\xd8\xff"

# A marker inside entropy-coded data: not a stuffed 00, not a restart mark, not fill.
_JPEG_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")

_KNOWN_CONTENT = (
    (PNG_START, "a damaged PNG"),
    (JPEG_START, "a damaged JPEG"),
    (b"PK\x03\x04", "a ZIP archive or Office file"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"%PDF", "a PDF document"),
    (b"version https://git-lfs", "a Git LFS pointer (the picture itself was not downloaded)"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"ObjectType =", "a MetaImage (.mha) volume"),
)


def find_damage(content: bytes) -> str:
    """Say what is wrong with the bytes of a PNG or JPEG file.

    Returns:
        "" when the file ends where its format says it does (or is of another format), else what was found.
    """
    if not content:
        return "an empty file (0 bytes)"
    if content.startswith(PNG_START):
        return _png_damage(content)
    if content.startswith(JPEG_START):
        return _jpeg_damage(content)
    return ""


def describe_content(content: bytes) -> str:
    """Name what a file that is no readable picture holds, in words for a message."""
    for start, name in _KNOWN_CONTENT:
        if content.startswith(start):
            return name
    if content[128:132] == b"DICM":
        return "a DICOM file"
    head = content[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if head.startswith((b"<!doctype html", b"<html")):
        return "an HTML page (a failed download or a login page)"
    if content and all(byte in b"\t\r\n" or 32 <= byte < 127 for byte in content[:512]):
        return "text"
    return f"{len(content)} bytes of an unknown or damaged format"


def _png_damage(content: bytes) -> str:
    """Walk the chunks to IEND and verify each checksum (PNG specification, section 5.3)."""
    position = len(PNG_START)
    while True:
        head = content[position : position + 8]
        if len(head) < 8:
            return f"a PNG cut after {len(content)} bytes (no end mark)"
        length, kind = struct.unpack(">I4s", head)
        end = position + 12 + length
        if end > len(content):
            return f"a PNG cut after {len(content)} bytes (a part of {length} bytes is not complete)"
        checksum = struct.unpack(">I", content[end - 4 : end])[0]
        if zlib.crc32(memoryview(content)[position + 4 : end - 4]) != checksum:
            return f"a PNG with a wrong checksum at byte {position}"
        if kind == b"IEND":
            return ""
        position = end


def _jpeg_damage(content: bytes) -> str:
    """Walk the segments to the end-of-image mark (ITU-T T.81, annex B)."""
    cut = f"a JPEG cut after {len(content)} bytes (no end mark)"
    position = 2
    while True:
        found = _JPEG_MARKER.search(content, position)
        if found is None:
            return cut
        marker = content[found.start() + 1]
        if marker == 0xD9:
            return ""
        if marker in (0x01, 0xD8):  # TEM and SOI stand alone, without a length
            position = found.end()
            continue
        size = content[found.end() : found.end() + 2]
        if len(size) < 2:
            return cut
        position = found.end() + struct.unpack(">H", size)[0]
