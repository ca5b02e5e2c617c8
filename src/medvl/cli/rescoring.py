"""Scores answers that are there already, without a model and without torch."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from medvl.batching.subset import asked_items
from medvl.benchmark.prepare import prepare_benchmark
from medvl.config.schema import EvaluateConfig
from medvl.evaluation.answer_table import read_answers
from medvl.evaluation.rescore import rescore
from medvl.reporting import console_lines
from medvl.reporting.progress import step_progress
from medvl.reporting.tables import metrics_table
from medvl.sources.record import Split
from medvl.training.results import write_answers, write_details
from medvl.training.run_folder import RunFolder


def score_again(config: EvaluateConfig, run: RunFolder, console: Console) -> float:
    """Score `config.predictions` against the configured benchmark; print the table and write the figures.

    Args:
        config: Names the file, the benchmark and the split.
        run: Where the figures go.
        console: Where the table goes.

    Returns:
        The macro accuracy.

    Raises:
        DataError: The file cannot be read, or its answers are to other questions.
    """
    answers = read_answers(Path(str(config.predictions)))
    with step_progress(console) as bar:
        benchmark = prepare_benchmark(config, bar)
    console_lines.benchmark(console, benchmark.card)
    items = asked_items(benchmark, Split(config.split), config)
    found = rescore(answers, items, benchmark)
    console_lines.notes(console, found.notes)
    prints = found.metrics["fingerprints"]
    run.update(answered_by=asdict(answers.facts), predictions_sha256=answers.sha256, fingerprints=prints)
    write_answers(run.path, found.predictions, found.metrics)
    write_details(run.path, items, found.predictions, found.metrics)
    console.print(metrics_table(found.metrics))
    console_lines.whereabouts(console, {"figures": run.shown / "metrics.json"}, [])
    return float(found.metrics["overall"]["macro_accuracy"] or 0.0)
