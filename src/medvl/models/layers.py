"""The repeated transformer layers of a model's parts."""

from __future__ import annotations

import re
from typing import Any

from medvl.models.families import Family

_TRAINED_COPY = r"\.modules_to_save\.default"
"""What PEFT adds to the names of modules that are trained in full."""


def transformer_layers(model: Any, family: Family, part: str) -> dict[str, Any]:
    """Full name -> module of the repeated layers of a part; of those that PEFT trains in full, the trained copies.

    Args:
        model: A transformers image-text model, itself without PEFT's outer shell; it may be on the meta device.
        family: Its architecture.
        part: `language` or `vision`.
    """
    names = []
    for name, _ in model.named_modules():
        layer = re.match(rf"(.*?\.\d+(?:{_TRAINED_COPY})?)\.", name)
        if layer is not None and re.fullmatch(family.attention[part], re.sub(_TRAINED_COPY, "", name)):
            names.append(layer[1])
    return {name: model.get_submodule(name) for name in dict.fromkeys(names)}
