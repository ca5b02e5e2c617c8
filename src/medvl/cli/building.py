"""`medvl build`."""

from __future__ import annotations

import shlex
from pathlib import Path

from rich.console import Console

from medvl.benchmark.prepare import BENCHMARKS, prepare_benchmark
from medvl.config.composing import compose_config, find_conf
from medvl.config.schema import BuildConfig
from medvl.reporting import console_lines
from medvl.reporting.progress import step_progress


def build_command(console: Console, overrides: list[str]) -> None:
    """Build, and print what each source gave, how its pictures were read and where the benchmark lies."""
    config = compose_config("build", BuildConfig, overrides, find_conf())
    with step_progress(console) as bar:
        benchmark = prepare_benchmark(config, bar)
    console_lines.benchmark(console, benchmark.card)
    console_lines.readings(console, benchmark.card)
    # Where `medvl check` and `medvl show` look for a name.
    is_home = benchmark.folder.resolve() == (Path("data") / BENCHMARKS / benchmark.folder.name).resolve()
    name = benchmark.folder.name if is_home else shlex.quote(str(benchmark.folder))
    console_lines.whereabouts(
        console,
        {"benchmark": benchmark.folder, "fingerprint": benchmark.fingerprint},
        [f"medvl check {name}", f"medvl show {name} -n 9"],
    )
