"""Each distinct picture of a batch goes through the image processor once, however many questions show it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from medvl.batching.inputs import TOKENWISE

PIXELS = ("pixel_values", "pixel_attention_mask")
"""What an image processor makes of the pixels themselves. All else tells how a row has to be written."""


def encode(
    processor: Any, texts: Sequence[str], pictures: Sequence[Image.Image], picture_of: Sequence[int], **settings: Any
) -> dict[str, Tensor]:
    """Let a processor make the inputs of a batch.

    Args:
        processor: A transformers processor. It is left as it is.
        texts: The text of each row, with the processor's placeholder for its picture.
        pictures: Distinct pictures in the order in which they first appear. Empty for rows without pictures.
        picture_of: For each row, the number of its picture.
        settings: Passed on.

    Returns:
        What the processor makes, where inputs that are about pictures hold each picture once, not each row.
    """
    if not pictures:
        return _tensors(processor(text=list(texts), **settings))
    images = _Once(processor.image_processor, picture_of)
    own = copy.copy(processor)
    own.image_processor = images
    found = _tensors(own(text=list(texts), images=[[pictures[number]] for number in picture_of], **settings))
    first = [list(picture_of).index(number) for number in range(len(pictures))]
    return {
        name: value if name in TOKENWISE else images.pixels[name] if name in images.pixels else value[first]
        for name, value in found.items()
    }


class _Once:
    """An image processor that looks at each distinct picture once, and tells of it as often as it is shown.

    It pads to the largest picture of a call, so what it makes of the distinct pictures is what it makes of all.

    Attributes:
        pixels: What it made of the pixels, each picture once.
    """

    def __init__(self, images: Any, picture_of: Sequence[int]) -> None:
        self._images = images
        self._picture_of = list(picture_of)
        self.pixels: dict[str, Tensor] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._images, name)

    def __call__(self, images: Sequence[Sequence[Image.Image]], **settings: Any) -> Any:
        count = len(set(self._picture_of))
        distinct = [images[self._picture_of.index(number)] for number in range(count)]
        found = self._images(images=distinct, **settings)
        for name, value in list(found.items()):
            if name in PIXELS:
                self.pixels[name] = value
                if len(value) == count:  # the processor may ask for the shape of a row's picture: nothing is copied
                    found[name] = value[:1].expand(len(images), *value.shape[1:])
            elif len(value) != count:
                raise ValueError(f"{name} has {len(value)} entries for {count} pictures; this layout is unknown")
            elif isinstance(value, Tensor):
                found[name] = value[self._picture_of]
            else:
                found[name] = [value[number] for number in self._picture_of]
        return found


def _tensors(encoded: Any) -> dict[str, Tensor]:
    return {name: value for name, value in encoded.items() if isinstance(value, torch.Tensor)}
