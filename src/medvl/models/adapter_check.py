"""Is an adapter sound? Right base, every key a layer, weights as trained, live, and the same when merged."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from peft import PeftModel
from torch import Tensor

from medvl.batching.prompt import prompt_fingerprint
from medvl.benchmark.check import Finding
from medvl.errors import ModelError
from medvl.models.adapter import adapter_weights_fingerprint, b_norms, is_trained, without_adapter
from medvl.models.adapter_base import base_of, record_of
from medvl.models.adapter_files import put_adapter, weight_names
from medvl.models.adapter_keys import renamed_keys
from medvl.models.agreement import agreement, option_logits
from medvl.models.agreement_questions import questions_of
from medvl.models.base import Base, load_base, processor_fingerprint
from medvl.models.merge import Progress, untie_adapted
from medvl.models.record import WEIGHTS_FILE

MAX_FLIPS = 0.02
"""Share of answers that merging may change: rounding moves a few that were close."""


def check_adapter(
    adapter: Path, *, base: str | None = None, items: int = 50, progress: Progress | None = None
) -> list[Finding]:
    """Load an adapter on its base and look at everything that can be wrong with it.

    Args:
        adapter: Adapter folder.
        base: Base folder in place of the one of the run record.
        items: Most questions that are asked.
        progress: Called while questions are answered.

    Returns:
        What each check found, in order. The list ends early where a fault makes the rest pointless.

    Raises:
        ModelError: There is no adapter, or no base to put it on.
    """
    record = record_of(adapter)
    config = base_of(adapter, record, base)
    findings = [_record(record)]
    loaded = load_base(config.model_copy(update={"quantization": "none"}))
    if record is not None:
        findings.append(_base(record, loaded))
        if not findings[-1].is_ok:
            return findings
        findings.append(_asking(record, loaded))
    try:
        names = renamed_keys(weight_names(adapter), loaded.family.model_type)
        model = put_adapter(loaded, adapter)
    except ModelError as error:
        return [*findings, Finding("keys", False, str(error))]
    findings.append(_keys(names, loaded))
    if record is not None:
        findings.append(_weights(record, model))
    if broken := [name for name, p in model.named_parameters() if is_trained(name) and not p.isfinite().all()]:
        return [
            *findings,
            Finding("numbers", False, f"{len(broken)} weights hold NaN or infinity, the first {broken[0]}"),
        ]
    questions = questions_of(adapter, record, items)

    def ask(which: str) -> list[Tensor]:
        def report(done: int, total: int) -> None:
            if progress is not None:
                progress(f"asking {which}", done, total)

        return option_logits(model, loaded, questions, report)

    adapted = ask("with the adapter")
    with without_adapter(model):
        plain = ask("without it")
    untie_adapted(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about tied weights, which are parted above
        model.merge_adapter()
    merged = ask("with the adapter merged")
    findings.append(_live(agreement(plain, adapted).largest_difference, model, loaded))
    same = agreement(adapted, merged)
    findings.append(Finding("merged equals unmerged", same.share <= MAX_FLIPS, f"{same}; {questions.origin}"))
    return findings


def _record(record: dict[str, Any] | None) -> Finding:
    if record is None:
        return Finding("run record", True, "none: not trained by medvl, so base and weights cannot be verified")
    return Finding("run record", True, f"trained on {record['base']}")


def _base(record: dict[str, Any], base: Base) -> Finding:
    trained = record["fingerprints"]["base"]
    if trained != base.fingerprint:
        text = f"trained on weights {trained}, {base.label} has {base.fingerprint}: another base, or another revision"
        return Finding("base", False, text)
    return Finding("base", True, f"weights {trained}, as in training")


def _asking(record: dict[str, Any], base: Base) -> Finding:
    now = {"processor": processor_fingerprint(base.processor), "prompt": prompt_fingerprint(base.processor)}
    trained = record["fingerprints"]
    changed = [
        f"{name}: {trained[name]} in training, now {value}"
        for name, value in now.items()
        if trained.get(name, value) != value
    ]
    text = "; ".join(changed) if changed else "processor and prompt as in training"
    return Finding("pictures and prompt", not changed, text)


def _keys(names: dict[str, str], base: Base) -> Finding:
    old = sum(name != new for name, new in names.items())
    renamed = f", {old} of them under names of an older transformers" if old else ""
    return Finding("keys", True, f"{len(names)} of {len(names)} weights match a layer of {base.label}{renamed}")


def _weights(record: dict[str, Any], model: PeftModel) -> Finding:
    trained, found = record["fingerprints"]["adapter"], adapter_weights_fingerprint(model)
    if trained != found:
        return Finding("weights", False, f"{WEIGHTS_FILE} is not what was trained: expected {trained}, found {found}")
    return Finding("weights", True, f"{found}, as trained")


def _live(change: float, model: PeftModel, base: Base) -> Finding:
    norms = b_norms(model, base).values()
    matrices, zero = sum(int(n["matrices"]) for n in norms), sum(int(n["zero"]) for n in norms)
    untrained = f"; {zero} of {matrices} B matrices are zero, they were never trained" if zero else ""
    return Finding("live", change > 0, f"moves an option's logit by up to {change:.2g}{untrained}")
