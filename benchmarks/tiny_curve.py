"""Reruns the beginning of the tiny base's pretraining from its seed and compares with the curve that ships with it.

`python benchmarks/tiny_curve.py [--minutes 5]` from the project's folder. The data of every step follow from the seed;
only the order of floating-point sums differs between machines, so the loss must come close: within 3 % at every row.
"""

from __future__ import annotations

import argparse
import csv
import platform
import tempfile
import time
from pathlib import Path

import torch

from medvl.models.tiny.architecture import TinySize
from medvl.models.tiny.curriculum import PARTS, Plan
from medvl.models.tiny.pretrain import curve_path, pretrain_part

SHIPPED = Path(__file__).resolve().parent.parent / "src" / "medvl" / "models" / "tiny" / "checkpoint" / "curve.csv"
TOLERANCE = 0.03


def losses(path: Path) -> dict[int, float]:
    """Step -> loss of the first part."""
    with path.open(newline="") as file:
        return {int(row["step"]): float(row["loss"]) for row in csv.DictReader(file) if row["part"] == PARTS[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    minutes = parser.parse_args().minutes
    recorded = losses(SHIPPED)
    print(f"Python {platform.python_version()}, torch {torch.__version__}, {time.strftime('%Y-%m-%d')}")
    started, worst, compared = time.monotonic(), 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        for step in sorted(recorded):
            if time.monotonic() - started > 60 * minutes:
                break
            quiet: list[str] = []
            pretrain_part(
                Path(folder), PARTS[0], Plan(), TinySize(), resume=True, stop_after_steps=step, report=quiet.append
            )
            found = losses(curve_path(Path(folder), PARTS[0]))[step]
            off = found / recorded[step] - 1
            worst, compared = max(worst, abs(off)), compared + 1
            print(f"step {step:5}: loss {found:.4f}, recorded {recorded[step]:.4f} ({off:+.2%})", flush=True)
    seconds = time.monotonic() - started
    verdict = "within" if worst <= TOLERANCE else "NOT within"
    print(f"{compared} rows in {seconds:.0f} s, largest difference {worst:.2%}: {verdict} {TOLERANCE:.0%}")
    raise SystemExit(worst > TOLERANCE)


if __name__ == "__main__":
    main()
