"""`medvl check`, `medvl show` and `medvl sources`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.table import Table
from rich.text import Text

from medvl.benchmark.check import check_items, check_pictures
from medvl.benchmark.prepare import BENCHMARKS, stored_root
from medvl.benchmark.show import choose_items, item_sheet
from medvl.benchmark.store import CARD_FILE, Benchmark, read_benchmark
from medvl.config.nearest import or_what
from medvl.errors import DataError, StorageError
from medvl.reporting.progress import step_progress
from medvl.sources.registry import SOURCES


def check_command(console: Console, name: str, root: Path | None, *, pictures: bool) -> bool:
    """Print what each check found. Returns whether all are well."""
    benchmark = open_benchmark(name)
    findings = check_items(benchmark.items)
    if pictures:
        with step_progress(console) as bar:
            place = _root_of(benchmark, root)
            findings.append(check_pictures(benchmark.items, place, bar.of("reading pictures again")))
    table = Table(title=f"check of {benchmark.folder.name}", title_justify="left")
    for column in ("", "check", "found"):
        table.add_column(column, overflow="fold")
    for finding in findings:
        table.add_row("ok" if finding.is_ok else "FAULT", finding.check, Text(finding.text))
    console.print(table)
    return all(finding.is_ok for finding in findings)


def show_command(
    console: Console,
    name: str,
    root: Path | None,
    wanted: Mapping[str, str | None],
    *,
    count: int,
    seed: int,
    side_px: int | None,
    out: Path,
) -> None:
    """Write a contact sheet."""
    benchmark = open_benchmark(name)
    chosen = choose_items(benchmark.items, count, seed=seed, **wanted)
    sheet = item_sheet(chosen, _root_of(benchmark, root), side_px=side_px)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(sheet).save(out, format="PNG")
    except OSError as error:
        raise StorageError(f"cannot write {out}: {error.strerror or error}; say --out with another file") from error
    console.print(Text(f"{len(chosen)} items -> {out}"), soft_wrap=True)


def sources_command(console: Console, root: Path | None) -> None:
    """Print the table of sources."""
    table = Table(title="sources", title_justify="left")
    table.add_column("name", no_wrap=True)
    for column in ("tasks", "licence", "pictures", "home", *(() if root is None else ("found",))):
        table.add_column(column, overflow="fold")
    for source in SOURCES.values():
        row = [source.name, " ".join(source.tasks), source.licence, f"{source.published_pictures:,}", source.homepage]
        if root is not None:
            place = source.find(root)
            row.append("-" if place is None else _relative(place, root))
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


def open_benchmark(name: str) -> Benchmark:
    """Read a benchmark by its folder or its name.

    Raises:
        DataError: There is none; names those that are near.
    """
    given, home = Path(name), Path("data") / BENCHMARKS
    for place in (given, home / name):
        if (place / CARD_FILE).is_file():
            return read_benchmark(place)
    known = sorted(card.parent.name for card in home.glob(f"*/{CARD_FILE}"))
    raise DataError(
        f"{name} is no benchmark{or_what(name, known)}; looked for {CARD_FILE} in {given} and {home / name}. "
        "Build one with: medvl build data=NAME data.root=DIR"
    )


def _root_of(benchmark: Benchmark, given: Path | None) -> Path:
    root = given or stored_root(benchmark.folder)
    if root is None:
        raise DataError(f"{benchmark.folder}: where its pictures lie is not known here; say --root DIR")
    return root.absolute()


def _relative(place: Path, root: Path) -> str:
    return place.relative_to(root.absolute()).as_posix() if place.is_relative_to(root.absolute()) else str(place)
