"""Pretraining of the tiny model in three resumable parts, the same from one seed whether interrupted or not."""

from __future__ import annotations

import csv
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import cast

import torch
from torch import nn
from torch.utils.data import DataLoader
from transformers import LlavaForConditionalGeneration, PreTrainedTokenizerFast

from medvl.errors import ModelError, TrainingError
from medvl.models.tiny.architecture import TinySize, build_model
from medvl.models.tiny.batch import Batch, batch_loss, block_logits, letter_hits, picture_features
from medvl.models.tiny.curriculum import PARTS, Curriculum, Lesson, Lessons, Plan, only
from medvl.models.tiny.dialogue import Scaffold
from medvl.models.tiny.tokenizer import train_tokenizer
from medvl.models.tiny.tower import Probe, Sight, label_tokens, sight_loss

CURVE_COLUMNS = ("part", "step", "seconds", "rate", "loss", "kind", "form", "n", "accuracy")

SIGHT_SHARE = 0.15
"""Weight of what the tower must tell in the joint part, beside the questions."""

Hits = Iterable[tuple[str, str, bool]]
"""(kind, form, right) of each answered question."""


def state_path(out: Path, part: str) -> Path:
    """Saved state of a part."""
    return out / f"{part}.pt"


def curve_path(out: Path, part: str) -> Path:
    """Curve of a part."""
    return out / f"{part}.csv"


def make_optimizers(modules: nn.Module, plan: Plan) -> list[torch.optim.Optimizer]:
    """Muon (Jordan 2024) for the matrices of the layers, AdamW for embeddings, norms, biases and the patch filter."""
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, parameter in modules.named_parameters():
        is_table = "embed" in name or "queries" in name
        (matrices if parameter.ndim == 2 and not is_table else others).append(parameter)
    return [
        torch.optim.Muon(matrices, lr=plan.rate, weight_decay=0.02, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=plan.rate, betas=(0.9, 0.98), weight_decay=0.0),
    ]


class _Curve:
    """Accuracy on the fresh training questions since the last rows, per kind and form, appended to a CSV file."""

    def __init__(self, path: Path, part: str) -> None:
        self.path, self.part = path, part
        self.hits: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
        self.losses: list[float] = []
        if not path.exists():
            path.write_text(",".join(CURVE_COLUMNS) + "\n")

    def add(self, loss: float, hits: Hits) -> None:
        self.losses.append(loss)
        for kind, form, hit in hits:
            for key in ((kind, form), ("all", form)):
                self.hits[key][0] += hit
                self.hits[key][1] += 1

    def write(self, step: int, seconds: float, rate: float) -> str:
        loss = sum(self.losses) / max(1, len(self.losses))
        with self.path.open("a", newline="") as file:
            for (kind, form), (hit, n) in sorted(self.hits.items()):
                row = [self.part, step, round(seconds, 1), f"{rate:.2e}", round(loss, 4), kind, form, n]
                csv.writer(file).writerow([*row, round(hit / n, 4)])
        worst = sorted(
            (h / n, k)
            for (k, f), (h, n) in self.hits.items()
            if f in ("letter", "probe") and (self.part != "joint" or f == "letter")
        )
        text = f"{self.part} {step} {seconds:.0f}s loss {loss:.3f} " + " ".join(f"{k}:{a:.2f}" for a, k in worst)
        self.hits.clear()
        self.losses.clear()
        return text


def _part_modules(
    model: LlavaForConditionalGeneration, tokenizer: PreTrainedTokenizerFast, part: str, seed: int
) -> nn.ModuleDict:
    """What a part trains."""
    inner = model.model
    if part != "lookup":
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            probe = Probe(model.config.text_config.hidden_size, label_tokens(tokenizer))
    if part == "tower":
        return nn.ModuleDict({"tower": inner.vision_tower, "projector": inner.multi_modal_projector, "probe": probe})
    if part == "lookup":
        return nn.ModuleDict({"decoder": inner.language_model})
    return nn.ModuleDict({"whole": model, "probe": probe})


def load_pretrained(model: LlavaForConditionalGeneration, out: Path, parts: Sequence[str] = PARTS) -> dict[str, int]:
    """Put the saved weights of parts into a model, later parts over earlier ones.

    Returns:
        Part -> steps done, for the parts that had a saved state.
    """
    inner = model.model
    targets: dict[str, nn.Module] = {
        "tower": inner.vision_tower,
        "projector": inner.multi_modal_projector,
        "decoder": inner.language_model,
        "whole": model,
    }
    found = {}
    for part in parts:
        if not state_path(out, part).is_file():
            continue
        state = torch.load(state_path(out, part), weights_only=True)
        weights, found[part] = state["weights"], int(state["step"])
        for name, target in targets.items():
            own = {k.removeprefix(name + "."): v for k, v in weights.items() if k.startswith(name + ".")}
            if own:
                target.load_state_dict(own)
    return found


def _begin_joint(modules: nn.ModuleDict, out: Path, curriculum: Curriculum) -> None:
    """Take over the first two parts, and scale the projector so that picture tokens are twice as large as words.

    The tower part leaves them much larger; the decoder's layers, used to words, would hardly change them.
    """
    model, probe = cast("LlavaForConditionalGeneration", modules["whole"]), modules["probe"]
    if len(load_pretrained(model, out, PARTS[:2])) < 2:
        raise ModelError(f"The joint part starts from the states of {PARTS[:2]} in {out}; run those parts first.")
    weights = torch.load(state_path(out, "tower"), weights_only=True)["weights"]
    probe.load_state_dict({k.removeprefix("probe."): v for k, v in weights.items() if k.startswith("probe.")})
    with torch.no_grad():
        features = picture_features(model, curriculum.tower(0).pictures)
        words = model.get_input_embeddings().weight
        factor = 2 * words.pow(2).mean().sqrt() / features.pow(2).mean().sqrt()
        last = model.model.multi_modal_projector.linear_2
        last.weight.mul_(factor)
        last.bias.mul_(factor)


def _step(
    model: LlavaForConditionalGeneration, modules: nn.ModuleDict, scaffold: Scaffold, lesson: Lesson
) -> tuple[torch.Tensor, list[tuple[str, str, bool]]]:
    """Loss and hits of one lesson."""
    batch, sight = lesson if isinstance(lesson, tuple) else (lesson, lesson)
    loss, hits, features = torch.zeros(()), [], None
    if isinstance(sight, Sight):
        features, words = picture_features(model, sight.pictures), model.get_input_embeddings().weight
        of_sight, told = sight_loss(cast("Probe", modules["probe"]), features, words, sight)
        loss = loss + of_sight * (SIGHT_SHARE if isinstance(batch, Batch) else 1.0)
        hits += [(kind, "probe", hit) for kind, hit in told]
    if isinstance(batch, Batch):
        outputs = block_logits(model, batch, scaffold, features)
        loss = loss + batch_loss(outputs)
        hits += [(e.kind, e.form, hit) for block, logits in outputs for e, hit in letter_hits(block, logits.detach())]
    return loss, hits


def pretrain_part(
    out: Path,
    part: str,
    plan: Plan,
    size: TinySize,
    *,
    resume: bool = False,
    stop_after_steps: int | None = None,
    save_every_s: float = 60.0,
    curve_every: int = 50,
    workers: int = 1,
    report: Callable[[str], None] = print,
) -> tuple[LlavaForConditionalGeneration, PreTrainedTokenizerFast]:
    """Run one part of pretraining.

    Args:
        out: Folder for the state and the curve of each part.
        part: One of `PARTS`.
        plan: What is shown, how long.
        size: Sizes of the model.
        resume: Go on from the saved state of the part, where there is one.
        stop_after_steps: Stop when this many steps of the part are done; None runs all.
        save_every_s: Seconds between saved states.
        curve_every: Steps between rows of the curve.
        workers: Processes that draw batches (0: this one).
        report: Receives a line whenever rows are added to the curve.

    Returns:
        The model and its tokenizer.

    Raises:
        ModelError: A saved state of another plan, or an earlier part that is missing.
        TrainingError: The loss is not finite.
    """
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer()
    model = build_model(tokenizer, size, plan.seed)
    modules = _part_modules(model, tokenizer, part, plan.seed)
    optimizers = make_optimizers(modules, plan)
    curriculum = Curriculum(plan, tokenizer)
    # A longer plan may go on from the state of a shorter one.
    kept = {key: value for key, value in asdict(plan).items() if key not in ("steps", "horizons")}
    about = {"plan": kept, "size": asdict(size)}
    path, step, seconds = state_path(out, part), 0, 0.0
    if part == "tower" and not load_pretrained(model, out, ("lookup",)):
        raise ModelError(f"The tower part learns to say words as the lookup part knows them; found none in {out}.")
    if resume and path.is_file():
        state = torch.load(path, weights_only=True)
        if state["about"] != about:
            raise ModelError(
                f"{path} was saved by another plan: {state['about']}, now asked: {about}. "
                "Resume with the settings it was started with, or choose another folder."
            )
        modules.load_state_dict(state["weights"])
        for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        step, seconds = state["step"], state["seconds"]
    else:
        curve_path(out, part).unlink(missing_ok=True)
        if part == "joint":
            _begin_joint(modules, out, curriculum)

    last = plan.steps[PARTS.index(part)]
    last = last if stop_after_steps is None else min(stop_after_steps, last)
    lessons = Lessons(curriculum, part, step, last)
    ahead = 8 if workers else None
    batches = iter(DataLoader(lessons, 1, collate_fn=only, num_workers=workers, prefetch_factor=ahead))
    curve = _Curve(curve_path(out, part), part)
    started = time.monotonic() - seconds
    saved_at = time.monotonic()

    def save() -> None:
        state = {"weights": modules.state_dict(), "optimizers": [o.state_dict() for o in optimizers], "step": step}
        partial = path.with_suffix(".partial")
        torch.save({**state, "seconds": time.monotonic() - started, "about": about}, partial)
        os.replace(partial, path)

    while step < last:
        loss, hits = _step(model, modules, curriculum.scaffold, next(batches))
        if not torch.isfinite(loss):
            raise TrainingError(f"The loss of {part} step {step} is {loss.item()}, expected a finite number.")
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(modules.parameters(), 1.0)
        rate = plan.rate_at(part, step)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
            optimizer.zero_grad()
        step += 1
        curve.add(loss.item(), hits)
        if step % curve_every == 0 or step == last:
            report(curve.write(step, time.monotonic() - started, rate))
        if time.monotonic() - saved_at > save_every_s:
            save()
            saved_at = time.monotonic()
    save()
    return model, tokenizer
