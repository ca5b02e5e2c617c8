"""From a configuration to a benchmark folder: draw the demo dataset if it is asked for, build what is not there."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

from medvl.benchmark.build import Recipe, build_benchmark
from medvl.benchmark.store import Benchmark
from medvl.config.schema import BuildConfig
from medvl.errors import ConfigError, StorageError
from medvl.sources.demo.dataset import demo_is_current, write_demo_dataset
from medvl.sources.own import make_source
from medvl.sources.registry import SOURCES, unknown_sources

Progress = Callable[[str, int, int], None]
"""Called with (what, done, in all)."""

ROOT_FILE = "root.txt"
"""File beside the card with the data root; stays local."""

BENCHMARKS = "benchmarks"
"""Folder below `paths.data` that built benchmarks lie in."""


def data_root(config: BuildConfig) -> Path:
    """Absolute data root."""
    return Path(os.path.abspath(Path(config.data.root).expanduser()))


def recipe_of(config: BuildConfig) -> Recipe:
    """What a configuration asks to build.

    Raises:
        ConfigError: A source is unknown, or own data have the name of one.
    """
    problems = [f"data.sources: {problem}" for problem in unknown_sources(config.data.sources)]
    problems += [
        f"data.own: '{name}' is the name of a source; give your data another name"
        for name in config.data.own_names
        if name in SOURCES
    ]
    if problems:
        raise ConfigError(problems)
    return Recipe(
        name=config.data.name,
        root=data_root(config),
        sources=[*(SOURCES[name] for name in config.data.sources), *(make_source(one) for one in config.data.own)],
        config=config.benchmark,
        strict=config.data.strict,
        skip_broken=config.data.skip_broken,
        own=config.data.own,
    )


def benchmark_folder(config: BuildConfig) -> Path:
    """Folder of the benchmark; its name holds a hash of the settings, so that two settings never share one."""
    recipe = recipe_of(config)
    facts = json.dumps([recipe.settings(), str(recipe.root)], sort_keys=True)
    digest = hashlib.sha256(facts.encode()).hexdigest()[:8]
    return Path(config.paths.data) / BENCHMARKS / f"{recipe.name}-{digest}"


def prepare_benchmark(config: BuildConfig, progress: Progress | None = None) -> Benchmark:
    """Draw the demo dataset and build the benchmark, where they are not there yet.

    Args:
        config: Configuration.
        progress: Called while pictures are drawn and read.

    Raises:
        ConfigError: A source is unknown, or own data have the name of one.
        DataError: See `build_benchmark`.
        StorageError: A folder cannot be written.
    """
    recipe, demo = recipe_of(config), config.data.demo
    if demo is not None and not demo_is_current(recipe.root, seed=demo.seed, patients=demo.patients):
        drawn = None if progress is None else lambda done, n: progress("drawing the demo pictures", done, n)
        write_demo_dataset(recipe.root, seed=demo.seed, patients=demo.patients, progress=drawn)
    read = None if progress is None else lambda source, done, n: progress(f"reading the pictures of {source}", done, n)
    benchmark = build_benchmark(recipe, benchmark_folder(config), read)
    _keep_root(benchmark.folder, recipe.root)
    return benchmark


def stored_root(folder: Path) -> Path | None:
    """Data root that the benchmark of a folder was last built from on this machine, or None."""
    try:
        return Path((folder / ROOT_FILE).read_text(encoding="utf-8").strip())
    except OSError:
        return None


def _keep_root(folder: Path, root: Path) -> None:
    """Note the data root beside the card: it is this machine's business, so it is not in the card."""
    if stored_root(folder) == root:
        return
    try:
        (folder / ROOT_FILE).write_text(f"{root}\n", encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write {folder / ROOT_FILE}: {error.strerror or error}") from error
