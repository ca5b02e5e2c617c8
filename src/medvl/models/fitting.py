"""Whether a training run fits the device, found before any weight is loaded, and what to change when it does not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psutil
import torch

from medvl.benchmark.item import Item
from medvl.config.schema import ModelConfig, TrainConfig
from medvl.errors import ModelError
from medvl.models.base import choose_attention, load_processor
from medvl.models.families import Family
from medvl.models.locate import family_of, find_base
from medvl.models.longest import RowSize, longest_row
from medvl.models.memory import Load, Memory, estimate_memory
from medvl.models.plan import TrainingPlan, plan_training
from medvl.models.quantization import empty_model

GIB = 2**30

DOUBT = 0.2
"""Share by which the estimate may be too high: a run is refused only when it would not fit even then."""

SMALLEST_PICTURE = 256 * 256
"""Pixels under which a smaller picture is not proposed."""

WAYS = 3
"""Most ways out that a message names."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a run will need.

    Attributes:
        folder: Folder with the model's config.json and processor.
        family: Architecture of the model.
        plan: What is trained.
        row: Size of the longest row.
        memory: The estimate.
    """

    folder: Path
    family: Family
    plan: TrainingPlan
    row: RowSize
    memory: Memory


def check_fits(config: TrainConfig, items: Sequence[Item], device: str) -> list[str]:
    """Make sure that a run fits the memory that is free.

    Args:
        config: Configuration of the run.
        items: All items of the benchmark.
        device: Where it will run, `cuda` or `cpu`.

    Returns:
        Sentences to print: empty when the run fits, one when it is close.

    Raises:
        ModelError: It does not fit. Gives the figures, and up to three changes with what each would need.
    """
    free = free_bytes(device)
    folder = find_base(config.model)
    model = empty_model(folder)
    found = outlook(config, items, model, folder, device)
    if free is None or found.memory.total <= free:
        return []
    needed = f"about {gib(found.memory.total)} GiB on {device}, {gib(free)} GiB are free"
    if found.memory.total * (1 - DOUBT) <= free:
        return [f"this run may run out of memory: it needs {needed}"]
    ways = "\n".join(f"  - {way}" for way in ways_out(config, items, model, found, device, free))
    raise ModelError(
        f"model {config.model.name} with this recipe needs {needed}: {describe(found, config)}. Ways out:\n{ways}"
    )


def outlook(config: TrainConfig, items: Iterable[Item], model: Any, folder: Path, device: str) -> Outlook:
    """Estimate what a run will need.

    Args:
        config: Configuration of the run.
        items: Items of its benchmark.
        model: The base model on the meta device.
        folder: Its folder; no weights are needed.
        device: `cuda` or `cpu`.
    """
    family = family_of(folder)
    processor = load_processor(config.model, folder, family)
    row = longest_row(processor, family, model.config, items)
    plan = plan_training(model, family, config.lora, config.model.train_parts)
    return Outlook(folder, family, plan, row, _estimate(config, model, family, plan, row, device))


def describe(found: Outlook, config: TrainConfig) -> str:
    """The figures of an estimate in one sentence."""
    memory, row = found.memory, found.row
    return (
        f"weights {gib(memory.weights)} ({found.plan.total:,} parameters), "
        f"trained parameters with gradients and optimiser {gib(memory.trained + memory.optimiser)} "
        f"({found.plan.trained:,}), activations of {config.data.batch_size} rows of {row.tokens:,} tokens and "
        f"{row.patches:,} patches {gib(memory.activations)}, or {gib(memory.asking)} for asking "
        f"{asked_at_once(config, row)} questions at once, other {gib(memory.overhead)}"
    )


def ways_out(
    config: TrainConfig, items: Sequence[Item], model: Any, found: Outlook, device: str, free: int
) -> list[str]:
    """Changes that make a run smaller, each with its new estimate: those that fit first.

    Args:
        config: Configuration of the run that does not fit.
        items: Items of its benchmark.
        model: The base model on the meta device.
        found: Its estimate.
        device: `cuda` or `cpu`.
        free: Bytes that are free.
    """
    ways: list[tuple[str, int]] = []
    for alternatives in _changes(config, model, found):
        for overrides, changed in alternatives:
            best = overrides, _need(config, changed, items, model, found, device)
            if best[1] <= free:
                break
        if best[1] < found.memory.total:
            ways.append(best)
    fitting = [way for way in ways if way[1] <= free]
    others = sorted((way for way in ways if way[1] > free), key=lambda way: way[1])
    lines = [
        f"{overrides}: about {gib(need)} GiB{'' if need <= free else ', still too much'}"
        for overrides, need in [*fitting, *others][:WAYS]
    ]
    return lines if fitting else [*lines, "several of these together, or a smaller model=..."]


def _need(
    config: TrainConfig, changed: TrainConfig, items: Sequence[Item], model: Any, found: Outlook, device: str
) -> int:
    """Bytes that a changed configuration needs."""
    row = found.row
    if (changed.model.max_pixels, changed.model.max_tiles) != (config.model.max_pixels, config.model.max_tiles):
        processor = load_processor(changed.model, found.folder, found.family)
        row = longest_row(processor, found.family, model.config, items)
    return _estimate(changed, model, found.family, found.plan, row, device).total


def free_bytes(device: str) -> int | None:
    """Memory that this process can still take on `cpu` or `cuda`; None where there is no such device."""
    if device == "cpu":
        return int(psutil.virtual_memory().available)
    if not torch.cuda.is_available():
        return None
    return int(torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved() - torch.cuda.memory_allocated())


def gib(count: int) -> str:
    """Bytes as GiB with one digit."""
    return f"{count / GIB:.1f}"


def asked_at_once(config: TrainConfig, row: RowSize) -> int:
    """Questions of the largest batch that is asked, if all are as long as the longest."""
    return min(config.eval.batch_size, max(1, config.eval.batch_tokens // row.tokens))


def _estimate(config: TrainConfig, model: Any, family: Family, plan: TrainingPlan, row: RowSize, device: str) -> Memory:
    load = Load(
        row=row,
        rows=config.data.batch_size,
        asked=asked_at_once(config, row),
        precision=config.trainer.precision,
        attention=choose_attention(config.model),
        device="cuda" if device == "cuda" else "cpu",
    )
    return estimate_memory(model, family, plan, config.model, config.lora, load)


def _changes(config: TrainConfig, model: Any, found: Outlook) -> Iterator[list[tuple[str, TrainConfig]]]:
    """Kinds of change that can be made, the least costly first: (overrides, configuration), the mildest first."""
    if batches := list(_smaller_batches(config, found)):
        yield batches
    parts: list[Literal["language", "vision"]] = ["language"]
    if "vision" in found.plan.adapter or "vision" in found.plan.full:
        parts.append("vision")
    if set(parts) - set(config.model.checkpointing):
        yield [(f"model.checkpointing=[{','.join(parts)}]", _with_model(config, checkpointing=parts))]
    if config.model.dtype == "float32":
        yield [("model.dtype=bfloat16", _with_model(config, dtype="bfloat16"))]
    if config.model.quantization == "none" and "language" not in config.model.train_parts:
        yield [("model.quantization=nf4", _with_model(config, quantization="nf4"))]
    if limit := _smaller_pictures(config.model, model, found):
        yield [(f"model.{limit[0]}={limit[1]}", _with_model(config, **dict([limit])))]


def _smaller_batches(config: TrainConfig, found: Outlook) -> Iterator[tuple[str, TrainConfig]]:
    """Batches divided by a factor, with as many more of them in an optimiser step; questions where they would lead."""
    rows, step = config.data.batch_size, config.trainer.accumulate_batches
    memory, asked = found.memory, asked_at_once(config, found.row)
    divided = rows if rows > 1 else asked
    for factor in (n for n in range(2, divided + 1) if divided % n == 0):
        changed, overrides = config, []
        if rows > 1:
            data = config.data.model_copy(update={"batch_size": rows // factor})
            changed = changed.model_copy(update={"data": data})
            overrides += [f"data.batch_size={rows // factor}", f"trainer.accumulate_batches={step * factor}"]
        if asked > 1 and memory.asking * factor > memory.activations:
            fewer = max(1, asked // factor)
            questions = config.eval.model_copy(update={"batch_size": fewer})
            changed = changed.model_copy(update={"eval": questions})
            overrides.append(f"eval.batch_size={fewer}")
        yield " ".join(overrides), changed


def _smaller_pictures(config: ModelConfig, model: Any, found: Outlook) -> tuple[str, int] | None:
    """(setting, value) that shows the largest picture a quarter as large, or in one tile; None where nothing can."""
    if found.family.abilities.resolution == "free":
        pixels = found.row.patches * model.config.vision_config.patch_size**2
        smaller = max(pixels // 4, SMALLEST_PICTURE, config.min_pixels or 0)
        return ("max_pixels", smaller) if smaller < pixels else None
    return ("max_tiles", 1) if found.family.limit_tiles is not None and config.max_tiles != 1 else None


def _with_model(config: TrainConfig, **changes: Any) -> TrainConfig:
    return config.model_copy(update={"model": config.model.model_copy(update=changes)})
