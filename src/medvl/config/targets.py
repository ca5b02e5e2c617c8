"""Checks `_target_` nodes against the signatures of what they name, so that a typo is no crash after an hour.

This imports the targets (and torch with them), so it comes last, once everything else of the configuration is right.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from hydra.utils import get_object

from medvl.config.nearest import or_what

HYDRA_KEYS = frozenset({"_target_", "_args_", "_convert_", "_partial_", "_recursive_"})


def target_problems(name: str, nodes: Mapping[str, Any]) -> list[str]:
    """Sentences about third-party nodes that could not be built; empty when all is well.

    Args:
        name: Where the nodes stand (`callbacks`).
        nodes: Name -> node with a `_target_`, or None for a node that is switched off.
    """
    problems = []
    for key, node in nodes.items():
        if node is None:
            continue
        if "_target_" not in node:
            problems.append(f"{name}.{key} has no _target_: say which class it is, or {name}.{key}=null")
        problems += _problems(f"{name}.{key}", node)
    return problems


def _problems(key: str, node: Any) -> Iterator[str]:
    if isinstance(node, list):
        for index, child in enumerate(node):
            yield from _problems(f"{key}.{index}", child)
    if isinstance(node, Mapping):
        if "_target_" in node:
            yield from _call_problems(key, node)
        for name, child in node.items():
            yield from _problems(f"{key}.{name}", child)


def _call_problems(key: str, node: Mapping[str, Any]) -> Iterator[str]:
    target = str(node["_target_"])
    try:
        signature = inspect.signature(get_object(target))
    except Exception as error:  # importing foreign code can raise anything
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        yield f"{key}._target_={target!r} cannot be imported: {reason}"
        return
    given = {name: value for name, value in node.items() if name not in HYDRA_KEYS}
    takes_any = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    known = [name for name, p in signature.parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    unknown = [] if takes_any else [name for name in given if name not in known]
    yield from (f"no key '{name}' in {key}: {target} does not take it{or_what(name, known)}" for name in unknown)
    if not unknown:
        try:
            bind = signature.bind_partial if node.get("_partial_") else signature.bind
            bind(*node.get("_args_", ()), **given)
        except TypeError as error:
            yield f"{key}: {target} cannot be called so: {error}"
