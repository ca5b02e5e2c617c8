"""What medvl must know of an architecture."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Family:
    """One architecture.

    Attributes:
        model_type: `model_type` in config.json.
        linear: Part (`language`, `vision`, `projector`) -> regular expression that matches the full names of its linear
            layers, anchored at the start of the model.
        attention: The same for its attention layers only; absent where a part has none.
    """

    model_type: str
    linear: dict[str, str]
    attention: dict[str, str]
