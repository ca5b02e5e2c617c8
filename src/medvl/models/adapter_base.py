"""Which base an adapter is to be put on: the one of its run record, or a folder that is named instead."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from medvl.config.schema import ModelConfig
from medvl.errors import ModelError
from medvl.models.locate import find_base
from medvl.models.record import RECORD_FILE, read_record

DTYPES = get_args(ModelConfig.model_fields["dtype"].annotation)
"""Precisions that weights are held in."""


def record_of(adapter: Path) -> dict[str, Any] | None:
    """The run record of an adapter; None for an adapter that something else than medvl trained.

    Raises:
        ModelError: The folder holds no adapter, or a record that cannot be read.
    """
    if (adapter / "adapter_config.json").is_file() and not (adapter / RECORD_FILE).is_file():
        return None
    return read_record(adapter)


def base_of(adapter: Path, record: dict[str, Any] | None, base: str | None) -> ModelConfig:
    """The base model that an adapter belongs on, as it was trained.

    Args:
        adapter: Adapter folder.
        record: Its run record, or None.
        base: Folder with the base, in place of what the record says; also `builtin:...` and `specimen:...`.

    Raises:
        ModelError: Neither names a base, or it is not on this machine.
    """
    if record is not None:
        try:
            config = ModelConfig.model_validate(record["config"]["model"])
        except ValidationError as error:
            if base is None:
                raise ModelError(
                    f"{adapter / RECORD_FILE} does not say which base it was trained on ({error.errors()[0]['msg']}); "
                    "say --base DIR"
                ) from None
        else:
            return _found(config if base is None else config.model_copy(update={"path": base}))
    if base is None:
        raise ModelError(
            f"{adapter} has no {RECORD_FILE}, so medvl does not know its base (its adapter_config.json names "
            f"{_named_base(adapter) or 'none'}); say --base DIR with the folder of that model"
        )
    config = _found(ModelConfig(name=base if ":" in base else Path(base).name, path=base))
    return config.model_copy(update={"dtype": _stored_dtype(find_base(config))})


def _found(config: ModelConfig) -> ModelConfig:
    """The same, once it is sure that the base is on this machine."""
    try:
        find_base(config)
    except ModelError as error:
        raise ModelError(f"{error} (for this command: --base DIR)") from None
    return config


def _named_base(adapter: Path) -> str | None:
    try:
        name = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))["base_model_name_or_path"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return None if name is None else str(name)


def _stored_dtype(folder: Path) -> str:
    """Precision that a model folder's config.json names; bfloat16 where it names none that medvl loads."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        parts = (config, config.get("text_config") or {})
        named = [part.get(key) for part in parts for key in ("dtype", "torch_dtype")]
    except (OSError, ValueError, AttributeError):
        named = []
    return next((str(name) for name in named if name in DTYPES), "bfloat16")
