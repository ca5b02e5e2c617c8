"""Asks several runs or adapters the same questions and shows them against one baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from medvl.config.entry import Job
from medvl.config.schema import EvaluateConfig
from medvl.reporting import console_lines
from medvl.reporting.candidates_table import candidates_table, candidates_task_table
from medvl.reporting.progress import step_progress
from medvl.training.run_folder import RunFolder

if TYPE_CHECKING:  # torch is imported once the configuration is known to be right
    from medvl.training.candidate_answers import BenchmarkQuestions
    from medvl.training.team import Team


def compare_runs(
    job: Job[EvaluateConfig], run: RunFolder, questions: BenchmarkQuestions, console: Console, team: Team
) -> float:
    """Ask what `compare` names, print both tables and write the figures.

    Args:
        job: Names the entries, the benchmark and the split.
        run: The run folder.
        questions: The DataModule.
        console: Where the tables go.
        team: The processes that ask together.

    Returns:
        The best macro accuracy of a candidate.
    """
    from medvl.training.candidate_answers import compare_candidates

    with step_progress(console) as bar:
        content, notes = compare_candidates(job, run, questions, bar, team)
    console_lines.notes(console, notes)
    console.print(candidates_table(content))
    console.print()
    console.print(candidates_task_table(content))
    console_lines.whereabouts(console, {"figures": run.shown / "candidates.json"}, [])
    macros = [model["overall"]["macro_accuracy"] for model in content["candidates"].values()]
    return float(max((macro["mean"] for macro in macros if macro), default=0.0))
