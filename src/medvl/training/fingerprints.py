"""The fingerprints that go with every number: data, base, processor, prompt, adapter."""

from __future__ import annotations

from typing import Any

from medvl.batching.prompt import prompt_fingerprint
from medvl.benchmark.store import Benchmark
from medvl.config.schema import ModelConfig
from medvl.models.base import Base, processor_fingerprint
from medvl.training.run_record import recorded_config


def fingerprints_of(base: Base, benchmark: Benchmark, model: ModelConfig) -> dict[str, str]:
    """What figures of a base model are made from; `adapter` is added once there is one."""
    return {
        "benchmark": benchmark.fingerprint,
        "base": base.fingerprint,
        "processor": processor_fingerprint(base.processor),
        "prompt": prompt_fingerprint(base.processor),
        "dtype": model.dtype if model.quantization == "none" else f"{model.dtype}, {model.quantization}",
    }


def run_record(base: Base, composed: dict[str, Any], fingerprints: dict[str, str]) -> dict[str, Any]:
    """What is written beside an adapter, so that it can be judged in the way it was trained."""
    return {
        "schema_version": 1,
        "base": base.label,
        "fingerprints": fingerprints,
        "config": recorded_config(composed),
    }
