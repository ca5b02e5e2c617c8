"""The demo over several seeds: accuracy before and after, whether the model looks, wall time, peak memory.

`python benchmarks/demo.py [--seeds 3] [--controls]` from the project's folder. Each seed is one `train.py seed=S`
(another adapter, another order of questions; the drawn patients are the same). `--controls` adds a run on dealt-out
answers, whose every task must end at chance, and the zero-shot base with shuffled pictures, which must change nothing.
Prints tables in Markdown: mean and range over the seeds.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
TASKS = ("PI", "VC", "FO", "CD", "VG")


def run(script: str, *overrides: str, outputs: Path) -> tuple[Path, float]:
    """Run an entry file; returns (its run folder, seconds)."""
    folder = outputs / f"{len(list(outputs.iterdir()))}"
    started = time.monotonic()
    own = [f"hydra.run.dir={folder}", f"paths.outputs={outputs}", "eval.reuse_answers=false"]  # each run asks all anew
    command = [sys.executable, str(ROOT / script), *own, *overrides]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return folder, time.monotonic() - started


def read(folder: Path, name: str) -> dict[str, Any]:
    return dict(json.loads((folder / name).read_text(encoding="utf-8")))


def span(values: Sequence[float]) -> str:
    return f"{statistics.mean(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def tuned_tables(folders: Sequence[Path], seconds: Sequence[float]) -> None:
    comparisons = [read(folder, "comparison.json") for folder in folders]
    print("\n| task | n | chance | zero-shot | fine-tuned | lowest lower bound |\n|---|---|---|---|---|---|")
    for task in TASKS:
        cells = [c["tasks"][task] for c in comparisons]
        before, after = ([cell[model] for cell in cells] for model in ("zero_shot", "fine_tuned"))
        low = min(cell["ci95_fine_tuned"][0] for cell in cells)
        print(f"| {task} | {cells[0]['n']} | {cells[0]['chance']:.3f} | {span(before)} | {span(after)} | {low:.3f} |")
    overall = [c["overall"] for c in comparisons]
    before, after = ([o[model]["accuracy"] for o in overall] for model in ("zero_shot", "fine_tuned"))
    low = min(o["fine_tuned"]["ci95"][0] for o in overall)
    print(f"| overall | {overall[0]['n']} | | {span(before)} | {span(after)} | {low:.3f} |")

    print("\n| fine-tuned, asked with | accuracy |\n|---|---|")
    asked: dict[str, Callable[[Path], dict[str, Any]]] = {
        "the pictures": lambda folder: read(folder, "metrics.json"),
        "no picture": lambda folder: read(folder, "controls/text_only/metrics.json"),
        "a blank picture": lambda folder: read(folder, "controls/blank/metrics.json"),
    }
    for name, figures in asked.items():
        print(f"| {name} | {span([figures(folder)['overall']['accuracy'] for folder in folders])} |")
    print(f"| (majority answer) | {asked['the pictures'](folders[0])['overall']['majority']:.3f} |")
    runs = [read(folder, "run.json") for folder in folders]
    peak = max(r["peak_memory_gib"] for r in runs)
    print(f"\nSeconds of a whole run: {', '.join(f'{s:.0f}' for s in seconds)}; peak memory {peak:.2f} GiB.")


def control_tables(outputs: Path) -> None:
    permuted, _ = run("train.py", "debug=permuted_answers", "eval.controls=[]", outputs=outputs)
    cells = read(permuted, "comparison.json")["tasks"]
    print("\n| trained on dealt-out answers | chance | accuracy | interval |\n|---|---|---|---|")
    for task in TASKS:
        low, high = cells[task]["ci95_fine_tuned"]
        print(f"| {task} | {cells[task]['chance']:.3f} | {cells[task]['fine_tuned']:.3f} | {low:.3f} to {high:.3f} |")
    base, _ = run("evaluate.py", "eval.controls=[shuffled]", outputs=outputs)
    own, other = (read(base, name)["overall"] for name in ("metrics.json", "controls/shuffled/metrics.json"))
    print(f"\nZero-shot with the own pictures {own['accuracy']:.3f}, with shuffled ones {other['accuracy']:.3f}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--controls", action="store_true")
    args = parser.parse_args()
    print(f"Python {platform.python_version()}, torch {torch.__version__}, {time.strftime('%Y-%m-%d')}")
    with tempfile.TemporaryDirectory() as name:
        outputs = Path(name)
        done = [run("train.py", f"seed={seed}", outputs=outputs) for seed in range(args.seeds)]
        tuned_tables([folder for folder, _ in done], [seconds for _, seconds in done])
        if args.controls:
            control_tables(outputs)


if __name__ == "__main__":
    main()
