"""The content of `robustness.json`: do answers hold when options change places and questions change words?

| key | content |
|---|---|
| `n` | items |
| `asked` | what was asked (see `training.variants.VariantAnswers`) |
| `models` | `zero_shot`, and `fine_tuned` beside an adapter: `overall` and `tasks` (cells), `fingerprints` |
| `difference` | fine-tuned minus zero-shot circular accuracy, `overall` and `tasks` (see `difference`); else null |

A cell has `n`, `n_groups`, `n_asked`, `invalid_rate` and `uncommitted_rate` of all variants, and

| key | content |
|---|---|
| `rotations` | the question as it is, in all rotations of its options (see `rotations`) |
| `paraphrases` | the options as they are, in all wordings (see `variants.agreement`), and `by_paraphrase` (see below) |
| `variants` | all rotations in all wordings (see `variants.agreement`) |
| `letters`, `top_letter` | letters that were right and given, over all variants (see `letter_bias`) |

`by_paraphrase` is the accuracy of each wording over all rotations that it was asked in. What was not asked is null. Two
flip rates stand everywhere because both are in use: the share of items with any disagreement, and that of variants
which differ from their base.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from medvl.errors import DataError
from medvl.evaluation.difference import adjust, paired_figures
from medvl.evaluation.intervals import accuracy_ci
from medvl.evaluation.letter_bias import top_letter
from medvl.evaluation.metrics import accuracy, letter_histogram
from medvl.evaluation.rotations import rotation_figures
from medvl.evaluation.scored import cluster_codes, correct_array
from medvl.evaluation.summary import check_scored, task_names
from medvl.evaluation.variants import agreement, per_item

SCHEMA_VERSION = 1


def robustness(
    models: Mapping[str, pl.DataFrame],
    *,
    split: str,
    scoring: str,
    asked: Mapping[str, Any],
    fingerprints: Mapping[str, Mapping[str, str]],
) -> dict[str, Any]:
    """Reduce the answers to the variants of some items.

    Args:
        models: `zero_shot`, and `fine_tuned` where there is an adapter -> table of `variants.score_variants`, all of
            the same variants.
        split: Split the items are of.
        scoring: How the answers were obtained.
        asked: What was asked, passed through.
        fingerprints: Model -> what its figures were made from, passed through.

    Returns:
        See the module: plain JSON types, rates in [0, 1], null for what is absent.

    Raises:
        DataError: No rows, rows of another split or scoring than stated, models that were asked different variants,
            or an item that lacks a rotation.
    """
    for rows in models.values():
        check_scored(rows, split=split, scoring=scoring)
    first = next(iter(models.values()))
    for name, rows in models.items():
        if set(rows["variant"]) != set(first["variant"]):
            raise DataError(f"The models were not asked the same: {name} has other variants. Ask the variants again.")
    return {
        "schema_version": SCHEMA_VERSION,
        "split": split,
        "scoring": scoring,
        "n": first["item_id"].n_unique(),
        "asked": dict(asked),
        "models": {
            name: {
                "overall": _cell(rows),
                "tasks": {task: _cell(part) for task, part in _by_task(rows).items()},
                "fingerprints": dict(fingerprints[name]),
            }
            for name, rows in models.items()
        },
        "difference": _difference(models["zero_shot"], models["fine_tuned"]) if "fine_tuned" in models else None,
    }


def _cell(rows: pl.DataFrame) -> dict[str, Any]:
    in_other_words = agreement(rows.filter(pl.col("rotation") == 0))
    return {
        "n": rows["item_id"].n_unique(),
        "n_groups": int(cluster_codes(rows).max()) + 1,
        "n_asked": rows.height,
        "invalid_rate": float(rows["is_invalid"].sum()) / rows.height,
        "uncommitted_rate": float(rows["is_uncommitted"].sum()) / rows.height,
        "rotations": rotation_figures(rows.filter(pl.col("paraphrase") == 0)),
        "paraphrases": None if in_other_words is None else in_other_words | {"by_paraphrase": _by_paraphrase(rows)},
        "variants": agreement(rows),
        "letters": letter_histogram(rows),
        "top_letter": top_letter(rows),
    }


def _by_paraphrase(rows: pl.DataFrame) -> list[dict[str, Any]]:
    found = []
    for (number,), part in sorted(rows.group_by("paraphrase"), key=lambda pair: int(str(pair[0][0]))):
        interval = accuracy_ci(correct_array(part), cluster_codes(part))
        counts = {"n": part["item_id"].n_unique(), "n_asked": part.height}
        found.append({"paraphrase": number, **counts, "accuracy": accuracy(part), "ci95": list(interval)})
    return found


def _difference(before: pl.DataFrame, after: pl.DataFrame) -> dict[str, Any] | None:
    first, second = _turned(before), _turned(after)
    if first.is_empty():
        return None
    tasks = {task: _paired(part, _turned(after)) for task, part in _by_task(first).items()}
    cells: dict[str, dict[str, Any] | None] = {task: {"difference": figures} for task, figures in tasks.items()}
    adjust(cells, "p", "p_clustered")
    return {"overall": _paired(first, second), "tasks": tasks}


def _turned(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of the question as it is, of items whose options were rotated."""
    return rows.filter(pl.col("paraphrase") == 0).filter(pl.len().over("item_id") > 1)


def _paired(before: pl.DataFrame, after: pl.DataFrame) -> dict[str, Any]:
    first = per_item(before)
    second = first.select("item_id").join(per_item(after), on="item_id", maintain_order="left")
    right_before, right_after = (table["is_all_right"].cast(pl.Float64).to_numpy() for table in (first, second))
    return paired_figures(right_before, right_after, cluster_codes(first))


def _by_task(rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    return {task: rows.filter(pl.col("task") == task) for task in task_names(rows["task"])}
