"""Asks several adapters the same questions, one model after the other, and compares them with one baseline."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self

import polars as pl
import torch

from medvl.answering.prediction import predictions_to_frame
from medvl.benchmark.item import items_to_frame
from medvl.benchmark.store import Benchmark
from medvl.config.entry import Job
from medvl.config.schema import EvaluateConfig
from medvl.evaluation.candidates import candidates
from medvl.evaluation.files import write_json
from medvl.evaluation.scored import score_predictions
from medvl.models.adapter import without_adapter
from medvl.models.adapter_files import load_adapter
from medvl.models.base import load_base
from medvl.sources.record import Split
from medvl.training.askers import Questions, local_asker
from medvl.training.candidates import Candidate, find_candidates, pool_seeds
from medvl.training.fingerprints import fingerprints_of
from medvl.training.run_folder import RunFolder
from medvl.training.run_record import check_same, model_of
from medvl.training.session import Evaluation, HandedOver, ask, choose_device, hand_over, kept_answers
from medvl.training.team import ALONE, Team

CANDIDATES_FILE = "candidates.json"
BASELINE_FOLDER, CANDIDATES_FOLDER = "baseline", "candidates"
ZERO_SHOT = "zero-shot"

Progress = Callable[[str, int, int], None]
"""Called with (what, items answered, items in all)."""


class BenchmarkQuestions(Questions, HandedOver, Protocol):
    """The questions of a benchmark, made ready for whichever model comes next (a DataModule)."""

    @property
    def benchmark(self) -> Benchmark:
        """The benchmark."""


def compare_candidates(
    job: Job[EvaluateConfig],
    run: RunFolder,
    questions: BenchmarkQuestions,
    progress: Progress | None = None,
    team: Team = ALONE,
) -> tuple[dict[str, Any], list[str]]:
    """Ask the baseline and all candidates, and write what came of it.

    Writes `candidates.json`, and `predictions.parquet` and `metrics.json` of the baseline and of each run.

    Args:
        job: A job with `compare`, as `with_run_record` gives it.
        run: Run folder.
        questions: The benchmark's questions.
        progress: Called while questions are answered.
        team: The processes that ask together.

    Returns:
        (content of `candidates.json`, sentences for the user).

    Raises:
        ModelError: An adapter does not fit its base, or would be asked in another way than it was trained.
    """
    config = job.config
    found = find_candidates(config.compare, config.adapter, job.overrides)
    recipes, pooling = pool_seeds(found.runs)
    notes = [*found.notes, *pooling, *_not_asked(job)]
    run.update(base=found.runs[0].record["base"])
    baseline: _Answered | None = None
    answered: dict[str, _Answered] = {}
    if found.baseline is not None:
        (asked,) = _ask_adapter(job, questions, found.baseline, progress, team)
        baseline = _Answered.of(found.baseline.label, asked, run.path / BASELINE_FOLDER)
    for one in found.runs:
        *before, asked = _ask_adapter(job, questions, one, progress, team, with_base=baseline is None)
        if baseline is None:
            baseline = _Answered.of(ZERO_SHOT, before[0], run.path / BASELINE_FOLDER)
        answered[one.label] = _Answered.of(one.label, asked, run.path / CANDIDATES_FOLDER / one.label)
    assert baseline is not None  # find_candidates gives at least one run
    notes += [note for one in (baseline, *answered.values()) for note in one.notes]
    content = candidates(
        baseline.table,
        {name: [answered[one.label].table for one in runs] for name, runs in recipes.items()},
        split=baseline.split,
        scoring=baseline.scoring,
        about=baseline.facts,
        runs={
            name: [{**answered[one.label].facts, "seed": one.seed, "recipe": one.recipe} for one in runs]
            for name, runs in recipes.items()
        },
    )
    write_json(run.path / CANDIDATES_FILE, content)
    prints = {label: one.facts["fingerprints"] for label, one in answered.items()}
    run.update(fingerprints=baseline.facts["fingerprints"], candidates=prints)
    return content, notes


@dataclass(frozen=True, slots=True)
class _Answered:
    """What is kept of a model once it has answered: its scored table, not its replies."""

    table: pl.DataFrame
    split: str
    scoring: str
    facts: dict[str, Any]
    notes: list[str]

    @classmethod
    def of(cls, label: str, asked: Evaluation, folder: Path) -> Self:
        """Write the answers into a folder and keep the rest."""
        asked.write(folder)
        return cls(
            score_predictions(items_to_frame(asked.items), predictions_to_frame(asked.predictions)),
            asked.metrics["split"],  # with debug.overfit_items it is not the one of the configuration
            asked.metrics["scoring"],
            {"label": label, "fingerprints": asked.metrics["fingerprints"]},
            [f"{label}: {note}" for note in asked.notes],
        )


def _ask_adapter(
    job: Job[EvaluateConfig],
    questions: BenchmarkQuestions,
    one: Candidate,
    progress: Progress | None,
    team: Team,
    *,
    with_base: bool = False,
) -> list[Evaluation]:
    """Load an adapter with its base, once the model before it is gone, and ask it.

    Returns:
        Its answers; before them those of its base alone, where they are wanted.
    """
    gc.collect()  # a model with an adapter refers to itself
    torch.cuda.empty_cache()
    model_config = model_of(job, one.adapter)
    base = load_base(model_config)
    hand_over(base, questions)
    prints = fingerprints_of(base, questions.benchmark, model_config)
    adapter = check_same(one.adapter, prints, job.overrides)
    model = load_adapter(base, one.adapter).to(choose_device("auto"))
    asker = local_asker(model, base.processor, job.config.eval, team)
    split, kept = Split(job.config.split), kept_answers(job.config)

    def answers(label: str, fingerprints: dict[str, str]) -> Evaluation:
        report = None if progress is None else partial(progress, f"{label} on {split}")
        return ask(asker, questions, split, fingerprints, report, answers=kept)

    found = []
    if with_base:
        with without_adapter(model):
            found.append(answers(ZERO_SHOT, prints))
    return [*found, answers(one.label, {**prints, "adapter": adapter})]


def _not_asked(job: Job[EvaluateConfig]) -> list[str]:
    """Controls are part of the default; whoever names `eval` is told that they are left out here."""
    is_named = any(text.lstrip("+~").startswith(("eval=", "eval.controls=")) for text in job.overrides)
    left_out = ", ".join(job.config.eval.controls)
    return [f"not asked with compare: eval.controls ({left_out})"] if is_named and left_out else []
