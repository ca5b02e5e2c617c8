"""How long a person waits at the front door: help, a configuration error, drawing the demo data, building from it.

`python benchmarks/front_door.py` from the project's folder; prints medians of interleaved repeats.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from medvl.benchmark.build import Recipe, build_benchmark
from medvl.config.schema import BenchmarkConfig
from medvl.sources.demo.dataset import write_demo_dataset
from medvl.sources.registry import SOURCES

PROJECT = Path(__file__).resolve().parent.parent
REPEATS = 5


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def command(*overrides: str) -> Callable[[], object]:
    line = [sys.executable, str(PROJECT / "train.py"), *overrides]
    return lambda: subprocess.run(line, capture_output=True, check=False)


def main() -> None:
    quick = {
        "help": command("--help"),
        "configuration error": command("lora.rr=1"),
        "--cfg job": command("--cfg", "job"),
    }
    times: dict[str, list[float]] = {name: [] for name in quick}
    for action in quick.values():
        action()  # warm
    for _ in range(REPEATS):
        for name, action in quick.items():
            times[name].append(seconds(action))
    with tempfile.TemporaryDirectory() as folder:
        root, built = Path(folder) / "demo", Path(folder) / "benchmark"
        recipe = Recipe("demo", root, [SOURCES["demo"]], BenchmarkConfig())
        times["draw the demo dataset"] = [seconds(lambda: write_demo_dataset(root))]
        times["build its benchmark"] = [seconds(lambda: build_benchmark(recipe, built))]
        times["build again, nothing changed"] = [seconds(lambda: build_benchmark(recipe, built))]
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}")
    for name, found in times.items():
        print(f"{name:30} {statistics.median(found):6.2f} s   (of {len(found)})")


if __name__ == "__main__":
    main()
