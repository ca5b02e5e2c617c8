"""Which answer was taken for which."""

from __future__ import annotations

from typing import Any

import polars as pl


def confusion_matrix(scored: pl.DataFrame) -> dict[str, Any] | None:
    """Count right answer texts against given ones.

    Args:
        scored: Rows of one task.

    Returns:
        None without rows; else `answers` (all texts that are right or given somewhere, sorted), `counts`
        ([right][given], in the order of `answers`), and for each right text the number of its items with an
        `invalid` or an `uncommitted` answer. These stand apart from `counts` because they name no text, or not
        firmly; an answer that is both counts as invalid. A row of `counts` with its `invalid` and `uncommitted` adds
        up to the items with that right answer.
    """
    if scored.is_empty():
        return None
    kind = pl.when("is_invalid").then(pl.lit("invalid")).when("is_uncommitted").then(pl.lit("uncommitted"))
    cells = scored.group_by(right="answer", given="predicted_text", kind=kind.otherwise(pl.lit("given"))).len()
    firm = cells.filter(pl.col("kind") == "given")
    answers = sorted({*scored["answer"], *firm["given"]})
    place = {answer: i for i, answer in enumerate(answers)}
    counts = [[0] * len(answers) for _ in answers]
    for right, given, n in firm.select("right", "given", "len").iter_rows():
        counts[place[right]][place[given]] = n
    apart = {"invalid": [0] * len(answers), "uncommitted": [0] * len(answers)}
    for right, kind_of, n in cells.filter(pl.col("kind") != "given").select("right", "kind", "len").iter_rows():
        apart[kind_of][place[right]] += n
    return {"answers": answers, "counts": counts, **apart}
