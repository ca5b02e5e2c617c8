"""What a benchmark's card says: the table of sources, counts, histograms, and the published totals beside ours."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from medvl.benchmark.item import Item
from medvl.sources.record import Domain, Source, Split

PUBLISHED_TOTALS = {"pictures": 42_036, "items": 93_451, "vg_test_items": 11_332, "sources": 13}
"""Totals that the Fetal-Gauge authors report (ICLR 2026). Their 13 sources are not named in any text we have, so these
stand beside ours for orientation and equality is never claimed."""


OTHER_CASE = "name in other case"
"""What the census of reading calls pictures whose name on disk differs from the listed one in upper and lower case."""


@dataclass(slots=True)
class SourceRow:
    """One line of the build table.

    Attributes:
        source: Source name.
        found: Whether its folder lies under the data root.
        why_absent: Sentence with what to do when it does not.
        listed: Pictures that the dataset's files list.
        absent: Listed pictures that this copy lacks.
        unlabelled: Pictures without anything to ask.
        broken: Sentences about pictures left out because they cannot be read.
        official_split: Whether the published split is kept.
        warnings: Sentences for the user.
        leaked: Pictures dropped because a copy, or a picture of the same group, lies on another side.
        reading: Rule of reading -> pictures it touched (turned by EXIF, deep grey, transparency, ...).
    """

    source: str
    found: bool = False
    why_absent: str = ""
    listed: int = 0
    absent: int = 0
    unlabelled: int = 0
    broken: list[str] = field(default_factory=list)
    official_split: bool = False
    warnings: list[str] = field(default_factory=list)
    leaked: int = 0
    reading: dict[str, int] = field(default_factory=dict)


def build_card(
    name: str,
    items: Sequence[Item],
    rows: Sequence[SourceRow],
    sources: dict[str, Source],
    settings: dict[str, Any],
    leaks: Sequence[Mapping[str, Any]],
    inputs: str,
) -> dict[str, Any]:
    """Content of `card.json`, without versions and file hashes.

    Args:
        name: Name of the benchmark.
        items: All items.
        rows: Build table.
        sources: Name -> source, for licences.
        settings: Every setting that shaped the items.
        leaks: What was found on two sides, rows of `medvl.benchmark.leaks.leak_rows`.
        inputs: Fingerprint of the files that were read.
    """
    by_source: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        by_source[item.source].append(item)
    return {
        "name": name,
        "settings": settings,
        "sources": {row.source: _source_entry(row, by_source[row.source], sources[row.source]) for row in rows},
        "counts": _counts(items),
        "gold_letters": {
            task: _sorted(Counter(i.answer_letter for i in items if i.task == task)) for task in _tasks(items)
        },
        "answers": {task: _sorted(Counter(i.answer for i in items if i.task == task)) for task in _tasks(items)},
        "area_share_terciles": _terciles(items),
        "leak_pairs": len(leaks),
        "leaks": [dict(row) for row in leaks],
        "published_totals": PUBLISHED_TOTALS,
        "totals": {
            "pictures": len({(i.source, i.picture, i.frame) for i in items}),
            "items": len(items),
            "vg_test_items": sum(i.task == "VG" and i.split == Split.TEST for i in items),
            "sources": sum(row.found for row in rows),
        },
        "fingerprints": {"inputs": inputs},
    }


def _source_entry(row: SourceRow, items: Sequence[Item], source: Source) -> dict[str, Any]:
    pictures = {(i.picture, i.frame): i for i in items}
    phantom = sum(i.domain is Domain.PHANTOM for i in pictures.values())
    return {
        **{key: value for key, value in asdict(row).items() if key != "source"},
        "title": source.title,
        "homepage": source.homepage,
        "licence": source.licence,
        "redistributable": source.is_redistributable,
        "citation": source.citation,
        "group_rule": source.group_rule,
        "flaws": list(source.flaws),
        "pictures": len(pictures),
        "items": len(items),
        "splits": {split.value: sum(i.split is split for i in items) for split in Split},
        "groups": {split.value: len({i.group for i in items if i.split is split}) for split in Split},
        "phantom_share": phantom / len(pictures) if pictures else None,
        "constant_answer": sorted({i.task.value for i in items if i.constant_answer}),
    }


def _counts(items: Sequence[Item]) -> list[dict[str, Any]]:
    """Items by source, task, split, domain and tier: one row for each cell that is not empty."""
    cells = Counter((i.source, i.task.value, i.split.value, i.domain.value, i.tier) for i in items)
    names = ("source", "task", "split", "domain", "tier")
    return [{**dict(zip(names, cell, strict=True)), "items": n} for cell, n in sorted(cells.items(), key=str)]


def _terciles(items: Sequence[Item]) -> list[float] | None:
    shares = [i.area_share for i in items if i.area_share is not None]
    return [float(q) for q in np.quantile(shares, [1 / 3, 2 / 3])] if shares else None


def _tasks(items: Sequence[Item]) -> list[str]:
    return sorted({i.task.value for i in items})


def _sorted(counter: Counter[str]) -> dict[str, int]:
    return dict(sorted(counter.items()))
