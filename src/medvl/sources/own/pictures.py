"""Pictures of a whole folder tree."""

from __future__ import annotations

import os
from pathlib import Path

from medvl.sources.files import Files
from medvl.sources.listing import counted

PICTURE_ENDINGS = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".gif", ".webp", ".jp2", ".pgm", ".ppm", ".dcm")
"""Endings by which pictures are told from other files, in lower case."""


def list_tree(folder: Path, warnings: list[str]) -> tuple[dict[str, Path], Files]:
    """Files below a folder, in the order of their paths; hidden ones are passed over.

    Args:
        folder: Where to look.
        warnings: Takes a sentence about linked folders and about links that lead out, which are not followed.

    Returns:
        (pictures, text files), both by relative path as on disk.
    """
    pictures: dict[str, Path] = {}
    texts: dict[str, Path] = {}
    links: list[str] = []
    home = folder.resolve()
    for place, below, names in os.walk(folder):
        below[:] = sorted(name for name in below if not name.startswith((".", "__MACOSX")))
        links += [os.path.join(place, name) for name in below if os.path.islink(os.path.join(place, name))]
        for name in sorted(names):
            path = Path(place, name)
            if name.startswith("."):
                continue
            if path.is_symlink() and not path.resolve().is_relative_to(home):
                links.append(str(path))
                continue
            relative = path.relative_to(folder).as_posix()
            if name.casefold().endswith(PICTURE_ENDINGS):
                pictures[relative] = path
            elif name.casefold().endswith(".txt"):
                texts[relative] = path
    if links:
        warnings.append(f"{counted(links, 'link')} not followed; copy what they lead to there.")
    return pictures, Files(texts)
