"""Answers a benchmark's questions and scores the answers. `python evaluate.py --help`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from medvl.config.entry import Job, run_entry
from medvl.config.schema import EvaluateConfig

if TYPE_CHECKING:  # imported late: a mistake in the configuration is answered before torch is
    from data_modules.question_datamodule import QuestionDataModule
    from medvl.config.endpoint import EndpointConfig
    from medvl.training.arms import Arm
    from medvl.training.askers import Asker
    from medvl.training.run_folder import RunFolder
    from medvl.training.team import Team

CONF = Path(__file__).resolve().parent / "conf"


def evaluate(job: Job[EvaluateConfig]) -> float:
    """One evaluation: a base alone or against its adapter, several runs, or old answers. Returns the macro accuracy."""
    from rich import get_console

    from medvl.models.locate import find_base
    from medvl.training.quiet import silence_libraries
    from medvl.training.run_folder import RunFolder
    from medvl.training.run_record import models_of, with_run_record

    silence_libraries()
    job = with_run_record(job)
    config = job.config
    place = (Path(config.paths.run), job.composed, job.overrides, config.seed)
    if config.predictions is not None:
        from medvl.cli.rescoring import score_again

        run = RunFolder(*place)
        with run.recording():
            return score_again(config, run, get_console())
    if config.endpoint is None:
        for model in models_of(job):
            find_base(model)  # what to download is said before torch is imported
    from medvl.training.team import joined_team

    with joined_team(Path(config.paths.run), get_console()) as (team, folder):
        run = RunFolder(folder, *place[1:])
        with run.recording():
            return _evaluate(job, run, team)


def _evaluate(job: Job[EvaluateConfig], run: RunFolder, team: Team) -> float:
    import pytorch_lightning as pl
    from rich import get_console

    from data_modules.question_datamodule import QuestionDataModule
    from medvl.cli.comparing import compare_runs
    from medvl.reporting import console_lines
    from medvl.reporting.progress import step_progress
    from medvl.reporting.robustness_table import robustness_table
    from medvl.reporting.tables import comparison_table, control_table, metrics_table
    from medvl.training.arms import ask_arms
    from medvl.training.results import write_comparison
    from medvl.training.variants import write_robustness

    config, console = job.config, get_console()
    pl.seed_everything(config.seed, verbose=False)

    # data
    with step_progress(console) as bar, team.leader_first():
        data = QuestionDataModule(config, progress=bar)
        data.prepare_data()
    data.setup()
    console_lines.benchmark(console, data.benchmark.card)
    if config.compare:
        return compare_runs(job, run, data, console, team)

    # answers
    asker: Asker
    if config.endpoint is None:
        asker, arms = _model(job, run, data, team)
    else:
        asker, arms = _server(config, config.endpoint, run, data)
    try:
        with step_progress(console) as bar:
            answered = ask_arms(asker, data, arms, config, run.path / "controls", bar)
    finally:
        if facts := asker.facts():
            run.update(**facts)
    console_lines.notes(console, answered.notes)

    # figures
    found, places = list(answered.models.values()), {"figures": run.shown / "metrics.json"}
    last = found[-1]
    console.print(metrics_table(last.metrics))
    if len(found) > 1:
        answers = (found[0].predictions, last.predictions)
        comparison = write_comparison(run.path, last.items, *answers, last.metrics["fingerprints"])
        console.print(comparison_table(comparison))
        places["comparison"] = run.shown / "comparison.json"
    if answered.controls:
        console.print()
        console.print(control_table(last.metrics, answered.controls))
    if answered.variants:
        console.print()
        console.print(robustness_table(write_robustness(run.path, answered.variants)))
        places["robustness"] = run.shown / "robustness.json"
    console_lines.notes(console, asker.notes())
    console_lines.whereabouts(console, places, [])
    return float(last.metrics["overall"]["macro_accuracy"] or 0.0)


def _model(job: Job[EvaluateConfig], run: RunFolder, data: QuestionDataModule, team: Team) -> tuple[Asker, list[Arm]]:
    """A model on this machine: the base alone, or without and with its adapter."""
    from medvl.models.adapter import without_adapter
    from medvl.models.adapter_files import load_adapter
    from medvl.models.base import load_base
    from medvl.training.arms import Arm
    from medvl.training.askers import local_asker
    from medvl.training.fingerprints import fingerprints_of
    from medvl.training.run_record import check_same
    from medvl.training.session import choose_device, hand_over

    config, device = job.config, choose_device("auto")
    base = load_base(config.model)
    hand_over(base, data)
    prints = fingerprints_of(base, data.benchmark, config.model)
    run.update(base=base.label, fingerprints=prints)
    if config.adapter is None:
        asker = local_asker(base.model.to(device), base.processor, config.eval, team)
        return asker, [Arm("zero_shot", run.path, prints)]
    adapter = check_same(Path(config.adapter), prints, job.overrides)
    model = load_adapter(base, Path(config.adapter)).to(device)
    zero_shot = Arm("zero_shot", run.path / "zero_shot", prints, partial(without_adapter, model))
    fine_tuned = Arm("fine_tuned", run.path, {**prints, "adapter": adapter})
    return local_asker(model, base.processor, config.eval, team), [zero_shot, fine_tuned]


def _server(
    config: EvaluateConfig, server: EndpointConfig, run: RunFolder, data: QuestionDataModule
) -> tuple[Asker, list[Arm]]:
    """A server in place of a model on this machine."""
    from rich import get_console

    from medvl.reporting import console_lines
    from medvl.sources.record import Split
    from medvl.training.arms import Arm
    from medvl.training.endpoint_asker import endpoint_asker
    from medvl.training.variants import price_notes

    asked = data.items(Split(config.split))
    asker = endpoint_asker(server, asked, data.benchmark.card["sources"], images=config.privacy.images)
    prints = {"benchmark": data.benchmark.fingerprint, **asker.about}
    run.update(base=f"{server.model} at {server.name}", fingerprints=prints)
    console_lines.notes(get_console(), price_notes(asked, config.eval))
    return asker, [Arm("zero_shot", run.path, prints)]


if __name__ == "__main__":
    run_entry("evaluate", EvaluateConfig, CONF, evaluate)
