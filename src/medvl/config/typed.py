"""From what Hydra composes to plain typed values, with every problem of it in one message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import BaseModel, ValidationError

from medvl.config.nearest import or_what
from medvl.config.rules import rule_problems
from medvl.config.schema import EntryConfig
from medvl.errors import ConfigError

Config = TypeVar("Config", bound=EntryConfig)


def to_typed(
    composed: DictConfig, root: type[Config], *, conf_dir: Path, choices: Mapping[str, str | None], overrides: list[str]
) -> Config:
    """Check a composed configuration and return it as plain values.

    Args:
        composed: What Hydra composed.
        root: Schema of the entry file.
        conf_dir: The folder `conf`, searched to name the file a wrong value comes from.
        choices: Group -> chosen option.
        overrides: Overrides of the command line.

    Raises:
        ConfigError: Listing all problems: key, value received, what is allowed, and where it was set.
    """
    config, problems = check(composed, root, conf_dir=conf_dir, choices=choices, overrides=overrides)
    if config is None or problems:
        raise ConfigError(problems)
    return config


def check(
    composed: DictConfig, root: type[Config], *, conf_dir: Path, choices: Mapping[str, str | None], overrides: list[str]
) -> tuple[Config | None, list[str]]:
    """Like `to_typed`, but returns the problems instead of raising."""
    missing = sorted(key for key in OmegaConf.missing_keys(composed) if not key.startswith("hydra."))
    problems = [f"{key} is not set: say {key}=..." for key in missing]
    try:
        values = OmegaConf.to_container(composed, resolve=True, throw_on_missing=False)
    except OmegaConfBaseException as error:
        return None, [*problems, f"{getattr(error, 'full_key', '') or 'configuration'}: {str(error).splitlines()[0]}"]
    assert isinstance(values, dict)
    values.pop("hydra", None)
    origin = _Origin(conf_dir, choices, overrides)
    try:
        config = root.model_validate(values)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            key = _dotted(detail["loc"])
            if key not in missing:
                problems.append(_sentence(key, detail, root, origin))
        return None, problems
    return config, problems + rule_problems(config)


class _Origin:
    """Finds where a key was set: on the command line or in which file of conf/."""

    def __init__(self, conf_dir: Path, choices: Mapping[str, str | None], overrides: list[str]) -> None:
        self.conf_dir, self.choices, self.overrides = conf_dir, choices, overrides

    def of(self, key: str) -> str:
        """`override lora.r=-1`, `conf/lora/r16.yaml:3`, or "" for a default."""
        for text in self.overrides:
            name = text.split("=", 1)[0].lstrip("+~")
            if name == key or key.startswith(f"{name}."):
                return f"override {text}"
        for group, option in reversed(list(self.choices.items())):
            if option is None or group.startswith("hydra"):
                continue
            found = self._in_file(self.conf_dir / group / f"{option}.yaml", group, key)
            if found:
                return found
        return ""

    def _in_file(self, path: Path, group: str, key: str) -> str:
        if not path.is_file():
            return ""
        text = path.read_text(encoding="utf-8")
        inside = key
        if "@package _global_" not in text.split("\n\n", 1)[0]:
            if not key.startswith(f"{group}."):
                return ""
            inside = key[len(group) + 1 :]
        line = key_line(text, inside.split("."))
        return f"{path.parent.parent.name}/{group}/{path.name}:{line}" if line else ""


def key_line(text: str, parts: Sequence[str]) -> int:
    """Line (from 1) at which a nested key stands in a YAML text, or 0 when it is not there."""
    node = yaml.compose(text)
    line = 0
    for part in parts:
        if not isinstance(node, yaml.MappingNode):
            return line
        for key, value in node.value:
            if key.value == part:
                node, line = value, key.start_mark.line + 1
                break
        else:
            return 0
    return line


def _dotted(loc: tuple[int | str, ...]) -> str:
    """Dotted key of a pydantic location, without the names of union members."""
    return ".".join(str(part) for part in loc if not (isinstance(part, str) and "[" in part))


def _sentence(key: str, detail: Any, root: type[BaseModel], origin: _Origin) -> str:
    """One problem as a sentence: key, what came, what is allowed, where it was set."""
    where = origin.of(key)
    place = f" ({where})" if where else ""
    if detail["type"] == "extra_forbidden":
        parent, _, name = key.rpartition(".")
        known = _fields(root, parent)
        inside = f"in {parent}" if parent else "at the top"
        return f"no key '{name}' {inside}{place}{or_what(name, known)}"
    message = str(detail["msg"]).removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    if detail["type"] == "value_error":
        return f"{key}: {message}{place}"
    if detail["type"] == "missing":
        return f"{key} is not set: say {key}=..."
    hint = ""
    if detail["type"] == "literal_error" and isinstance(detail["input"], str):
        allowed = [part.strip(" '") for part in str(detail["ctx"]["expected"]).replace(" or ", ", ").split(",")]
        hint = or_what(detail["input"], allowed) if detail["input"] not in allowed else ""
        hint = "" if hint.startswith("; known") else hint
    return f"{key}={detail['input']!r}: {message}{hint}{place}"


def _fields(root: type[BaseModel], dotted: str) -> list[str]:
    node: Any = root
    for part in [p for p in dotted.split(".") if p]:
        annotation = node.model_fields[part].annotation if part in getattr(node, "model_fields", {}) else None
        members = [annotation, *getattr(annotation, "__args__", ())]
        node = next((m for m in members if isinstance(m, type) and issubclass(m, BaseModel)), None)
        if node is None:
            return []
    return list(node.model_fields)
