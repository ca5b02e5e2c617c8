"""Fine-tunes a base model on a benchmark and compares it with itself before. `python train.py --help`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from medvl.config.entry import Job, run_entry
from medvl.config.schema import TrainConfig

if TYPE_CHECKING:  # imported late: a mistake in the configuration is answered before torch is
    from medvl.training.run_folder import RunFolder

CONF = Path(__file__).resolve().parent / "conf"


def train(job: Job[TrainConfig]) -> float:
    """One run: benchmark, base, zero-shot, fine-tuning, comparison. Returns the best val/macro_accuracy."""
    from medvl.models.locate import find_base
    from medvl.training.quiet import silence_libraries

    silence_libraries()
    find_base(job.config.model)  # what to download is said before anything else is done
    from medvl.training import engine
    from medvl.training.run_folder import RunFolder

    engine.check(job.config)

    run = RunFolder(Path(job.config.paths.run), job.composed, job.overrides, job.config.seed)
    with run.recording():
        return _train(job, run)


def _train(job: Job[TrainConfig], run: RunFolder) -> float:
    import pytorch_lightning as pl
    from hydra.utils import instantiate
    from rich import get_console

    from data_modules.question_datamodule import QuestionDataModule
    from medvl.batching.prompt import answer_tokens
    from medvl.batching.task_mix import exposures
    from medvl.evaluation.logged import logged_metrics
    from medvl.models.adapter import adapter_weights_fingerprint, attach_adapter, parameter_counts, without_adapter
    from medvl.models.adapter_files import save_adapter
    from medvl.models.base import load_base
    from medvl.models.checkpointing import checkpoint_layers
    from medvl.models.fitting import check_fits
    from medvl.models.proof import prove_adapter
    from medvl.reporting import console_lines
    from medvl.reporting.build_table import exposure_table
    from medvl.reporting.progress import step_progress
    from medvl.reporting.tables import comparison_table, control_table
    from medvl.sources.record import Split
    from medvl.training import engine
    from medvl.training.askers import by_letter
    from medvl.training.evaluation_callback import EvaluationCallback, log_everywhere, watchable
    from medvl.training.fingerprints import fingerprints_of, run_record
    from medvl.training.first_steps import FirstStepsCallback
    from medvl.training.results import write_comparison
    from medvl.training.run_folder import hyperparameters, point_latest
    from medvl.training.session import ask, ask_controls, choose_device, hand_over, kept_answers
    from medvl.training.sft_module import SftModule

    config, console = job.config, get_console()
    device = choose_device(config.trainer.accelerator)
    pl.seed_everything(config.seed, verbose=False)

    # data
    with step_progress(console) as bar:
        data = QuestionDataModule(config, config.task_mix, bar)
        data.prepare_data()
    data.setup()
    console_lines.benchmark(console, data.benchmark.card)

    # model
    console_lines.notes(console, check_fits(config, data.benchmark.items, device.type))
    base = load_base(config.model)
    hand_over(base, data)
    model = attach_adapter(base, config.lora, config.seed, config.model.train_parts).to(device)
    checkpoint_layers(model, base.family, config.model.checkpointing)
    batches = len(data.train_dataloader())
    epochs = engine.planned_steps(config.trainer, batches) * config.trainer.accumulate_batches / batches
    console.print()
    console.print(exposure_table(exposures(data.items(Split.TRAIN), config.task_mix), epochs))
    console_lines.adapter_line(console, parameter_counts(model, base), base.label)
    prints = fingerprints_of(base, data.benchmark, config.model)
    run.update(
        base=base.label, fingerprints=prints, parameters=parameter_counts(model, base), engine=config.trainer.engine
    )

    # zero-shot
    letters, kept = answer_tokens(base.processor).letter_ids, kept_answers(config)
    asker = by_letter(model, base.processor, shared_prefix=config.eval.shared_prefix)
    loggers = [instantiate(node) for node in config.logger.values() if node is not None]
    for logger in loggers:
        logger.log_hyperparams(hyperparameters(job.composed))
    with without_adapter(model), step_progress(console) as bar:
        before_val = ask(asker, data, Split.VAL, prints, bar.of("zero-shot on val"), answers=kept)
        before = ask(asker, data, Split.TEST, prints, bar.of("zero-shot on test"), answers=kept)
    console_lines.notes(console, before_val.notes + before.notes)
    before.write(run.path / "zero_shot")
    figures = logged_metrics(before_val.metrics, "val")
    log_everywhere(loggers, {**figures, **logged_metrics(before.metrics, "test")}, 0)
    console_lines.step_line(console, 0, figures)

    # fine-tuning
    watched, remarks = watchable(config.callbacks, figures)
    console_lines.notes(console, remarks)
    callbacks = [instantiate(node) for node in watched]
    scorer = EvaluationCallback(
        before_val.items, prints, lambda step, seen: console_lines.step_line(console, step, seen)
    )
    module = SftModule(
        model,
        config.optim,
        letters,
        shared_prefix=config.trainer.shared_prefix,
        val_shared_prefix=config.eval.shared_prefix,
    )
    alive = FirstStepsCallback(model, base, lambda signs: run.update(adapter_after_first_steps=signs))
    point_latest(Path(config.paths.outputs), run.path)
    fitted = engine.fit(config.trainer, module, data, [scorer, alive, *callbacks], loggers, run.path)
    model.to(device).eval()

    # comparison
    prints = {**prints, "adapter": adapter_weights_fingerprint(model)}
    save_adapter(model, run.path / "adapter", run_record(base, job.composed, prints))
    with step_progress(console) as bar:
        after = ask(asker, data, Split.TEST, prints, bar.of("fine-tuned on test"), answers=kept)
        after.write(run.path)
        controls = ask_controls(asker, data, Split.TEST, prints, config.eval.controls, run.path / "controls", bar, kept)
    log_everywhere(loggers, logged_metrics(after.metrics, "test"), fitted.steps)
    comparison = write_comparison(
        run.path, after.items, before.predictions, after.predictions, after.metrics["fingerprints"]
    )
    engine.close_loggers(loggers)
    batch = next(iter(data.question_loader(Split.TEST))).to(next(model.parameters()).device)
    run.update(
        steps=fitted.steps,
        best_val_macro_accuracy=None if math.isnan(fitted.best) else fitted.best,
        adapter_proof=prove_adapter(model, base, batch),
    )
    console.print()
    console.print(comparison_table(comparison))
    if controls:
        console.print()
        console.print(control_table(after.metrics, controls))
    console_lines.whereabouts(
        console,
        {"run folder": run.shown, "adapter": run.shown / "adapter", "comparison": run.shown / "comparison.json"},
        [f"python evaluate.py adapter={run.shown / 'adapter'}", "python train.py --help"],
    )
    return fitted.best


if __name__ == "__main__":
    finished = run_entry("train", TrainConfig, CONF, train)
    if len(finished.jobs) > 1:
        from rich.console import Console

        from medvl.evaluation.files import read_comparison
        from medvl.reporting.tables import results_table, sweep_table

        rows = finished.rows("val/macro_accuracy")
        read = {
            " ".join(row["overrides"]): read_comparison(Path(row["run_folder"]) / "comparison.json") for row in rows
        }
        Console().print(sweep_table(rows), results_table(read), sep="\n\n")
