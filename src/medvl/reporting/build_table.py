"""The tables that a run shows before it trains: what the benchmark holds, and how often each task will be seen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from medvl.batching.task_mix import Exposure


def sources_table(card: Mapping[str, Any]) -> Table:
    """What each source gave: one row a source, from `card.json`."""
    table = Table(title=f"benchmark {card['name']}", title_justify="left")
    for name in ("source", "pictures", "items", "train", "val", "test", "groups", "phantom"):
        table.add_column(name, justify="left" if name == "source" else "right")
    for name, entry in card["sources"].items():
        if not entry["found"]:
            table.add_row(name, "not found", *[""] * 6, style="dim")
            continue
        share = entry["phantom_share"]
        table.add_row(
            name,
            f"{entry['pictures']:,}",
            f"{entry['items']:,}",
            *(f"{entry['splits'][split]:,}" for split in ("train", "val", "test")),
            f"{sum(entry['groups'].values()):,}",
            "" if share is None else f"{share:.2f}",
        )
    return table


def reading_table(card: Mapping[str, Any]) -> Table | None:
    """How many pictures each rule of reading touched, by source; None where none touched any."""
    touched: dict[str, dict[str, int]] = defaultdict(dict)
    for name, entry in card["sources"].items():
        for rule, pictures in entry["reading"].items():
            touched[rule][name] = pictures
    if not touched:
        return None
    table = Table(title="how pictures were read", title_justify="left", caption_justify="left")
    table.add_column("rule", no_wrap=True)
    table.add_column("pictures", justify="right")
    table.add_column("of which", overflow="fold")
    for rule, counts in sorted(touched.items()):
        table.add_row(rule, f"{sum(counts.values()):,}", ", ".join(f"{name} {n:,}" for name, n in counts.items()))
    table.caption = "rules: docs/datasets.md"
    return table


def source_notes(card: Mapping[str, Any]) -> Iterator[str]:
    """Sentences about what is missing, partial, broken or to be read with care."""
    for name, entry in card["sources"].items():
        if not entry["found"]:
            yield f"{name}: {entry['why_absent']}"
            continue
        if entry["absent"]:
            yield (
                f"{name}: partial copy, {entry['listed'] - entry['absent']:,} of {entry['listed']:,} listed pictures "
                f"are here"
            )
        if entry["unlabelled"]:
            yield f"{name}: {entry['unlabelled']:,} pictures carry no label to ask about"
        if entry["broken"]:
            yield f"{name}: {len(entry['broken'])} broken pictures left out, the first: {entry['broken'][0]}"
        if entry["leaked"]:
            yield (
                f"{name}: {entry['leaked']} pictures dropped because a copy, or a picture of their group, lies on "
                "another side of the split; medvl check lists them"
            )
        yield from (f"{name}: {warning}" for warning in entry["warnings"])
        if entry["items"]:
            yield from (f"{name}, known flaw: {flaw}" for flaw in entry.get("flaws", ()))
    totals, published = card["totals"], card["published_totals"]
    found = {name for name, entry in card["sources"].items() if entry["found"]}
    if card["name"] == "fetal_gauge" and found:
        yield (
            f"in all {totals['pictures']:,} pictures, {totals['items']:,} items, {totals['vg_test_items']:,} VG "
            f"items in test; the paper states {published['pictures']:,}, {published['items']:,} and "
            f"{published['vg_test_items']:,} (it does not name its sources, so the two are not the same)"
        )


def exposure_table(exposures: Sequence[Exposure], epochs: float) -> Table:
    """How often each task, item and picture is seen.

    Args:
        exposures: One entry a task.
        epochs: Epochs that will run.
    """
    table = Table(title="task mix", title_justify="left")
    for name in ("task", "items", "pictures", "drawn an epoch", "share", "each item is seen"):
        table.add_column(name, justify="left" if name == "task" else "right")
    for e in exposures:
        table.add_row(
            e.task,
            f"{e.items:,}",
            f"{e.pictures:,}",
            f"{e.drawn:,}",
            f"{e.share:.3f}",
            f"{e.times_per_item * epochs:.1f} times",
        )
    return table
