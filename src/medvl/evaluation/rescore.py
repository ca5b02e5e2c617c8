"""Scores the answers of an earlier run again, against the benchmark of now. Needs no model and no torch.

Answers are matched with items by fingerprint: same pixels, box, question, options and right answer. An item may have
moved to another folder or have got another id since; one that asks something else is no match.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from medvl.answering.prediction import Prediction, frame_to_predictions
from medvl.benchmark.item import Item, items_to_frame
from medvl.benchmark.store import Benchmark
from medvl.errors import DataError
from medvl.evaluation.answer_table import Answers
from medvl.evaluation.run_facts import UNKNOWN
from medvl.evaluation.scored import score_predictions
from medvl.evaluation.summary import summarise

PRINTS = ("base", "adapter", "processor", "prompt", "dtype")
"""Fingerprints that are marked unknown where nothing is said beside the answers."""


@dataclass(frozen=True, slots=True)
class Rescored:
    """Answers that were scored again.

    Attributes:
        predictions: One answer an item, in the order of the items.
        metrics: Content of `metrics.json`.
        notes: Sentences for the user.
    """

    predictions: list[Prediction]
    metrics: dict[str, Any]
    notes: list[str]


def rescore(answers: Answers, items: Sequence[Item], benchmark: Benchmark) -> Rescored:
    """Score answers again.

    Args:
        answers: Result of `read_answers`.
        items: Items that are scored, of one split.
        benchmark: Where they are from.

    Raises:
        DataError: The answers are not those to exactly these items, or hold values that cannot be.
    """
    table = match_answers(answers, items, benchmark)
    notes, recorded = list(answers.notes), answers.fingerprints
    before = recorded.get("benchmark")
    if before not in (None, benchmark.fingerprint):
        notes.append(
            f"the answers were given on benchmark {before}; this one is {benchmark.fingerprint}, in which the same "
            "questions stand"
        )
    prints = {**(recorded or dict.fromkeys(PRINTS, UNKNOWN)), "benchmark": benchmark.fingerprint}
    scored = score_predictions(items_to_frame(items), table)
    metrics = summarise(scored, split=items[0].split, scoring=table["scoring"][0], fingerprints=prints)
    return Rescored(frame_to_predictions(table), metrics, notes)


def match_answers(answers: Answers, items: Sequence[Item], benchmark: Benchmark) -> pl.DataFrame:
    """Bring answers into the order of items, matched by fingerprint, under the ids that the items have now.

    Where several items ask the very same, each takes the answer that was given under its id, else any of them.

    Raises:
        DataError: An item has no answer, or an answer no item; says how many, and which split they are of.
    """
    rows: dict[str, list[int]] = defaultdict(list)
    ids = answers.table["item_id"].to_list()
    for number, mark in enumerate(answers.table["item_fingerprint"].to_list()):
        rows[mark].append(number)
    marks = [item.fingerprint() for item in items]
    taken: dict[int, int] = {}
    for by_id in (True, False):
        for place, (item, mark) in enumerate(zip(items, marks, strict=True)):
            if place in taken:
                continue
            fitting = [n for n in rows[mark] if not by_id or ids[n] == item.item_id]
            if fitting:
                taken[place] = fitting[0]
                rows[mark].remove(fitting[0])
    left = [number for numbers in rows.values() for number in numbers]
    if left or len(taken) < len(items):
        raise DataError(_mismatch(answers, items, benchmark, len(items) - len(taken), left))
    ordered = answers.table[[taken[place] for place in range(len(items))]]
    return ordered.with_columns(pl.Series("item_id", [item.item_id for item in items], dtype=pl.String))


def _mismatch(
    answers: Answers, items: Sequence[Item], benchmark: Benchmark, unanswered: int, left: Sequence[int]
) -> str:
    split_of = {item.fingerprint(): str(item.split) for item in benchmark.items}
    known = {item.item_id for item in benchmark.items}
    splits = Counter(split_of.get(mark, "none") for mark in answers.table["item_fingerprint"].to_list())
    changed = sum(
        answers.table["item_id"][n] in known and answers.table["item_fingerprint"][n] not in split_of for n in left
    )
    stale = f" ({changed:,} of them to an item that has changed since)" if changed else ""
    where = ", ".join(f"{name} {n:,}" for name, n in splits.most_common())
    return (
        f"{answers.path} should answer each of the {len(items):,} items of the {items[0].split} split of benchmark "
        f"{benchmark.card['name']} once, but {unanswered:,} of these items have no answer there, and {len(left):,} of "
        f"its {answers.table.height:,} answers are to other questions{stale}. Answers by split of this benchmark: "
        f"{where}. Say split=... and eval.test_items=... as when they were given, or name their benchmark with "
        "data=... and data.root=..."
    )
