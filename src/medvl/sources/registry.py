"""All sources by name."""

from __future__ import annotations

from medvl.config.nearest import or_what
from medvl.sources.demo.source import DEMO
from medvl.sources.fetal_planes_db import FETAL_PLANES_DB
from medvl.sources.hc18 import HC18
from medvl.sources.record import Source

SOURCES: dict[str, Source] = {source.name: source for source in (DEMO, HC18, FETAL_PLANES_DB)}
"""Name in configurations -> source, in the order of tables."""


def unknown_sources(names: list[str]) -> list[str]:
    """A sentence for each name that is no source."""
    return [f"'{name}' is no source{or_what(name, SOURCES)}" for name in names if name not in SOURCES]
