"""The content of `candidates.json`: several fine-tuned models, each against one baseline, on the same items.

Runs of one recipe that differ in their seed are one candidate (see `seeds`).

| key | content |
|---|---|
| `baseline` | a model: `label` and what else is known of it, `overall` and the tables, each a cell (see `cells`) |
| `candidates` | label -> `runs` (label, seed, ... of each), `n_seeds`, `overall` and the tables |
| `tests` | number of candidates, and of p-values that each table was adjusted for |

The tables are `tasks`, `box_tiers` and `domains`; a cell without items is null. A candidate's cell has `accuracy` (see
`seeds.spread`; its `values` are in the order of `runs`), `invalid_rate` and `uncommitted_rate` (means over seeds) and
`difference` from the baseline: `estimate`, `ci95`, `p_clustered`, `p_clustered_holm`. `overall` adds `macro_accuracy`
and `macro_difference`, null where no task counts. Holm: the overall and the macro p over the candidates, the p of a
table over all its cells of all candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from medvl.errors import DataError
from medvl.evaluation.cells import cell, cells_by
from medvl.evaluation.difference import adjust
from medvl.evaluation.files import read_checked, require_cells, require_keys
from medvl.evaluation.metrics import chance_level, macro_accuracy, macro_of
from medvl.evaluation.seeds import compare_seeds
from medvl.evaluation.summary import SCHEMA_VERSION, check_scored, macro_interval

TABLES = {"tasks": "task", "box_tiers": "tier", "domains": "domain"}
"""Table -> column of a scored table that it is made by."""

Cell = dict[str, Any]

_KEYS = ("schema_version", "split", "scoring", "baseline", "candidates", "tests")
_MACRO = ("macro_accuracy", "macro_difference")
_BASELINE_CELL = ("accuracy", "ci95", "n", "n_groups", "chance", "invalid_rate", "uncommitted_rate")
_CELL = ("accuracy", "invalid_rate", "uncommitted_rate", "difference")
_DIFFERENCE = ("estimate", "ci95", "p_clustered", "p_clustered_holm")


def candidates(
    baseline: pl.DataFrame,
    recipes: Mapping[str, Sequence[pl.DataFrame]],
    *,
    split: str,
    scoring: str,
    about: Mapping[str, Any],
    runs: Mapping[str, Sequence[Mapping[str, Any]]],
) -> dict[str, Any]:
    """Compare candidates with a baseline.

    Args:
        baseline: Scored table of the baseline.
        recipes: Label of each candidate -> scored tables of its runs, one a seed, same items in any order.
        split: Split the items are of.
        scoring: How all answers were obtained.
        about: `label` of the baseline, and what else is to be kept of it.
        runs: Label of each candidate -> facts of its runs (`label`, `seed`, ...), in the order of the tables.

    Returns:
        See the module: plain JSON types, rates in [0, 1], differences (candidate minus baseline) in [-1, 1].

    Raises:
        DataError: No candidate, one without runs, rows of another split or scoring than stated, or of different items.
    """
    if not recipes:
        raise DataError("There is no candidate to compare with the baseline. Name at least one.")
    check_scored(baseline, split=split, scoring=scoring)
    found: dict[str, dict[str, Any]] = {}
    for label, tables in recipes.items():
        compared = compare_seeds([baseline], tables, split=split, scoring=scoring, fingerprints={})
        found[label] = {
            "runs": [dict(run) for run in runs[label]],
            "n_seeds": len(tables),
            "overall": _overall(compared["overall"]),
            **{table: {name: _cell(part) for name, part in compared[table].items()} for table in TABLES},
        }
    names = {table: list(next(iter(found.values()))[table]) for table in TABLES}
    return {
        "schema_version": SCHEMA_VERSION,
        "split": split,
        "scoring": scoring,
        "baseline": {
            **about,
            "overall": _baseline_overall(baseline),
            **{table: _slim(cells_by(baseline, column, names[table])) for table, column in TABLES.items()},
        },
        "candidates": found,
        "tests": {"candidates": len(found), **_adjust(found)},
    }


def read_candidates(path: Path) -> dict[str, Any]:
    """Read and check a `candidates.json`.

    Raises:
        DataError: The file is absent, no JSON, of another version, or lacks a key; the message names which.
    """
    data = read_checked(path, _KEYS)
    baseline, models = data["baseline"], data["candidates"]
    require_keys(path, baseline, ("label", "overall", *TABLES), "baseline")
    require_keys(path, baseline["overall"], ("macro_accuracy", *_BASELINE_CELL), "baseline.overall")
    require_cells(path, baseline, tuple(TABLES), _BASELINE_CELL)
    require_keys(path, models, (), "candidates")
    if not models:
        raise DataError(f"{path} holds no candidate. Run evaluate.py again.")
    for label, model in models.items():
        where = f"candidates.{label}"
        require_keys(path, model, ("runs", "n_seeds", "overall", *TABLES), where)
        require_keys(path, model["overall"], (*_MACRO, *_CELL), f"{where}.overall")
        require_cells(path, model, tuple(TABLES), _CELL)
        for table, column in _cells_of(model):
            require_keys(path, column["difference"], _DIFFERENCE, f"{where}.{table}.difference")
            require_keys(path, column["accuracy"], ("mean", "sd", "values"), f"{where}.{table}.accuracy")
    return data


def _cells_of(model: Mapping[str, Any]) -> list[tuple[str, Cell]]:
    """(where it stands, cell) of all cells of a candidate that are there."""
    parts = [("overall", model["overall"])]
    for table in TABLES:
        parts += [(f"{table}.{name}", part) for name, part in model[table].items() if part is not None]
    return parts


def _cell(part: Mapping[str, Any] | None) -> Cell | None:
    """A cell of `compare_seeds` without what it says of the baseline."""
    if part is None:
        return None
    rates = {f"{word}_rate": part[f"{word}_rate_fine_tuned"] for word in ("invalid", "uncommitted")}
    return {"accuracy": part["fine_tuned"], **rates, "difference": part["difference"]}


def _overall(part: Mapping[str, Any]) -> Cell:
    macro = {"macro_accuracy": part["macro_fine_tuned"], "macro_difference": part["macro_difference"]}
    return {**(_cell(part) or {}), **macro}


def _baseline_overall(baseline: pl.DataFrame) -> Cell:
    macro = {"macro_accuracy": macro_accuracy(baseline), "macro_ci95": macro_interval(baseline)}
    return {**(_slim({"": cell(baseline)})[""] or {}), **macro, "macro_chance": macro_of(chance_level, baseline)}


def _slim(cells: Mapping[str, Cell | None]) -> dict[str, Cell | None]:
    return {name: part and {key: part[key] for key in _BASELINE_CELL} for name, part in cells.items()}


def _adjust(found: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """Adjust all p-values by Holm, in place; table -> number of them."""
    overall: dict[str, Cell | None] = {label: model["overall"] for label, model in found.items()}
    macro: dict[str, Cell | None] = {
        label: None if part is None else {"difference": part}
        for label, part in ((label, model["overall"]["macro_difference"]) for label, model in found.items())
    }
    adjust(overall, "p_clustered")
    adjust(macro, "p_clustered")
    counts = {}
    for table in TABLES:
        cells = {f"{label}/{name}": part for label, model in found.items() for name, part in model[table].items()}
        adjust(cells, "p_clustered")
        counts[table] = sum(part is not None for part in cells.values())
    return counts
