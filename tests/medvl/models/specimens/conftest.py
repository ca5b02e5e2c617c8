"""All specimens, built and loaded once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor

from medvl.models.specimens import SPECIMENS, specimen_folder


class Shelf:
    """Specimens by name. Shared: leave what it hands out as it is."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self._loaded = {}

    def folder(self, name):
        if name == "tiny_smolvlm":
            pytest.importorskip("num2words", reason="SmolVLM's processor needs num2words")
        return specimen_folder(name, self.cache)

    def load(self, name, *, fresh=False):
        """The model, in evaluation mode and float32, and its processor."""
        if name not in self._loaded or fresh:
            model = AutoModelForImageTextToText.from_pretrained(self.folder(name), dtype=torch.float32)
            loaded = model.eval(), AutoProcessor.from_pretrained(self.folder(name))
            if fresh:
                return loaded
            self._loaded[name] = loaded
        return self._loaded[name]

    def text(self, name, *turns, prompt=False):
        """What the chat template writes; a turn is (role, part, ...), a part text or None for a picture."""
        return self.load(name)[1].apply_chat_template(messages(*turns), tokenize=False, add_generation_prompt=prompt)

    def inputs(self, name, picture, text="Is there a mass?\nA. yes\nB. no"):
        """Tensors of a prompt with one picture."""
        processor = self.load(name)[1]
        return processor.apply_chat_template(
            messages(("user", picture, text)),
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
        )


def messages(*turns):
    part_of = {str: lambda part: {"type": "text", "text": part}, type(None): lambda _: {"type": "image"}}
    as_picture = lambda part: {"type": "image", "image": part}  # noqa: E731
    return [
        {"role": role, "content": [part_of.get(type(part), as_picture)(part) for part in parts]}
        for role, *parts in turns
    ]


def draw(seed, width=100, height=80):
    """A bright disc on noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    disc = (x - rng.uniform(20, width - 20)) ** 2 + (y - rng.uniform(20, height - 20)) ** 2 < 15**2
    pixels = rng.integers(0, 60, (height, width, 3)) + 180 * disc[..., None]
    return Image.fromarray(pixels.astype(np.uint8))


@pytest.fixture(scope="session")
def shelf(tmp_path_factory):
    return Shelf(tmp_path_factory.mktemp("specimens"))


@pytest.fixture(scope="session", params=SPECIMENS)
def name(request, shelf):
    """Each specimen's name in turn."""
    shelf.folder(request.param)
    return request.param


@pytest.fixture(scope="session")
def pictures():
    """Three different pictures of one size."""
    return [draw(seed) for seed in range(3)]


@pytest.fixture(scope="session")
def picture_of():
    """Width, height -> a picture of that size."""
    return lambda width, height: draw(0, width, height)
