"""What intervals, tests and whole result files cost: many answers, resampled by patient, on one core.

`python benchmarks/bootstrap.py [--items 30000] [--resamples 2000]` from the project's folder. Needs no GPU and no data.
The answers are drawn: patients of very different size and difficulty, five tasks, thirteen sources.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from medvl.benchmark.item import LETTERS, META_FIELDS
from medvl.evaluation.comparison import compare
from medvl.evaluation.details import details_of
from medvl.evaluation.intervals import accuracy_ci, macro_bootstrap_ci
from medvl.evaluation.paired import paired_bootstrap_difference
from medvl.evaluation.seeds import compare_seeds
from medvl.evaluation.sign_flip import sign_flip_exact
from medvl.evaluation.summary import summarise

LIMIT_S = 10.0
PATIENTS = 3000
TASKS = {"PI": 12, "VC": 2, "FO": 4, "CD": 3, "VG": 40}  # task -> answers in its vocabulary
SHARES = (0.33, 0.02, 0.15, 0.01, 0.49)


def drawn_groups(rng: np.random.Generator, n: int, n_groups: int) -> npt.NDArray[np.int64]:
    """Patient of each item; a few patients have very many."""
    size = rng.pareto(1.5, n_groups) + 0.2
    return rng.choice(n_groups, n, p=size / size.sum())


def plain_interval(right: npt.NDArray[np.float64], groups: npt.NDArray[np.int64], draws: int) -> tuple[float, float]:
    """The same interval by a loop that copies the rows of the drawn patients."""
    rng = np.random.default_rng(0)
    members = [right[groups == g] for g in np.unique(groups)]
    means = [
        np.concatenate([members[g] for g in rng.integers(0, len(members), len(members))]).mean() for _ in range(draws)
    ]
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def drawn_table(seed: int, n: int, n_groups: int, skill: float) -> pl.DataFrame:
    """A scored table; the items depend on nothing but `n` and `n_groups`, the answers also on `seed` and `skill`."""
    rng = np.random.default_rng(0)
    task = rng.choice(list(TASKS), n, p=SHARES)
    group = drawn_groups(rng, n, n_groups)
    options = np.array([min(4, TASKS[t]) for t in task])
    gold = rng.integers(0, options)
    answer = [f"{t} {v}" for t, v in zip(task, rng.integers(0, [TASKS[t] for t in task]), strict=True)]
    area = np.where(task == "VG", rng.beta(1, 8, n), np.nan)
    hard = rng.beta(2, 2, n_groups)[group]
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, 4))
    scores[np.arange(n), gold] += skill * (1.5 - hard)
    scores[np.arange(4) >= options[:, None]] = -np.inf
    scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True)) + 0.05
    given = scores.argmax(axis=1)
    names = np.array(list(LETTERS))
    return pl.DataFrame(
        {
            "item_id": [f"i{i:06d}" for i in range(n)],
            "item_fingerprint": [f"f{i}" for i in range(n)],
            "task": task,
            "source": [f"source {g % 13:02d}" for g in group],
            "group": [f"p{g}" for g in group],
            "domain": np.where(group % 13 == 0, "phantom", "clinical"),
            "split": "test",
            "scoring": "letter",
            "options": [
                [f"{a} / {i}" if i != g else a for i in range(k)] for a, g, k in zip(answer, gold, options, strict=True)
            ],
            "answer": answer,
            "answer_index": gold,
            "answer_letter": names[gold],
            "predicted_letter": names[given],
            "predicted_text": [a if g == p else f"{a} / {p}" for a, g, p in zip(answer, gold, given, strict=True)],
            "option_logprobs": [row[:k].tolist() for row, k in zip(scores, options, strict=True)],
            "area_share": pl.Series(area).fill_nan(None),
            "tier": [None if np.isnan(a) else "small" if a < 0.05 else "medium" if a < 0.2 else "large" for a in area],
            "chance": 1.0 / options,
            "is_correct": given == gold,
            "is_invalid": False,
            "is_uncommitted": False,
            "constant_answer": False,
            "meta": [dict.fromkeys(META_FIELDS, "") | {"device": f"device {g % 5}"} for g in group],
        }
    )


def timed(name: str, action: Callable[[], Any]) -> tuple[float, Any]:
    """Run once to warm up, then once with the clock of the process."""
    action()
    started = time.process_time()
    result = action()
    seconds = time.process_time() - started
    print(f"{name:70} {seconds:7.2f} s", flush=True)
    return seconds, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=30_000)
    parser.add_argument("--resamples", type=int, default=2000)
    arguments = parser.parse_args()
    n, draws = arguments.items, arguments.resamples
    print(
        f"Python {platform.python_version()}, numpy {np.__version__}, polars {pl.__version__}, {n:,} items, {draws:,}"
    )
    slowest = 0.0
    rng = np.random.default_rng(0)
    for n_groups in (200, PATIENTS, n):
        groups = drawn_groups(rng, n, n_groups)
        rate = rng.beta(3, 1.5, n_groups)[groups]
        before, after = ((rng.random(n) < rate * skill).astype(np.float64) for skill in (0.7, 1.0))
        tasks, classes = rng.choice(5, n), rng.choice(40, n)
        steps = {
            "interval of an accuracy": partial(accuracy_ci, after, groups, resamples=draws),
            "interval of a macro accuracy, 5 tasks": partial(macro_bootstrap_ci, after, tasks, groups, resamples=draws),
            "interval of a balanced accuracy, 40 classes": partial(
                macro_bootstrap_ci, after, classes, groups, resamples=draws
            ),
            "interval of a paired difference": partial(
                paired_bootstrap_difference, before, after, groups, resamples=draws
            ),
            "exact sign-flip test of it": partial(sign_flip_exact, after - before, groups),
        }
        some = f"{len(np.unique(groups)):,} patients"
        slowest = max(slowest, *(timed(f"{some}: {name}", action)[0] for name, action in steps.items()))
        if n_groups == PATIENTS:
            fast = steps["interval of an accuracy"]()
            started = time.process_time()
            plain = plain_interval(after, groups, draws)
            print(f"{'  the first of these by a plain loop':70} {time.process_time() - started:7.2f} s")
            print(f"  [{fast[0]:.4f}, {fast[1]:.4f}], by the loop [{plain[0]:.4f}, {plain[1]:.4f}]")
    words: dict[str, Any] = {"split": "test", "scoring": "letter", "fingerprints": {}}
    base, first, second = (drawn_table(seed, n, PATIENTS, skill) for seed, skill in ((1, 0.3), (2, 1.2), (3, 1.2)))
    timed(f"all of metrics.json, about {PATIENTS:,} patients", lambda: summarise(first, **words))
    timed("all of details.json", lambda: details_of(first, **words))
    timed("all of comparison.json", lambda: compare(base, first, **words))
    timed("two seeds against the base", lambda: compare_seeds([base], [first, second], **words))
    verdict = "within" if slowest <= LIMIT_S else "NOT within"
    print(f"slowest interval or test {slowest:.2f} s: {verdict} {LIMIT_S:.0f} s")
    raise SystemExit(slowest > LIMIT_S)


if __name__ == "__main__":
    main()
