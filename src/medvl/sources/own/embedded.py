"""Pictures that lie as bytes in a file: written out once, because items name pictures by path."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from medvl.errors import StorageError, disk_refusal

ENDINGS = (
    (b"\x89PNG", ".png"),
    (b"\xff\xd8", ".jpg"),
    (b"II*\x00", ".tif"),
    (b"MM\x00*", ".tif"),
    (b"GIF8", ".gif"),
    (b"BM", ".bmp"),
)
"""First bytes -> ending. Others get none: content decides how a picture is read."""


def store_picture(content: bytes, folder: Path) -> Path:
    """Write a picture under a name made of its content, unless it is there.

    Args:
        content: Encoded picture.
        folder: Folder, made when absent.

    Returns:
        Path of the file. Equal content has one file.

    Raises:
        StorageError: The file cannot be written.
    """
    ending = next((ending for start, ending in ENDINGS if content.startswith(start)), "")
    path = folder / f"{hashlib.sha256(content).hexdigest()[:24]}{ending}"
    try:
        if path.is_file() and path.stat().st_size == len(content):
            return path
        folder.mkdir(parents=True, exist_ok=True)
        # A killed run leaves a part of a picture under another name than the one that is looked for.
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        part.write_bytes(content)
        part.replace(path)
    except OSError as error:
        reason = disk_refusal(error) or error.strerror or error
        raise StorageError(
            f"the picture {path} cannot be written ({reason}); free space or choose another cache folder"
        ) from error
    return path
