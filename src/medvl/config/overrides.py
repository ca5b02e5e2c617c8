"""Checks the overrides of a command line against the options in `conf/` and the keys of the schema.

Hydra stops at the first mistake and names no near match, so the overrides are looked at before it composes: all bad
ones are found, named, and the rest is composed so that its problems can be reported in the same message.
"""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any, Union, get_args, get_origin

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from pydantic import BaseModel

from medvl.config.nearest import or_what


def check_overrides(
    overrides: list[str], conf_dir: Path, root: type[BaseModel], groups: list[str]
) -> tuple[list[str], list[str]]:
    """Split overrides into those that can be composed and the problems of the others.

    Args:
        overrides: Raw overrides of the command line (`lora=r16`, `lora.r=8,16`).
        conf_dir: The folder `conf`.
        root: Schema of the whole configuration.
        groups: Config groups in the defaults list of the entry file.

    Returns:
        (good overrides as given, one sentence a bad override).
    """
    good, problems = [], []
    for text in overrides:
        try:
            override = OverridesParser.create().parse_override(text)
        except HydraException as error:
            first = str(error).splitlines()[0]
            problems.append(
                f"cannot read the override '{text}': {first}; write key=value "
                "without blanks around =, quote values that hold blanks"
            )
            continue
        problem = _group_problem(override, conf_dir, groups) or _key_problem(override, conf_dir, root, groups)
        if problem is None:
            good.append(text)
        else:
            problems.append(problem)
    return good, problems


def is_sweep(text: str) -> bool:
    """Whether an override gives several values (`lora.r=8,16`)."""
    return OverridesParser.create().parse_override(text).is_sweep_override()


def split_unknown(job: list[str], base: DictConfig, conf_dir: Path) -> tuple[list[str], list[str]]:
    """Split the overrides of one job into those whose key exists and the problems of the others.

    The schema says nothing about the keys of third-party nodes (`callbacks.checkpoint.monitor`), so these are looked up
    in what the options compose to.

    Args:
        job: Overrides of one job, none of them a sweep.
        base: The options without any value override.
        conf_dir: The folder `conf`.

    Returns:
        (good overrides as given, one sentence a bad override).
    """
    good, problems = [], []
    for text in job:
        override = OverridesParser.create().parse_override(text)
        key = override.key_or_group
        if override.is_add() or override.is_force_add() or _is_group(override, conf_dir) or key.startswith("hydra."):
            good.append(text)
            continue
        problem = _absent(key, base, text, conf_dir)
        if problem is None:
            good.append(text)
        else:
            problems.append(problem)
    return good, problems


def _absent(key: str, base: DictConfig, text: str, conf_dir: Path) -> str | None:
    node: Any = base
    parts = key.split(".")
    for depth, part in enumerate(parts):
        if not isinstance(node, DictConfig) or not OmegaConf.is_struct(node):
            return None
        if part not in node.keys():  # noqa: SIM118  # `in node` is False for a key whose value is ???
            where = f"in {'.'.join(parts[:depth])}" if depth else "at the top"
            tail = "" if text.startswith("~") else f"; +{text} adds a new key"
            return f"'{text.removesuffix('=null')}': no key '{part}' {where}{or_what(part, map(str, node))}{tail}"
        node = node._get_node(part)
        if depth == 0 and len(parts) > 1 and node._is_none() and (names := options_of(conf_dir, part)):
            return f"'{text}': no {part} is chosen; say {part}=NAME first, one of {', '.join(names)}"
    return None


def options_of(conf_dir: Path, group: str) -> list[str]:
    """Names of the options of a config group."""
    return sorted(path.stem for path in (conf_dir / group).glob("*.yaml"))


def _is_group(override: Override, conf_dir: Path) -> bool:
    return (conf_dir / override.key_or_group).is_dir()


def _values(override: Override) -> list[Any]:
    """All values of an override: the single one, or each of a sweep."""
    if override.is_choice_sweep() and override.value_type is not None:
        return list(override.sweep_iterator())
    return [override.value()]


def _group_problem(override: Override, conf_dir: Path, groups: list[str]) -> str | None:
    group = override.key_or_group
    if not _is_group(override, conf_dir) or override.is_delete():
        return None
    if group not in groups:
        return f"'{group}={override.value()}': this command has no group '{group}'; it takes {', '.join(groups)}"
    known = options_of(conf_dir, group)
    for value in _values(override):
        names = value if isinstance(value, list) else [value]
        for name in names:
            if name is not None and str(name).strip("'\"") not in known:
                other = "; a local model of a supported architecture: model.path=DIR" if group == "model" else ""
                return f"'{group}={name}': conf/{group} has no option '{name}'{or_what(str(name), known)}{other}"
    return None


def _key_problem(override: Override, conf_dir: Path, root: type[BaseModel], groups: list[str]) -> str | None:
    key = override.key_or_group
    if _is_group(override, conf_dir) or key.split(".")[0].split("/")[0] == "hydra":
        return None
    if "/" in key or "@" in (override.input_line or "").partition("=")[0]:
        return f"'{override.input_line}': conf has no group '{key}'{or_what(key, groups)}"
    return _walk(override, root, groups)


def _walk(override: Override, root: type[BaseModel], groups: list[str]) -> str | None:
    """Follow a dotted key through the schema; the problem at the first part that does not exist, else None."""
    key, text = override.key_or_group, str(override.input_line)
    node: type[BaseModel] | None = root
    entry: type[BaseModel] | None = None
    parts = key.split(".")
    for depth, part in enumerate(parts):
        if entry is not None and part.isdigit():
            node, entry = entry, None
            continue
        if node is None:
            where = ".".join(parts[:depth])
            kind = "value" if entry is None else f"list, {where}.0 its first entry,"
            return f"'{text}': {where} is a {kind} and has no key '{part}'"
        if part not in node.model_fields:
            known = {*node.model_fields, *groups} if depth == 0 else set(node.model_fields)
            where = f"in {'.'.join(parts[:depth])}" if depth else "at the top"
            elsewhere = [place for place in _places(root) if place.rsplit(".", 1)[-1] == parts[-1]]
            hint = f"; did you mean {', '.join(elsewhere)}?" if elsewhere else or_what(part, known)
            return f"'{text}': no key '{part}' {where}{hint}"
        annotation = node.model_fields[part].annotation
        entry = entry_node(annotation)
        node, is_free = _inner(annotation)
        if is_free:
            return None
    if entry is not None and any(isinstance(value, dict) for value in _values(override)):
        return f"'{text}': {key} is a list, so its entries stand in brackets: {key}=[{{...}}]"
    return None


def _places(node: type[BaseModel], prefix: str = "") -> list[str]:
    """Dotted keys of all values of a schema."""
    found = []
    for name, info in node.model_fields.items():
        below, _ = _inner(info.annotation)
        found += [f"{prefix}{name}"] if below is None else _places(below, f"{prefix}{name}.")
    return found


def entry_node(annotation: Any) -> type[BaseModel] | None:
    """Schema node that each entry of a list is, or None for any other value."""
    if get_origin(annotation) is not list:
        return None
    (kind,) = get_args(annotation)
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _inner(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    """(schema node behind an annotation or None, whether any key may follow)."""
    candidates = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
    for candidate in candidates:
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate, False
        if get_origin(candidate) is dict:
            return None, True
    return None, False
