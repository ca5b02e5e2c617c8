"""Each distinct picture of a batch goes through the image processor once, however many questions show it."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch


def with_pictures_once(processor: Any) -> Any:
    """A copy of a processor whose image processor looks at each distinct picture of a call once.

    Args:
        processor: A transformers processor. It is left as it is.
    """
    own = copy.copy(processor)
    own.image_processor = _Once(processor.image_processor)
    return own


class _Once:
    """An image processor that prepares a picture once where the very same object is given several times.

    What it returns is what the image processor itself would return: it pads to the largest picture of a call, and the
    distinct pictures of a call have the same largest one.
    """

    def __init__(self, images: Any) -> None:
        self._images = images

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked for while the object is copied or unpickled
            raise AttributeError(name)
        return getattr(self._images, name)

    def __call__(self, images: Sequence[Sequence[Any]], **settings: Any) -> Any:
        numbers: dict[tuple[int, ...], int] = {}
        places = [numbers.setdefault(tuple(map(id, row)), len(numbers)) for row in images]
        if len(numbers) == len(images):
            return self._images(images=images, **settings)
        found = self._images(images=[images[places.index(number)] for number in range(len(numbers))], **settings)
        return type(found)(data=_repeated(found, places, len(numbers)))


def _repeated(found: Mapping[str, Any], places: list[int], distinct: int) -> dict[str, Any]:
    """What an image processor made of distinct pictures, for rows that show them.

    Raises:
        ValueError: Something it made has neither an entry a picture nor a known number of them.
    """
    entries = _entries_of(found)
    repeated: dict[str, Any] = {}
    for name, value in found.items():
        if name == "pixel_values" and entries is not None:
            parts = torch.split(value, entries)
            repeated[name] = torch.cat([parts[place] for place in places])
        elif len(value) != distinct:
            raise ValueError(f"{name} has {len(value)} entries for {distinct} pictures; this layout is unknown")
        else:
            repeated[name] = value[places] if isinstance(value, torch.Tensor) else [value[place] for place in places]
    return repeated


def _entries_of(found: Mapping[str, Any]) -> list[int] | None:
    """Rows of `pixel_values` that each picture takes where it is not one: patches (Qwen) or tiles (InternVL)."""
    if "image_grid_thw" in found:
        return [int(patches) for patches in found["image_grid_thw"].prod(dim=-1)]
    if "num_patches" in found:
        return [int(tiles) for tiles in found["num_patches"]]
    return None
