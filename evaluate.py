"""Answers a benchmark's questions and scores the answers. `python evaluate.py --help`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from medvl.config.entry import Job, run_entry
from medvl.config.schema import EvaluateConfig

if TYPE_CHECKING:  # imported late: a mistake in the configuration is answered before torch is
    from data_modules.question_datamodule import QuestionDataModule
    from medvl.config.endpoint import EndpointConfig
    from medvl.training.askers import Asker
    from medvl.training.run_folder import RunFolder
    from medvl.training.variants import VariantAnswers

CONF = Path(__file__).resolve().parent / "conf"


def evaluate(job: Job[EvaluateConfig]) -> float:
    """One evaluation: zero-shot alone, zero-shot against an adapter, or old answers. Returns the macro accuracy."""
    from medvl.models.locate import find_base
    from medvl.training.quiet import silence_libraries
    from medvl.training.run_record import with_run_record

    silence_libraries()
    job = with_run_record(job)
    if job.config.endpoint is None and job.config.predictions is None:
        find_base(job.config.model)  # what to download is said before torch is imported
    from medvl.training.run_folder import RunFolder

    run = RunFolder(Path(job.config.paths.run), job.composed, job.overrides, job.config.seed)
    with run.recording():
        return _evaluate(job, run) if job.config.predictions is None else _rescore(job.config, run)


def _evaluate(job: Job[EvaluateConfig], run: RunFolder) -> float:
    import pytorch_lightning as pl
    from rich import get_console

    from data_modules.question_datamodule import QuestionDataModule
    from medvl.reporting import console_lines
    from medvl.reporting.progress import step_progress

    config, console = job.config, get_console()
    pl.seed_everything(config.seed, verbose=False)
    with step_progress(console) as bar:
        data = QuestionDataModule(config, progress=bar)
        data.prepare_data()
    data.setup()
    console_lines.benchmark(console, data.benchmark.card)
    if config.endpoint is not None:
        return _ask_endpoint(config, run, data, config.endpoint)
    return _ask_model(job, run, data)


def _ask_model(job: Job[EvaluateConfig], run: RunFolder, data: QuestionDataModule) -> float:
    from rich import get_console

    from medvl.models.adapter import without_adapter
    from medvl.models.adapter_files import load_adapter
    from medvl.models.base import load_base
    from medvl.reporting import console_lines
    from medvl.reporting.progress import step_progress
    from medvl.reporting.tables import comparison_table, control_table, metrics_table
    from medvl.sources.record import Split
    from medvl.training.askers import local_asker
    from medvl.training.fingerprints import fingerprints_of
    from medvl.training.results import write_comparison
    from medvl.training.run_record import check_same
    from medvl.training.session import ask, ask_controls, choose_device, kept_answers
    from medvl.training.variants import ask_variants

    config, console = job.config, get_console()
    base = load_base(config.model)
    data.processor, data.companions = base.processor, base.family.companions
    prints = fingerprints_of(base, data.benchmark, config.model)
    run.update(base=base.label, fingerprints=prints)
    if config.adapter is None:
        asker = local_asker(base.model.to(choose_device("auto")), base.processor, config.eval)
        return _zero_shot(config, run, data, asker, prints)
    adapter = check_same(Path(config.adapter), prints, job.overrides)
    model = load_adapter(base, Path(config.adapter)).to(choose_device("auto"))
    asker = local_asker(model, base.processor, config.eval)
    split, kept = Split(config.split), kept_answers(config)
    with without_adapter(model), step_progress(console) as bar:
        before = ask(asker, data, split, prints, bar.of(f"zero-shot on {split}"), answers=kept)
        varied = {"zero_shot": ask_variants(asker, data, before, config.eval, bar.of("zero-shot, variants"), kept)}
    console_lines.notes(console, before.notes)
    before.write(run.path / "zero_shot")
    prints = {**prints, "adapter": adapter}
    with step_progress(console) as bar:
        after = ask(asker, data, split, prints, bar.of(f"fine-tuned on {split}"), answers=kept)
        after.write(run.path)
        varied["fine_tuned"] = ask_variants(asker, data, after, config.eval, bar.of("fine-tuned, variants"), kept)
        controls = ask_controls(asker, data, split, prints, config.eval.controls, run.path / "controls", bar, kept)
    console_lines.notes(console, [note for note in after.notes if note not in before.notes])
    made_from = after.metrics["fingerprints"]
    comparison = write_comparison(run.path, after.items, before.predictions, after.predictions, made_from)
    console.print(metrics_table(after.metrics))
    console.print(comparison_table(comparison))
    if controls:
        console.print()
        console.print(control_table(after.metrics, controls))
    _show_robustness(run, varied)
    console_lines.whereabouts(console, {"figures": run.shown / "comparison.json"}, [])
    return float(after.metrics["overall"]["macro_accuracy"] or 0.0)


def _ask_endpoint(config: EvaluateConfig, run: RunFolder, data: QuestionDataModule, server: EndpointConfig) -> float:
    from rich import get_console

    from medvl.reporting import console_lines
    from medvl.sources.record import Split
    from medvl.training.endpoint_asker import endpoint_asker
    from medvl.training.variants import price_notes

    card, asked = data.benchmark.card, data.items(Split(config.split))
    asker = endpoint_asker(server, asked, card["sources"], images=config.privacy.images)
    prints = {"benchmark": data.benchmark.fingerprint, **asker.about}
    run.update(base=f"{server.model} at {server.name}", fingerprints=prints)
    console_lines.notes(get_console(), price_notes(asked, config.eval))
    try:
        accuracy = _zero_shot(config, run, data, asker, prints)
    finally:
        run.update(endpoint=asker.facts())
    console_lines.notes(get_console(), asker.notes())
    return accuracy


def _zero_shot(
    config: EvaluateConfig, run: RunFolder, data: QuestionDataModule, asker: Asker, prints: dict[str, str]
) -> float:
    from rich import get_console

    from medvl.reporting import console_lines
    from medvl.reporting.progress import step_progress
    from medvl.reporting.tables import control_table, metrics_table
    from medvl.sources.record import Split
    from medvl.training.session import ask, ask_controls, kept_answers
    from medvl.training.variants import ask_variants

    console, split, kept = get_console(), Split(config.split), kept_answers(config)
    with step_progress(console) as bar:
        found = ask(asker, data, split, prints, bar.of(f"zero-shot on {split}"), answers=kept)
    console_lines.notes(console, found.notes)
    found.write(run.path)
    console.print(metrics_table(found.metrics))
    with step_progress(console) as bar:
        varied = ask_variants(asker, data, found, config.eval, bar.of("zero-shot, variants"), kept)
        controls = ask_controls(asker, data, split, prints, config.eval.controls, run.path / "controls", bar, kept)
    if controls:
        console.print()
        console.print(control_table(found.metrics, controls))
    _show_robustness(run, {"zero_shot": varied})
    console_lines.whereabouts(console, {"figures": run.shown / "metrics.json"}, [])
    return float(found.metrics["overall"]["macro_accuracy"] or 0.0)


def _show_robustness(run: RunFolder, models: dict[str, VariantAnswers | None]) -> None:
    from rich import get_console

    from medvl.reporting import console_lines
    from medvl.reporting.robustness_table import robustness_table
    from medvl.training.variants import write_robustness

    console, asked = get_console(), {name: answers for name, answers in models.items() if answers is not None}
    if asked:
        console.print()
        console_lines.notes(console, dict.fromkeys(note for answers in asked.values() for note in answers.notes))
        console.print(robustness_table(write_robustness(run.path, asked)))
        console_lines.whereabouts(console, {"robustness": run.shown / "robustness.json"}, [])


def _rescore(config: EvaluateConfig, run: RunFolder) -> float:
    """Scores answers that are there already; imports no torch."""
    from dataclasses import asdict

    from rich import get_console

    from medvl.batching.subset import asked_items
    from medvl.benchmark.prepare import prepare_benchmark
    from medvl.evaluation.answer_table import read_answers
    from medvl.evaluation.rescore import rescore
    from medvl.reporting import console_lines
    from medvl.reporting.progress import step_progress
    from medvl.reporting.tables import metrics_table
    from medvl.sources.record import Split
    from medvl.training.results import write_answers, write_details

    console, answers = get_console(), read_answers(Path(str(config.predictions)))
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


if __name__ == "__main__":
    run_entry("evaluate", EvaluateConfig, CONF, evaluate)
