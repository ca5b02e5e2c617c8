"""Terminal tables of `candidates.json`: several fine-tuned models, each against one baseline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from medvl.evaluation.cells import FEW_GROUPS
from medvl.reporting.tables import (
    ABSENT,
    difference_cell,
    interval,
    new_table,
    p_value,
    plain,
    rate,
    stacked,
    way_of_asking,
)


def candidates_table(content: Mapping[str, Any]) -> Table:
    """Table of the macro accuracy: the baseline, then a row for each candidate, best first.

    Args:
        content: Content of `candidates.json`.

    Returns:
        Table of at most 80 columns. A candidate is named by all of its runs.
    """
    baseline, overall = content["baseline"], content["baseline"]["overall"]
    table = new_table(f"{_title(content)}: against {baseline['label']}")
    table.add_column("", overflow="fold", min_width=16)
    for header in ("seeds", "macro\naccuracy", "accuracy", "macro\ndifference", "p Holm"):
        table.add_column(header, justify="right", overflow="fold")
    table.add_row(
        plain(baseline["label"]),
        "",
        stacked(rate(overall["macro_accuracy"]), interval(overall["macro_ci95"])),
        stacked(rate(overall["accuracy"]), interval(overall["ci95"])),
        "",
        "",
    )
    table.add_section()
    for model in sorted(content["candidates"].values(), key=_best_first):
        figures = model["overall"]
        table.add_row(
            plain("\n".join(run["label"] for run in model["runs"])),
            ", ".join(ABSENT if run["seed"] is None else str(run["seed"]) for run in model["runs"]),
            _spread(figures["macro_accuracy"]),
            _spread(figures["accuracy"]),
            *_change(figures["macro_difference"]),
        )
    few = overall["n_groups"] < FEW_GROUPS
    warning = f" Fewer than {FEW_GROUPS} groups, so intervals are too narrow." if few else ""
    table.caption = plain(
        f"{overall['n']:,} items of {overall['n_groups']:,} groups. Macro: mean over tasks; chance "
        f"{rate(overall['macro_chance'])}. Accuracies: mean and standard deviation over seeds. Brackets: 95 % "
        "interval, resampling groups, and seeds where there are several. p: sign-flip test over groups, adjusted by "
        f"Holm over the candidates ({content['tests']['candidates']}).{_counted_as_wrong(content)}{warning}"
    )
    return table


def candidates_task_table(content: Mapping[str, Any]) -> Table:
    """Table of the tasks: under each the baseline and the candidates, in the order of `candidates_table`.

    Args:
        content: Content of `candidates.json`.

    Returns:
        Table of at most 80 columns. A candidate is named by the first of its runs.
    """
    baseline = content["baseline"]
    models = sorted(content["candidates"].items(), key=lambda pair: _best_first(pair[1]))
    table = new_table(f"{_title(content)}: by task")
    table.add_column("", overflow="fold", min_width=8)
    table.add_column("", overflow="fold", min_width=16)
    for header in ("n", "accuracy", "difference", "p Holm"):
        table.add_column(header, justify="right", overflow="fold")
    for task, cell in baseline["tasks"].items():
        if cell is None:
            continue
        accuracy = stacked(rate(cell["accuracy"]), interval(cell["ci95"]))
        table.add_row(plain(task), plain(baseline["label"]), f"{cell['n']:,}", accuracy, "", "")
        for label, model in models:
            figures = model["tasks"][task]
            table.add_row("", plain(label), "", _spread(figures["accuracy"]), *_change(figures["difference"]))
        table.add_section()
    absent = [task for task, cell in baseline["tasks"].items() if cell is None]
    few = [task for task, cell in baseline["tasks"].items() if cell and cell["n_groups"] < FEW_GROUPS]
    table.caption = plain(
        f"p adjusted by Holm over the whole table ({content['tests']['tasks']})."
        + (f" Fewer than {FEW_GROUPS} groups, so intervals are too narrow: {', '.join(few)}." if few else "")
        + (f" No items: {', '.join(absent)}." if absent else "")
    )
    return table


def _title(content: Mapping[str, Any]) -> str:
    fingerprints = content["baseline"].get("fingerprints", {})
    return way_of_asking({"split": content["split"], "scoring": content["scoring"], "fingerprints": fingerprints})


def _best_first(model: Mapping[str, Any]) -> float:
    macro = model["overall"]["macro_accuracy"]
    return -float((macro or model["overall"]["accuracy"])["mean"])


def _spread(figure: Mapping[str, Any] | None) -> str | Text:
    if figure is None:
        return ABSENT
    return rate(figure["mean"]) if figure["sd"] is None else stacked(rate(figure["mean"]), f"± {rate(figure['sd'])}")


def _change(difference: dict[str, Any] | None) -> list[str | Text]:
    if difference is None:
        return [ABSENT, ABSENT]
    p = difference["p_clustered_holm"]
    return [difference_cell(difference, p), p_value(p)]


def _counted_as_wrong(content: Mapping[str, Any]) -> str:
    told = []
    for word in ("invalid", "uncommitted"):
        rates = {name: cell[f"{word}_rate"] for name, cell in _overall_cells(content)}
        told += [f"{name} {rate(value)} {word}" for name, value in rates.items() if value]
    return f" Counted as wrong: {', '.join(told)}." if told else " No answer was invalid or uncommitted."


def _overall_cells(content: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    yield content["baseline"]["label"], content["baseline"]["overall"]
    for label, model in content["candidates"].items():
        yield label, model["overall"]
