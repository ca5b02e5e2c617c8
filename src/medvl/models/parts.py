"""Which part of a model a parameter belongs to: language, vision or projector."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from torch import nn

from medvl.errors import ModelError
from medvl.models.families import Family


def part_of(name: str, family: Family) -> str:
    """Part of a parameter or module, by its full name; an adapter's own parameters count to the layer they sit on.

    Raises:
        ModelError: The family's patterns put it nowhere.
    """
    bare = name.removeprefix("base_model.model.")
    for part, root in family.roots.items():
        if re.match(root, bare):
            return part
    raise ModelError(f"{name} belongs to no part of {family.title}; its patterns do not fit this model")


def part_sizes(model: nn.Module, family: Family) -> dict[str, int]:
    """Part -> number of parameters, adapters left out; tied weights count once."""
    sizes: Counter[str] = Counter(dict.fromkeys(family.roots, 0))
    for name, parameter in model.named_parameters():
        if "lora_" not in name and "modules_to_save" not in name:
            sizes[part_of(name, family)] += parameter.numel()
    return dict(sizes)


def whole_modules(model: nn.Module, family: Family, parts: Sequence[str]) -> list[str]:
    """Full names of the modules of parts that can be trained in full, each as large as can be taken as one.

    A list of layers is taken layer by layer. What stays as it is: parameters that belong to no module below the part's
    own (a class embedding, say), and embeddings and output layer where they are tied, since a copy of one would come
    loose from the other.

    Raises:
        ModelError: A part without such a module.
    """
    names: list[str] = []
    tied = _tied(model)
    for part in parts:
        found = [name for name in _topmost(model, "", family, part) if model.get_submodule(name) not in tied]
        if not found:
            raise ModelError(f"model.train_parts: {family.title} has no module in {part}")
        names += found
    return names


def _tied(model: Any) -> list[nn.Module]:
    ends = [model.get_input_embeddings(), model.get_output_embeddings()]
    return ends if ends[1] is not None and ends[0].weight is ends[1].weight else []


def _topmost(module: nn.Module, prefix: str, family: Family, part: str) -> Iterator[str]:
    for child_name, child in module.named_children():
        name = f"{prefix}{child_name}"
        owners = {part_of(f"{name}.{inner}", family) for inner, _ in child.named_parameters()}
        if part not in owners:
            continue
        if owners == {part} and _is_called(child) and not _holds_a_list(child):
            yield name
        else:
            yield from _topmost(child, f"{name}.", family, part)


def _is_called(module: nn.Module) -> bool:
    return not isinstance(module, (nn.ModuleList, nn.ModuleDict))


def _holds_a_list(module: Any) -> bool:
    """Whether layers lie below: the owner of a tower or decoder reads its attributes, a layer is only called."""
    return any(isinstance(child, nn.ModuleList) and len(child) for child in module.modules() if child is not module)
