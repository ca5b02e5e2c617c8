"""The short lines that a run prints between its tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from medvl.reporting.build_table import reading_table, source_notes, sources_table
from medvl.reporting.tables import rate


def benchmark(console: Console, card: Mapping[str, Any]) -> None:
    """Print what each source gave and what is missing, from `card.json`."""
    console.print(sources_table(card))
    notes(console, source_notes(card))


def readings(console: Console, card: Mapping[str, Any]) -> None:
    """Print what the rules of reading did to pictures, from `card.json`; nothing where they did nothing."""
    table = reading_table(card)
    if table is not None:
        console.print(table)


def notes(console: Console, sentences: Iterable[str]) -> None:
    """Print sentences as a list, each once, long ones wrapped under their dash."""
    for sentence in dict.fromkeys(sentences):
        console.print(Text(f"- {sentence}"), soft_wrap=not console.is_terminal)


def adapter_line(console: Console, counts: Mapping[str, int], label: str) -> None:
    """Print how many parameters train, and in which part."""
    parts = ", ".join(f"{name} {n:,}" for name, n in counts.items() if name not in ("trainable", "total"))
    share = counts["trainable"] / counts["total"]
    console.print(
        Text(f"base {label}: {counts['trainable']:,} of {counts['total']:,} parameters train ({share:.1%}): {parts}")
    )


def step_line(console: Console, step: int, figures: Mapping[str, float], stage: str = "val") -> None:
    """Print the figures of one validation on one line."""
    tasks = "  ".join(
        f"{name.split('/')[2]} {value:.3f}" for name, value in figures.items() if name.startswith(f"{stage}/task/")
    )
    macro, loss = (rate(figures.get(f"{stage}/{name}")) for name in ("macro_accuracy", "loss"))
    console.print(Text(f"step {step:>6}  {stage}: macro {macro}  loss {loss}  {tasks}"), soft_wrap=True)


def whereabouts(console: Console, places: Mapping[str, Any], commands: Iterable[str]) -> None:
    """Print where things are and what can be done next."""
    width = max(len(name) for name in places)
    for name, place in places.items():
        console.print(Text(f"{name:<{width}}  {place}"), soft_wrap=True)
    for command in commands:
        console.print(Text(f"next: {command}"), soft_wrap=True)
