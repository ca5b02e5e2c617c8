"""The `medvl` command. Each subcommand says what it did and where; an error is one message and an exit code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich import get_console

from medvl.errors import MedvlError
from medvl.training.quiet import silence_libraries

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

Adapter = Annotated[Path, typer.Argument(help="Folder of an adapter, e.g. outputs/latest/adapter.")]
Base = Annotated[
    str | None, typer.Option("--base", help="Folder of the base model; by default the one of the adapter's run record.")
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


@app.command()
def leaderboard(
    runs: Annotated[list[Path] | None, typer.Argument(help="Folders of runs, e.g. outputs/latest.")] = None,
    csv: Annotated[Path | None, typer.Option(help="CSV file to write.")] = None,
    md: Annotated[Path | None, typer.Option(help="Markdown file to write.")] = None,
) -> None:
    """Rank runs that answered the same items, with the figures that were published with Fetal-Gauge beside them."""
    from medvl.cli.ranking import leaderboard_command

    leaderboard_command(get_console(), runs or [], csv, md)


model_app = typer.Typer(help="Look at a base model.", no_args_is_help=True)
app.add_typer(model_app, name="model")


@model_app.command("info", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def model_info(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="Settings as for train.py, e.g. model=qwen25vl_7b lora=r16 model.path=DIR."),
    ] = None,
) -> None:
    """Say what a model is, what a recipe trains of it, what it needs and how a question is put; loads no weights."""
    from medvl.cli.models import info_command

    info_command(get_console(), overrides or [])


adapter_app = typer.Typer(help="Look at a saved adapter.", no_args_is_help=True)
app.add_typer(adapter_app, name="adapter")


@adapter_app.command("show")
def adapter_show(adapter: Adapter) -> None:
    """Say what an adapter is: base, recipe, layers and norms by part, fingerprints, how it can be served."""
    from medvl.cli.adapters import adapter_show_command

    adapter_show_command(get_console(), adapter)


@adapter_app.command("check")
def adapter_check(
    adapter: Adapter,
    base: Base = None,
    items: Annotated[int, typer.Option(min=1, help="Most questions that are asked.")] = 50,
) -> None:
    """Load an adapter on its base: right base, every key a layer, weights as trained, live, the same when merged."""
    from medvl.cli.adapters import adapter_check_command

    if not adapter_check_command(get_console(), adapter, base, items=items):
        raise typer.Exit(3)


@app.command()
def merge(
    adapter: Adapter,
    out: Annotated[Path, typer.Argument(help="Folder to write: absent or empty.")],
    base: Base = None,
    dtype: Annotated[
        str | None, typer.Option(help="bfloat16, float16 or float32; by default the precision of the run.")
    ] = None,
    items: Annotated[int, typer.Option(min=1, help="Most questions to compare on.")] = 200,
    max_flips: Annotated[
        float, typer.Option(min=0, max=1, help="Largest share of answers that merging may change.")
    ] = 0.02,
) -> None:
    """Merge an adapter into its base's weights, load the result again and compare it with the unmerged model."""
    from medvl.cli.adapters import merge_command

    if not merge_command(get_console(), adapter, out, base=base, dtype=dtype, items=items, max_flips=max_flips):
        raise typer.Exit(3)


def main() -> None:
    """Run the command; an error of medvl ends in its message and code, never in a traceback."""
    silence_libraries()
    try:
        app()
    except MedvlError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("\ninterrupted; nothing half-written is left, and a build goes on from what it has read", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
