"""What medvl must know of an architecture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Family:
    """One architecture.

    Attributes:
        model_type: `model_type` in config.json.
        linear: Part (`language`, `vision`, `projector`) -> regular expression that matches the full names of its linear
            layers, anchored at the start of the model.
        attention: The same for its attention layers only; absent where a part has none.
        encodes_pictures_once: The questions of one picture in a batch can share its encoding (one row of `pixel_values`
            a picture, and features accepted in its place).
        idle: Configuration -> regular expression that matches the beginning of the names of layers whose output nothing
            uses. An adapter there would never learn.
    """

    model_type: str
    linear: dict[str, str]
    attention: dict[str, str]
    encodes_pictures_once: bool = False
    idle: Callable[[Any], str] | None = None
