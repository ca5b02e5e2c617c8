"""The content of `details.json`: what `metrics.json` has no place for, the figures of each task cut further.

`metrics.json` holds every figure of one table of items: overall, by task, box size, domain, source, device, operator
and centre, with recall and confusion by class, letters, calibration and selective risk. A source or a device with other
tasks than its neighbour is harder or easier for that reason alone, so its accuracy over all tasks says little. Here
stand the same cuts within each task, and the whole numbers behind the rates. No figure stands in both files.

| key | content |
|---|---|
| `few` | from how many `items` and `groups` on a cell is not marked `is_small` |
| `items` | hash of the items that were scored: two files with the same one are about the same questions |
| `overall` | `counts`, `unknown`, `option_counts` |
| `tasks` | task -> the same three, and `domains`, `sources`, `devices`, `operators`, `centres`: name -> cell |

`counts` has `n`, `right`, `wrong`, `invalid` and `uncommitted`: the last four add up to `n` (an answer that is invalid
and uncommitted counts as invalid, one that is uncommitted never as right). `unknown` says of how many items the device,
the operator and the centre are not known; they are in no cell of those tables. `option_counts` is number of options ->
cell, which shows what `chance` is made of. Cells are those of `metrics.json` (see `cells`).
"""

from __future__ import annotations

import hashlib
from typing import Any

import polars as pl

from medvl.evaluation.cells import FEW_GROUPS, FEW_ITEMS, META_TABLES, cell, cells_by, known, with_meta
from medvl.evaluation.summary import DOMAINS, check_scored, task_names

SCHEMA_VERSION = 1


def details_of(scored: pl.DataFrame, *, split: str, scoring: str, fingerprints: dict[str, str]) -> dict[str, Any]:
    """Reduce a scored table to the content of `details.json`.

    Args:
        scored: Result of `score_predictions` for one model, at least one row.
        split: Split the items are of.
        scoring: How the answers were obtained.
        fingerprints: What the figures were made from, passed through.

    Returns:
        See the module: plain JSON types, rates in [0, 1]. The two domains are always there, null where a task has no
        items of one; a table of other names has those that occur.

    Raises:
        DataError: No rows, or rows of another split or scoring than stated.
    """
    check_scored(scored, split=split, scoring=scoring)
    scored = with_meta(scored)
    return {
        "schema_version": SCHEMA_VERSION,
        "split": split,
        "scoring": scoring,
        "few": {"items": FEW_ITEMS, "groups": FEW_GROUPS},
        "items": asked_fingerprint(scored),
        "overall": _whole(scored),
        "tasks": {task: _task(scored.filter(pl.col("task") == task)) for task in task_names(scored["task"])},
        "fingerprints": dict(fingerprints),
    }


def asked_fingerprint(scored: pl.DataFrame) -> str:
    """Hash of ids and fingerprints of the items of a table, whatever their order (16 hex digits)."""
    lines = sorted(f"{name} {mark}" for name, mark in scored.select("item_id", "item_fingerprint").iter_rows())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def answer_counts(scored: pl.DataFrame) -> dict[str, int]:
    """Whole numbers behind accuracy: `n` and its parts `right`, `wrong`, `invalid`, `uncommitted`."""
    n, right, invalid = scored.height, int(scored["is_correct"].sum()), int(scored["is_invalid"].sum())
    uncommitted = int((scored["is_uncommitted"] & ~scored["is_invalid"]).sum())
    wrong = n - right - invalid - uncommitted
    return {"n": n, "right": right, "wrong": wrong, "invalid": invalid, "uncommitted": uncommitted}


def _whole(rows: pl.DataFrame) -> dict[str, Any]:
    sizes = rows["options"].list.len()
    return {
        "counts": answer_counts(rows),
        "unknown": {fact: int(rows[fact].null_count()) for fact in META_TABLES.values()},
        "option_counts": {str(k): cell(rows.filter(sizes == k)) for k in sorted(sizes.unique())},
    }


def _task(rows: pl.DataFrame) -> dict[str, Any]:
    return _whole(rows) | {
        "domains": cells_by(rows, "domain", DOMAINS),
        "sources": cells_by(rows, "source", known(rows["source"])),
        **{table: cells_by(rows, fact, known(rows[fact])) for table, fact in META_TABLES.items()},
    }
