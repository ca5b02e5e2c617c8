"""From what Hydra composes to plain typed values, with every problem of it in one message."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import yaml
from omegaconf import DictConfig, ListConfig
from omegaconf.errors import InterpolationToMissingValueError, MissingMandatoryValue, OmegaConfBaseException
from pydantic import BaseModel, ValidationError

from medvl.config.nearest import nearest, or_what
from medvl.config.rules import rule_problems
from medvl.config.schema import BuildConfig
from medvl.errors import ConfigError

Config = TypeVar("Config", bound=BuildConfig)

LONGEST_OVERRIDE = 80
"""Characters of an override that a message repeats."""

USER_OF_ADDRESS = re.compile(r"//[^/@]*@")
"""User and password of a web address, which no message repeats."""


def to_typed(
    composed: DictConfig,
    root: type[Config],
    *,
    conf_dir: Path,
    choices: Mapping[str, str | None],
    overrides: list[str],
    config_name: str = "",
) -> Config:
    """Check a composed configuration and return it as plain values.

    Args:
        composed: What Hydra composed.
        root: Schema of the entry file.
        conf_dir: The folder `conf`, searched to name the file a wrong value comes from.
        choices: Group -> chosen option.
        overrides: Overrides of the command line.
        config_name: File in `conf_dir` with the defaults list (`train`), searched last.

    Raises:
        ConfigError: Listing all problems: key, value received, what is allowed, and where it was set.
    """
    config, problems = check(
        composed, root, conf_dir=conf_dir, choices=choices, overrides=overrides, config_name=config_name
    )
    if config is None or problems:
        raise ConfigError(problems)
    return config


def check(
    composed: DictConfig,
    root: type[Config],
    *,
    conf_dir: Path,
    choices: Mapping[str, str | None],
    overrides: list[str],
    config_name: str = "",
) -> tuple[Config | None, list[str]]:
    """Like `to_typed`, but returns the problems instead of raising."""
    unset: dict[str, str | None] = {}
    values = _plain(composed, "", unset)
    origin = _Origin(conf_dir, choices, overrides, config_name)
    problems = [
        f"{key}: {why}{origin.place(key)}" if why else f"{key} is not set: say {key}=..."
        for key, why in unset.items()
        if why is not None
    ]
    try:
        config = root.model_validate(values)
    except ValidationError as error:
        for key, details in _by_key(error, root).items():
            if key not in unset:
                problems.append(_sentence(key, details, root, origin))
        return None, problems
    return config, problems + rule_problems(config)


def _plain(node: Any, key: str, unset: dict[str, str | None]) -> Any:
    """Plain values of a node, interpolations resolved.

    Args:
        node: Mapping, list or value.
        key: Its dotted key.
        unset: Receives each key without a value -> why, "" for `???`, None for a reference to a `???` (which is
            reported itself). Its place holds "???".
    """
    if isinstance(node, DictConfig):
        inside = key and f"{key}."
        names = [str(name) for name in node if inside or name != "hydra"]
        return {name: _value(node, name, f"{inside}{name}", unset) for name in names}
    if isinstance(node, ListConfig):
        return [_value(node, index, f"{key}.{index}", unset) for index in range(len(node))]
    return node


def _value(parent: Any, name: Any, key: str, unset: dict[str, str | None]) -> Any:
    try:
        child = parent[name]
    except MissingMandatoryValue:
        unset[key] = ""
        return "???"
    except InterpolationToMissingValueError:
        unset[key] = None
        return "???"
    except OmegaConfBaseException as error:
        unset[key] = str(error).splitlines()[0]
        return "???"
    return _plain(child, key, unset)


class _Origin:
    """Finds where a key was set: on the command line or in which file of conf/."""

    def __init__(
        self, conf_dir: Path, choices: Mapping[str, str | None], overrides: list[str], config_name: str
    ) -> None:
        self.conf_dir, self.choices, self.config_name = conf_dir, choices, config_name
        self.overrides = overrides

    def place(self, key: str) -> str:
        """` (override lora.r=-1)`, or "" for a default."""
        where = self.of(key)
        return f" ({where})" if where else ""

    def of(self, key: str) -> str:
        """`override lora.r=-1`, `conf/lora/r16.yaml:3`, or "" for a default."""
        for text in reversed(self.overrides):
            name = text.split("=", 1)[0].lstrip("+~")
            if name not in self.choices and (name == key or key.startswith(f"{name}.")):
                text = USER_OF_ADDRESS.sub("//***@", text)
                return f"override {text if len(text) <= LONGEST_OVERRIDE else f'{text[:LONGEST_OVERRIDE]}...'}"
        for group, option in reversed(list(self.choices.items())):
            if option is None or group.startswith("hydra"):
                continue
            found = self._in_file(self.conf_dir / group / f"{option}.yaml", group, key)
            if found:
                return found
        return self._in_file(self.conf_dir / f"{self.config_name}.yaml", "", key)

    def _in_file(self, path: Path, group: str, key: str) -> str:
        if not path.is_file():
            return ""
        text = path.read_text(encoding="utf-8")
        inside = key
        if group and "@package _global_" not in text.split("\n\n", 1)[0]:
            if not key.startswith(f"{group}."):
                return ""
            inside = key[len(group) + 1 :]
        line = key_line(text, inside.split("."))
        return f"{(self.conf_dir.name / path.relative_to(self.conf_dir)).as_posix()}:{line}" if line else ""


def key_line(text: str, parts: Sequence[str]) -> int:
    """Line (from 1) at which a nested key stands in a YAML text, or 0 when it is not there."""
    node = yaml.compose(text)
    line = 0
    for part in parts:
        if isinstance(node, yaml.SequenceNode) and part.isdigit() and int(part) < len(node.value):
            node = node.value[int(part)]
            line = node.start_mark.line + 1
            continue
        if not isinstance(node, yaml.MappingNode):
            return line
        for key, value in node.value:
            if key.value == part:
                node, line = value, key.start_mark.line + 1
                break
        else:
            return 0
    return line


def _by_key(error: ValidationError, root: type[BaseModel]) -> dict[str, list[Any]]:
    """Details by dotted key: a value that may be of several types has one detail for each of them."""
    details: dict[str, list[Any]] = {}
    for detail in error.errors(include_url=False):
        details.setdefault(_dotted(detail["loc"], root), []).append(detail)
    return details


def _dotted(loc: tuple[int | str, ...], root: type[BaseModel]) -> str:
    """Dotted key of a pydantic location, without the names of union members."""
    parts: list[str] = []
    kind: Any = root
    for part in loc:
        kind = _container(kind)
        if kind is None:
            break
        parts.append(str(part))
        kind = _below(kind, str(part))
    return ".".join(parts)


def _below(kind: Any, part: str) -> Any:
    """Annotation of one part of a key in a schema class, dict or list; None when there is none."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind.model_fields[part].annotation if part in kind.model_fields else None
    return get_args(kind)[-1]


def _container(annotation: Any) -> Any:
    """The schema class, dict or list behind an annotation, or None when it is a single value."""
    for candidate in (annotation, *get_args(annotation)):
        if get_origin(candidate) in (dict, list) or (isinstance(candidate, type) and issubclass(candidate, BaseModel)):
            return candidate
    return None


def _sentence(key: str, details: Sequence[Any], root: type[BaseModel], origin: _Origin) -> str:
    """One problem as a sentence: key, what came, what is allowed, where it was set."""
    detail, place = details[0], origin.place(key)
    if not detail["loc"]:  # a rule over several nodes names its keys itself
        return str(detail["msg"]).removeprefix("Value error, ")
    parent, _, name = key.rpartition(".")
    inside = f"in {parent}" if parent else "at the top"
    if detail["type"] == "extra_forbidden":
        return f"no key '{name}' {inside}{place}{or_what(name, _fields(root, parent))}"
    if detail["loc"][-1] == "[key]":
        return f"no key '{name}' {inside}{place}{or_what(name, _allowed(detail))}"
    message = " or ".join(_lower(str(d["msg"]).removeprefix("Value error, ")) for d in details)
    if detail["type"] == "value_error":
        return f"{key}: {message}{place}"
    if detail["type"] == "missing":
        return f"{key} is not set: say {key}=..."
    hint = ""
    if detail["type"] == "literal_error" and nearest(str(detail["input"]), _allowed(detail)):
        hint = or_what(str(detail["input"]), _allowed(detail))
    if detail["type"] == "string_type" and isinstance(detail["input"], (int, float)):
        hint = f"; as text it needs quotes within quotes: {key}=\"'{detail['input']}'\""
    return f"{key}={detail['input']!r}: {message}{hint}{place}"


def _allowed(detail: Any) -> list[str]:
    return [part.strip(" '") for part in str(detail["ctx"]["expected"]).replace(" or ", ", ").split(",")]


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]


def _fields(root: type[BaseModel], dotted: str) -> list[str]:
    kind: Any = root
    for part in [p for p in dotted.split(".") if p]:
        kind = _container(_below(kind, part))
        if kind is None:
            return []
    return list(kind.model_fields) if isinstance(kind, type) and issubclass(kind, BaseModel) else []
