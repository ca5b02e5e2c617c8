"""Terminal table of `robustness.json`: what remains of the accuracy when options move and questions change words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from medvl.reporting.tables import (
    ABSENT,
    interval,
    new_table,
    plain,
    rate,
    signed,
    signed_interval,
    stacked,
    way_of_asking,
)

_NAMES = {"zero_shot": "zero-\nshot", "fine_tuned": "fine-\ntuned"}


def robustness_table(content: Mapping[str, Any]) -> Table:
    """Table of one model, or of two with their difference: tasks and overall.

    Args:
        content: Content of `robustness.json`.

    Returns:
        Table of at most 80 columns, intervals on a second line.
    """
    models, asked = content["models"], content["asked"]
    figures = {**content, "fingerprints": next(iter(models.values()))["fingerprints"]}
    table = new_table(f"does it hold? {way_of_asking(figures)}, {_ways(asked)}")
    table.add_column("", overflow="fold", min_width=7)
    if len(models) > 1:
        table.add_column("", overflow="fold")
    for header in ("n", "as it is", "all\nrota-\ntions", "circular", "same\noption", "same in\nwords", "RStd"):
        table.add_column(header, justify="right", overflow="fold")
    for task in next(iter(models.values()))["tasks"]:
        cells = {name: model["tasks"][task] for name, model in models.items()}
        _add_rows(table, task, cells, (content["difference"] or {"tasks": {}})["tasks"].get(task))
        table.add_section()
    overall = {name: model["overall"] for name, model in models.items()}
    _add_rows(table, "overall", overall, (content["difference"] or {}).get("overall"))
    table.caption = plain(
        "As it is: accuracy in the benchmark's own order and words. All rotations: its mean over the rotations of the "
        "options. Circular: right in all of them. Same option, same in words: answered alike in all rotations, in all "
        "wordings. RStd: spread of the recall over letters, 0 without a favourite letter."
        + _flips(overall)
        + _one_letter(models)
    )
    return table


def _add_rows(
    table: Table, name: str, cells: Mapping[str, dict[str, Any]], difference: Mapping[str, Any] | None
) -> None:
    style = "bold" if name == "overall" else ""
    for number, (model, cell) in enumerate(cells.items()):
        label = [plain("" if number else name)] + ([plain(_NAMES[model])] if len(cells) > 1 else [])
        table.add_row(*label, *_figures(cell), style=style)
    if difference is not None:
        change = stacked(signed(difference["estimate"]), signed_interval(difference["ci95"]))
        table.add_row("", plain("differ-\nence"), "", "", "", change, style=style)


def _figures(cell: Mapping[str, Any]) -> list[str | Text]:
    turned, worded = cell["rotations"], cell["paraphrases"]
    base = cell["variants"]["base_accuracy"] if cell["variants"] else None
    count = f"{cell['n']:,}"
    if turned is None:
        return [count, rate(base), ABSENT, ABSENT, ABSENT, _rate_of(worded, "consistency"), ABSENT]
    return [
        count,
        rate(base),
        rate(turned["accuracy"]),
        stacked(rate(turned["circular_accuracy"]), interval(turned["circular_ci95"])),
        rate(turned["consistency"]),
        _rate_of(worded, "consistency"),
        rate(turned["recall_std"]),
    ]


def _rate_of(figures: Mapping[str, Any] | None, name: str) -> str:
    return ABSENT if figures is None else rate(figures[name])


def _ways(asked: Mapping[str, Any]) -> str:
    words = f"{asked['paraphrases']} wordings" if asked["paraphrases"] > 1 else ""
    return " in ".join(filter(None, ["all rotations" if asked["rotations"] else "", words]))


def _flips(overall: Mapping[str, Mapping[str, Any]]) -> str:
    told = [
        f"{name.replace('_', '-')} {rate(cell['variants']['flip_rate_items'])} of items, "
        f"{rate(cell['variants']['flip_rate_variants'])} of variants"
        for name, cell in overall.items()
        if cell["variants"]
    ]
    return f" Flip rate (items with any disagreement; variants unlike their base): {'; '.join(told)}." if told else ""


def _one_letter(models: Mapping[str, Mapping[str, Any]]) -> str:
    flagged = [
        f"{name.replace('_', '-')} {task} ({top['letter']}, {top['share']:.0%})"
        for name, model in models.items()
        for task, cell in model["tasks"].items()
        if (top := cell["top_letter"]) and top["one_letter"]
    ]
    return f" Always one letter, whatever is shown: {', '.join(flagged)}." if flagged else ""
