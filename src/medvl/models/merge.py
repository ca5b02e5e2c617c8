"""Merges an adapter into its base's weights: a folder that loads like any model, checked against the unmerged model."""

from __future__ import annotations

import gc
import json
import shutil
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from torch import Tensor

from medvl.config.schema import ModelConfig
from medvl.errors import ModelError, StorageError, disk_refusal
from medvl.models.adapter import adapter_weights_fingerprint
from medvl.models.adapter_base import base_of, record_of
from medvl.models.adapter_files import load_adapter, put_adapter
from medvl.models.agreement import Agreement, agreement, option_logits
from medvl.models.agreement_questions import Questions, questions_of
from medvl.models.base import Base, load_base, processor_fingerprint
from medvl.models.locate import find_base
from medvl.models.pixels import limit_pixels
from medvl.models.record import RECORD_FILE

Progress = Callable[[str, int, int], None]
"""Called with (what, done, in all)."""

SCHEMA_VERSION = 1
TERMS = ("LICENSE*", "LICENCE*", "NOTICE*", "USE_POLICY*")
"""Files of a base that go with every copy of its weights."""


@dataclass(frozen=True, slots=True)
class Merged:
    """What came of merging an adapter.

    Attributes:
        folder: Where the merged model lies: what was asked for, or the same with `.failed` at its end.
        is_sound: Whether few enough answers changed.
        base: Label of the base.
        dtype: Precision of the weights.
        prompt: `model.prompt` that it was trained and asked with.
        questions: What was asked.
        with_unmerged: Agreement with the same 16- or 32-bit base and the adapter beside it. This decides.
        with_quantized: Agreement with the 4-bit base that the adapter was trained on; None where it was trained on full
            weights, or where bitsandbytes is not installed.
        quantization: How the base was held in training.
        fingerprints: `base`, `adapter`, `merged`, `processor`.
    """

    folder: Path
    is_sound: bool
    base: str
    dtype: str
    prompt: str
    questions: str
    with_unmerged: Agreement
    with_quantized: Agreement | None
    quantization: str
    fingerprints: dict[str, str]


def merge_into_base(
    adapter: Path,
    out: Path,
    *,
    base: str | None = None,
    dtype: str | None = None,
    items: int = 200,
    max_flips: float = 0.02,
    progress: Progress | None = None,
) -> Merged:
    """Write a model folder with the adapter merged into the weights, load it again and compare it.

    An adapter that was trained on a 4-bit base is merged into the 16-bit weights. The folder appears under its name
    when it is whole and agrees with the unmerged model, never before.

    Args:
        adapter: Adapter folder.
        out: Folder to write: absent or empty.
        base: Base folder in place of the one of the run record.
        dtype: Precision to write; None takes the one of the run (16 bits for every published base).
        items: Most questions to compare on.
        max_flips: Largest share of answers that may change.
        progress: Called while questions are answered.

    Raises:
        ModelError: The adapter does not fit its base, or the merged model does not load.
        StorageError: `out` is taken, or the disk refuses the write.
    """
    record = record_of(adapter)
    trained = base_of(adapter, record, base)
    out = out.resolve() if out.name in ("", "..") else out  # `.` has no name to write beside
    _check_free(out)
    written = dtype or trained.dtype
    wide = "float32" if "float32" in (written, trained.dtype) else trained.dtype
    source = trained.model_copy(update={"quantization": "none", "dtype": wide})
    questions = questions_of(adapter, record, items)
    work = out.parent / f".{out.name}-{uuid.uuid4().hex[:8]}"
    try:
        with _writing(work):
            work.mkdir(parents=True)
        prints, label, before = _write(source, adapter, work, written, questions, progress)
        _free_memory()
        reloaded = ModelConfig(name=out.name, path=str(work), dtype=written, prompt=trained.prompt)  # type: ignore[arg-type]
        prints["merged"], after = _read_again(reloaded, prints["processor"], questions, progress)
        verdict = agreement(before, after)
        quantized = None
        if trained.quantization != "none" and _has_bitsandbytes():
            _free_memory()
            quantized = agreement(_trained_answers(trained, adapter, questions, progress), after)
        is_sound = verdict.share <= max_flips
        merged = Merged(
            folder=out if is_sound else _failed(out),
            is_sound=is_sound,
            base=label if record is None else str(record["base"]),
            dtype=written,
            prompt=trained.prompt,
            questions=questions.origin,
            with_unmerged=verdict,
            with_quantized=quantized,
            quantization=trained.quantization,
            fingerprints=prints,
        )
        facts = {name: value for name, value in asdict(merged).items() if name != "folder"}
        content = {"schema_version": SCHEMA_VERSION, "kind": "merged", **facts, "max_flips": max_flips}
        with _writing(work):
            (work / RECORD_FILE).write_text(json.dumps(content, indent=2), encoding="utf-8")
            if not is_sound:
                shutil.rmtree(merged.folder, ignore_errors=True)
            work.rename(merged.folder)
        return merged
    finally:
        shutil.rmtree(work, ignore_errors=True)


def put_any_adapter(base: Base, adapter: Path) -> PeftModel:
    """Put an adapter on its base: verified by its run record where it has one.

    Raises:
        ModelError: See `load_adapter` and `put_adapter`.
    """
    return put_adapter(base, adapter) if record_of(adapter) is None else load_adapter(base, adapter)


def untie_adapted(model: PeftModel) -> None:
    """Give embedding and output layer weights of their own where they share them and the adapter changes one of them.

    Merging would change the other along with it.
    """
    bare = model.get_base_model()
    first, last = bare.get_input_embeddings(), bare.get_output_embeddings()
    if last is None or first.weight is not last.weight:
        return
    if any(hasattr(layer, "lora_A") for layer in (first, last)):
        inner = getattr(last, "base_layer", last)
        inner.weight = torch.nn.Parameter(last.weight.detach().clone(), requires_grad=False)


def _write(
    source: ModelConfig, adapter: Path, work: Path, dtype: str, questions: Questions, progress: Progress | None
) -> tuple[dict[str, str], str, list[Tensor]]:
    """Merge and save. Returns fingerprints, the base's label, and the unmerged model's option logits."""
    folder = find_base(source)
    base = load_base(source)
    model = put_any_adapter(base, adapter)
    prints = {
        "base": base.fingerprint,
        "adapter": adapter_weights_fingerprint(model),
        "processor": processor_fingerprint(base.processor),
    }
    before = _answers(model, base, questions, "unmerged", progress)
    untie_adapted(model)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about tied weights, which are parted above
            merged = model.merge_and_unload(safe_merge=True)
    except ValueError as error:  # PEFT's word for numbers that are not finite
        raise ModelError(f"{adapter.name} cannot be merged: {' '.join(str(error).split())[:200]}") from error
    _settle_config(merged, dtype)
    merged.to(getattr(torch, dtype))
    need = sum(p.numel() * p.element_size() for p in merged.parameters())
    if (free := shutil.disk_usage(work).free) < need:
        raise StorageError(
            f"the merged model needs {need / 2**30:.1f} GiB, {work.parent} has {free / 2**30:.1f} GiB free; free "
            "space, or name a folder on another disk"
        )
    with _writing(work):
        merged.save_pretrained(work)
        _save_processor(source, folder, base, work)
        for pattern in TERMS:
            for path in folder.glob(pattern):
                shutil.copyfile(path, work / path.name)
    return prints, base.label, before


def _read_again(
    config: ModelConfig, processor: str, questions: Questions, progress: Progress | None
) -> tuple[str, list[Tensor]]:
    """Load what was written as anybody would. Returns the weights' fingerprint and the option logits."""
    base = load_base(config)
    if processor_fingerprint(base.processor) != processor:
        raise ModelError(f"the processor of {config.name} does not survive being written: it would see otherwise")
    return base.fingerprint, _answers(base.model, base, questions, "merged", progress)


def _settle_config(model: Any, dtype: str) -> None:
    """Make config.json say what the weights are: their precision, and whether embedding and output layer share them."""
    first, last = model.get_input_embeddings(), model.get_output_embeddings()
    apart = last is not None and first.weight is not last.weight
    for config in (model.config, *(getattr(model.config, name) for name in model.config.sub_configs)):
        config.dtype = dtype
        if apart and getattr(config, "tie_word_embeddings", False):
            config.tie_word_embeddings = False


def _save_processor(source: ModelConfig, folder: Path, base: Base, work: Path) -> None:
    """Save the processor with the pixel limits of the run, and as the base's folder has it in all else."""
    from transformers import AutoProcessor

    processor = AutoProcessor.from_pretrained(folder, trust_remote_code=False)
    limit_pixels(processor, base.family, source)
    processor.save_pretrained(work)


def _answers(model: Any, base: Base, questions: Questions, which: str, progress: Progress | None) -> list[Tensor]:
    report = None if progress is None else lambda done, n: progress(f"asking the {which} model", done, n)
    return option_logits(model, base, questions, report)


def _trained_answers(
    trained: ModelConfig, adapter: Path, questions: Questions, progress: Progress | None
) -> list[Tensor]:
    base = load_base(trained)
    return _answers(put_any_adapter(base, adapter), base, questions, "4-bit", progress)


@contextmanager
def _writing(work: Path) -> Iterator[None]:
    """Turns what the disk says to a write into a message."""
    try:
        yield
    except Exception as error:  # safetensors passes errors of the disk on as text only
        refusal = disk_refusal(error) or (error.strerror if isinstance(error, OSError) else None)
        if refusal is None:
            raise
        raise StorageError(f"cannot write the merged model to {work.parent}: {refusal}") from error


def _has_bitsandbytes() -> bool:
    try:
        import bitsandbytes  # noqa: F401
    except Exception:  # a build for another GPU fails in many ways
        return False
    return True


def _check_free(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise StorageError(f"{out} is there already and not empty; name another folder, nothing was written")
    failed = _failed(out)
    if failed.exists() and not (failed / RECORD_FILE).is_file():
        raise StorageError(
            f"{failed} is in the way (a merge that fails is kept there); move it, or name another folder"
        )


def _failed(out: Path) -> Path:
    return out.with_name(f"{out.name}.failed")


def _free_memory() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
