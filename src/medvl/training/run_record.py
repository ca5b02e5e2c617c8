"""Judges an adapter in the way it was trained: the configuration and fingerprints of its run record."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from medvl.config.entry import Job
from medvl.config.schema import EvaluateConfig, ModelConfig
from medvl.errors import ModelError
from medvl.models.record import read_record
from medvl.training.candidates import find_candidates

NODES = ("seed", "model", "data", "benchmark", "eval", "debug")
"""Parts of the configuration that an adapter is judged with unless the command line says otherwise."""


def recorded_config(composed: dict[str, Any]) -> dict[str, Any]:
    """The part of a training run's configuration that its adapter is judged with."""
    return {name: composed[name] for name in NODES}


def with_run_record(job: Job[EvaluateConfig]) -> Job[EvaluateConfig]:
    """The job with everything that the command line does not set taken from the adapter's run record.

    With several adapters (`compare`) it is that of the first: all of them are asked the same.

    Raises:
        ModelError: The folder holds no adapter that medvl trained.
        ConfigError: See `find_candidates`.
    """
    config = job.config
    if config.compare:
        found = find_candidates(config.compare, config.adapter, job.overrides)
        return _with_record_of(job, found.runs[0].adapter)
    return job if config.adapter is None else _with_record_of(job, Path(config.adapter))


def model_of(job: Job[EvaluateConfig], adapter: Path) -> ModelConfig:
    """The base that an adapter belongs on, by its run record and the command line."""
    return _with_record_of(job, adapter).config.model


def models_of(job: Job[EvaluateConfig]) -> list[ModelConfig]:
    """All bases that a job loads, in this order, each once; `job` is one of `with_run_record`."""
    config = job.config
    if not config.compare:
        return [config.model]
    found = find_candidates(config.compare, config.adapter, job.overrides)
    adapters = [*found.runs, *([] if found.baseline is None else [found.baseline])]
    models = [model_of(job, one.adapter) for one in adapters]
    return [model for number, model in enumerate(models) if model not in models[:number]]


def _with_record_of(job: Job[EvaluateConfig], adapter: Path) -> Job[EvaluateConfig]:
    recorded = read_record(adapter)["config"]
    composed = copy.deepcopy(job.composed)
    keys = [text.split("=", 1)[0].lstrip("+~") for text in job.overrides]
    for node in NODES:
        if node in keys or node not in recorded:
            continue
        composed[node] = copy.deepcopy(recorded[node])
        for key in keys:
            if key.startswith(f"{node}."):
                _set(composed, key.split("."), _get(job.composed, key.split(".")))
    return Job(EvaluateConfig.model_validate(composed), composed, job.overrides)


def check_same(adapter: Path, fingerprints: dict[str, str], overrides: list[str]) -> str:
    """Compare what an adapter was trained with against what it is about to be judged with.

    Args:
        adapter: Adapter folder.
        fingerprints: Fingerprints of now.
        overrides: Overrides of the command line; another benchmark is allowed when it was asked for.

    Returns:
        Fingerprint of the adapter's weights as it was saved.

    Raises:
        ModelError: Listing each fingerprint that differs.
    """
    trained = read_record(adapter)["fingerprints"]
    asked = any(text.startswith(("data", "benchmark", "seed", "debug")) for text in overrides)
    differing = [
        f"{name}: trained with {trained.get(name)}, now {value}"
        for name, value in fingerprints.items()
        if trained.get(name) != value and not (name == "benchmark" and asked)
    ]
    if differing:
        raise ModelError(
            f"the adapter {adapter} was trained with something else:\n  "
            + "\n  ".join(differing)
            + "\n  use the base model, processor and data of its run, or name another benchmark with data=..."
        )
    return str(trained["adapter"])


def _get(values: dict[str, Any], path: list[str]) -> Any:
    for part in path:
        values = values[part]
    return values


def _set(values: dict[str, Any], path: list[str], value: Any) -> None:
    for part in path[:-1]:
        values = values.setdefault(part, {})
    values[path[-1]] = value
