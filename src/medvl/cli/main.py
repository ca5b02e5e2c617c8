"""The `medvl` command. Each subcommand says what it did and where; an error is one message and an exit code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich import get_console

from medvl.errors import MedvlError

app = typer.Typer(
    name="medvl",
    help="Build, check and look at multiple-choice benchmarks of medical pictures. Training: python train.py --help.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Benchmark = Annotated[str, typer.Argument(help="Folder of a benchmark, or its name below data/benchmarks.")]
Root = Annotated[
    Path | None, typer.Option("--root", help="Data root of its pictures; by default where it was built from.")
]


@app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def build(
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Settings, e.g. data=fetal_gauge data.root=DIR benchmark.leaks=fail.")
    ] = None,
) -> None:
    """Build a benchmark from the datasets under a data root; with nothing changed, say so in a second."""
    from medvl.cli.building import build_command

    build_command(get_console(), overrides or [])


@app.command()
def check(
    benchmark: Benchmark,
    root: Root = None,
    pictures: Annotated[bool, typer.Option(help="Read every picture again and compare its pixels.")] = False,
) -> None:
    """Check a benchmark: whole, groups apart, no picture on two sides, gold letters even, answers balanced."""
    from medvl.cli.looking import check_command

    if not check_command(get_console(), benchmark, root, pictures=pictures):
        raise typer.Exit(3)


@app.command()
def show(
    benchmark: Benchmark,
    root: Root = None,
    task: Annotated[str | None, typer.Option(help="Only this task, e.g. VG.")] = None,
    source: Annotated[str | None, typer.Option(help="Only this source, e.g. hc18.")] = None,
    split: Annotated[str | None, typer.Option(help="Only this side: train, val or test.")] = None,
    tier: Annotated[str | None, typer.Option(help="Only boxes of this tier: small, medium or large.")] = None,
    n: Annotated[int, typer.Option("-n", min=1, max=200, help="Most items.")] = 9,
    seed: Annotated[int, typer.Option(help="Which items are chosen.")] = 0,
    side: Annotated[
        int | None, typer.Option(min=16, max=4096, help="Bring pictures to this square first, as a model's processor.")
    ] = None,
    out: Annotated[Path, typer.Option(help="PNG file to write.")] = Path("sheet.png"),
) -> None:
    """Write a contact sheet: pictures as a model will see them, box, question, options, right answer."""
    from medvl.cli.looking import show_command

    wanted = {"task": task, "source": source, "split": split, "tier": tier}
    show_command(get_console(), benchmark, root, wanted, count=n, seed=seed, side_px=side, out=out)


@app.command()
def sources(
    root: Annotated[Path | None, typer.Option("--root", help="Data root to look in.")] = None,
) -> None:
    """List every source: tasks, licence, where to get it, and where it lies under a data root."""
    from medvl.cli.looking import sources_command

    sources_command(get_console(), root)


def main() -> None:
    """Run the command; an error of medvl ends in its message and code, never in a traceback."""
    try:
        app()
    except MedvlError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("\ninterrupted; what was read is kept, the same command goes on from there", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
