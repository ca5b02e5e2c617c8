"""Answers a benchmark's questions and scores the answers. `python evaluate.py --help`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from medvl.config.entry import Job, run_entry
from medvl.config.schema import EvaluateConfig

if TYPE_CHECKING:  # imported late: a mistake in the configuration is answered before torch is
    from medvl.training.run_folder import RunFolder

CONF = Path(__file__).resolve().parent / "conf"


def evaluate(job: Job[EvaluateConfig]) -> float:
    """One evaluation: zero-shot alone, or zero-shot against an adapter. Returns the macro accuracy."""
    from medvl.models.locate import find_base
    from medvl.training.quiet import silence_libraries
    from medvl.training.run_record import with_run_record

    silence_libraries()
    job = with_run_record(job)
    find_base(job.config.model)  # what to download is said before torch is imported
    from medvl.training.run_folder import RunFolder

    run = RunFolder(Path(job.config.paths.run), job.composed, job.overrides, job.config.seed)
    with run.recording():
        return _evaluate(job, run)


def _evaluate(job: Job[EvaluateConfig], run: RunFolder) -> float:
    import pytorch_lightning as pl
    from rich import get_console

    from data_modules.question_datamodule import QuestionDataModule
    from medvl.batching.prompt import answer_tokens
    from medvl.models.adapter import without_adapter
    from medvl.models.adapter_files import load_adapter
    from medvl.models.base import load_base
    from medvl.reporting import console_lines
    from medvl.reporting.progress import step_progress
    from medvl.reporting.tables import comparison_table, control_table, metrics_table
    from medvl.sources.record import Split
    from medvl.training.fingerprints import fingerprints_of
    from medvl.training.results import write_comparison
    from medvl.training.run_record import check_same
    from medvl.training.session import ask, ask_controls, choose_device, kept_answers

    config, console = job.config, get_console()
    pl.seed_everything(config.seed, verbose=False)
    with step_progress(console) as bar:
        data = QuestionDataModule(config, progress=bar)
        data.prepare_data()
    data.setup()
    console_lines.benchmark(console, data.benchmark.card)

    base = load_base(config.model)
    data.processor, data.companions = base.processor, base.family.companions
    letters = answer_tokens(base.processor).letter_ids
    prints = fingerprints_of(base, data.benchmark, config.model)
    split, folder, kept = Split(config.split), run.path / "controls", kept_answers(config)
    model = base.model
    if config.adapter is not None:
        adapter = check_same(Path(config.adapter), prints, job.overrides)
        model = load_adapter(base, Path(config.adapter))
    model.to(choose_device("auto"))
    run.update(base=base.label, fingerprints=prints)
    with without_adapter(model), step_progress(console) as bar:
        before = ask(model, data, split, letters, prints, bar.of(f"zero-shot on {split}"), answers=kept)
    console_lines.notes(console, before.notes)
    if config.adapter is None:
        before.write(run.path)
        console.print(metrics_table(before.metrics))
        with step_progress(console) as bar:
            controls = ask_controls(model, data, split, letters, prints, config.eval.controls, folder, bar, kept)
        if controls:
            console.print()
            console.print(control_table(before.metrics, controls))
        console_lines.whereabouts(console, {"figures": run.shown / "metrics.json"}, [])
        return float(before.metrics["overall"]["macro_accuracy"] or 0.0)
    before.write(run.path / "zero_shot")
    prints = {**prints, "adapter": adapter}
    with step_progress(console) as bar:
        after = ask(model, data, split, letters, prints, bar.of(f"fine-tuned on {split}"), answers=kept)
        after.write(run.path)
        controls = ask_controls(model, data, split, letters, prints, config.eval.controls, folder, bar, kept)
    console_lines.notes(console, after.notes)
    comparison = write_comparison(run.path, after.items, before.predictions, after.predictions, prints)
    console.print(metrics_table(after.metrics))
    console.print(comparison_table(comparison))
    if controls:
        console.print()
        console.print(control_table(after.metrics, controls))
    console_lines.whereabouts(console, {"figures": run.shown / "comparison.json"}, [])
    return float(after.metrics["overall"]["macro_accuracy"] or 0.0)


if __name__ == "__main__":
    run_entry("evaluate", EvaluateConfig, CONF, evaluate)
