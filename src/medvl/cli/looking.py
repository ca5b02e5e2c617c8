"""`medvl check`, `medvl show` and `medvl sources`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image
from rich.console import Console
from rich.table import Table
from rich.text import Text

from medvl.benchmark.check import check_items, check_pictures, find_leaks, near_finding
from medvl.benchmark.leaks import card_leaks
from medvl.benchmark.prepare import BENCHMARKS, stored_root
from medvl.benchmark.show import choose_items, item_sheet
from medvl.benchmark.store import CARD_FILE, Benchmark, read_benchmark
from medvl.config.nearest import or_what
from medvl.errors import DataError, StorageError
from medvl.imaging.reading import read_picture
from medvl.reporting import console_lines, leak_report
from medvl.reporting.progress import step_progress
from medvl.sources.registry import SOURCES


def check_command(console: Console, name: str, root: Path | None, *, pictures: bool) -> bool:
    """Print what each check found, the leaks, and how pictures were read; write the leaks beside the benchmark.

    Returns:
        Whether all is well. Leaks that the build settled are no fault.
    """
    benchmark = open_benchmark(name)
    settled = card_leaks(benchmark.card, benchmark.folder)
    findings, signatures = check_items(benchmark.items), None
    if pictures:
        with step_progress(console) as bar:
            place = _root_of(benchmark, root)
            reread, signatures = check_pictures(benchmark.items, place, bar.of("reading pictures again"))
        findings.append(reread)
    left = find_leaks(benchmark.items, signatures)
    if signatures is not None:
        findings.append(near_finding(left, len(signatures)))
    table = Table(title=f"check of {benchmark.folder.name}", title_justify="left")
    for column in ("", "check", "found"):
        table.add_column(column, overflow="fold")
    for finding in findings:
        table.add_row("ok" if finding.is_ok else "FAULT", finding.check, Text(finding.text))
    console.print(table)
    console_lines.readings(console, benchmark.card)
    _print_leaks(console, benchmark.folder, [*left, *settled], root or stored_root(benchmark.folder))
    return not left and all(finding.is_ok for finding in findings)


def _print_leaks(console: Console, folder: Path, found: Sequence[Mapping[str, Any]], root: Path | None) -> None:
    leaks = leak_report.ordered(found)
    if leaks:
        console.print(leak_report.leak_table(leaks))
    console_lines.notes(console, leak_report.leak_sentences(leaks))
    load = None if root is None else lambda picture, frame: read_picture(root / picture, frame)
    with step_progress(console) as bar:
        places, problems = leak_report.write_leaks(folder, leaks, load, bar.of("drawing pairs of pictures"))
    console_lines.notes(console, problems)
    if places:
        console_lines.whereabouts(console, places, ())


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
