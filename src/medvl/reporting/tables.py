"""Terminal tables of metrics, comparisons and sweeps.

They fit 80 columns. Nothing is said by colour alone: weight and colour only repeat what a sign or a number says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from medvl.evaluation.cells import FEW_GROUPS

ABSENT = "-"
SIGNIFICANT_BELOW = 0.05

_METRICS_HEADERS = (
    *(
        "accuracy",
        "95 %\ninterval",
        "chance",
        "always\nA",
        "major-\nity",
        "in-\nvalid",
        "uncom-\nmitted",
        "n",
        "groups",
    ),
)


def rate(value: float | None) -> str:
    """A rate with three decimals, `0.812`; `-` when absent."""
    return ABSENT if value is None else f"{value:.3f}"


def signed(value: float | None) -> str:
    """A difference of rates with its sign, `+0.123`; `-` when absent. A difference that rounds to zero has no sign."""
    if value is None:
        return ABSENT
    return "0.000" if f"{abs(value):.3f}" == "0.000" else f"{value:+.3f}"


def interval(bounds: Sequence[float] | None) -> str:
    """An interval of rates, `[0.790, 0.834]`; empty when absent."""
    return "" if bounds is None else f"[{rate(bounds[0])}, {rate(bounds[1])}]"


def signed_interval(bounds: Sequence[float] | None) -> str:
    """An interval of differences, `[-0.012, +0.034]`; empty when absent."""
    return "" if bounds is None else f"[{signed(bounds[0])}, {signed(bounds[1])}]"


def p_value(value: float | None) -> str:
    """A p-value with three decimals, `<0.001` below that; `-` when absent."""
    if value is None:
        return ABSENT
    return "<0.001" if value < 0.0005 else f"{value:.3f}"


def metrics_table(metrics: dict[str, Any]) -> Table:
    """Table of one model's figures: tasks, box tiers, domains, overall, each beside its trivial levels.

    Args:
        metrics: Content of `metrics.json`.

    Returns:
        Table of at most 80 columns. Tiers and domains without items are named below it.
    """
    table = new_table(way_of_asking(metrics))
    table.add_column("", overflow="fold", min_width=8)
    for header in _METRICS_HEADERS:
        table.add_column(header, justify="right", overflow="fold")
    absent = _add_sections(table, [metrics["tasks"], metrics["tiers"], metrics["domains"]], _metrics_row)
    overall = metrics["overall"]
    table.add_row(*_metrics_row("overall", overall), style="bold")
    table.add_row("macro", rate(overall["macro_accuracy"]), plain(interval(overall.get("macro_ci95"))), style="bold")
    table.caption = plain(
        "Brackets: 95 % interval, resampling groups. Chance, always A and majority are reached without a look at the "
        "picture. Invalid and uncommitted answers count as wrong. Macro: mean over tasks."
        + _one_answer_only(metrics["tasks"])
        + absent
    )
    return table


def _one_answer_only(tasks: dict[str, dict[str, Any] | None]) -> str:
    flagged = []
    for name, cell in tasks.items():
        for key in ("answer", "letter"):
            top = (cell or {}).get(f"top_{key}")
            if top and top[f"one_{key}"]:
                flagged.append(f"{name} ({top[key]}, {top['share']:.0%})")
                break
    return f" One answer, whatever is shown: {', '.join(flagged)}." if flagged else ""


def way_of_asking(figures: dict[str, Any]) -> str:
    """Which questions were asked, and how, as a title."""
    thought = figures.get("fingerprints", {}).get("thought")
    return f"{figures['split']} split, {figures['scoring']} scoring" + (f", thought {thought}" if thought else "")


def comparison_table(comparison: dict[str, Any]) -> Table:
    """Table of zero-shot against fine-tuned: tasks, box tiers, domains, overall.

    Args:
        comparison: Content of `comparison.json`.

    Returns:
        Table of at most 80 columns, intervals on a second line. Cells without items are named below it.
    """
    table = new_table(f"{way_of_asking(comparison)}: zero-shot against fine-tuned")
    table.add_column("", overflow="fold", min_width=8)
    for header in ("n", "chance", "zero-shot", "fine-tuned", "difference", "p Holm"):
        table.add_column(header, justify="right", overflow="fold")
    tables = [comparison["tasks"], comparison["box_tiers"], comparison["domains"]]
    absent = _add_sections(table, tables, _comparison_row)
    overall, macro = comparison["overall"], comparison["overall"].get("macro_difference")
    arms = (overall["zero_shot"], overall["fine_tuned"])
    table.add_row(
        "overall",
        f"{overall['n']:,}",
        "",
        *(stacked(rate(arm["accuracy"]), interval(arm["ci95"])) for arm in arms),
        difference_cell(overall["difference"], overall["difference"]["p"]),
        f"{p_value(overall['difference']['p'])}*",
    )
    table.add_row(
        "macro",
        "",
        "",
        *(stacked(rate(arm["macro_accuracy"]), interval(arm.get("macro_ci95"))) for arm in arms),
        ABSENT if macro is None else difference_cell(macro, None),
        "",
    )
    changes = "; ".join(
        f"{name} {rate(arms[0].get(f'{name}_rate'))} before, {rate(arms[1].get(f'{name}_rate'))} after"
        for name in ("invalid", "uncommitted")
    )
    few = [name for cells in tables for name, cell in cells.items() if cell and cell["n_groups"] < FEW_GROUPS]
    warning = f" Fewer than {FEW_GROUPS} groups, so intervals are too narrow: {', '.join(few)}." if few else ""
    table.caption = plain(
        f"Brackets: 95 % interval, resampling groups. p: exact McNemar over items, which ignores groups; Holm within "
        f"tasks, tiers and domains (* not adjusted). Counted as wrong: {changes}." + warning + absent
    )
    return table


def control_table(metrics: dict[str, Any], controls: Mapping[str, dict[str, Any]]) -> Table:
    """Table of one model's accuracy with the pictures and without them: does it look?

    Args:
        metrics: Content of `metrics.json` with the pictures.
        controls: Control -> content of its `metrics.json`.

    Returns:
        Table of at most 80 columns: tasks and overall, intervals on a second line.
    """
    table = new_table(f"does it look? {way_of_asking(metrics)}, with the pictures and without")
    table.add_column("", overflow="fold", min_width=8)
    for header in ("n", "chance", "majority", "picture", *(name.replace("_", " ") for name in controls)):
        table.add_column(header, justify="right", overflow="fold")
    arms = [metrics, *controls.values()]

    def row(name: str, cells: Sequence[dict[str, Any]]) -> list[str | Text]:
        first = cells[0]
        accuracies = [stacked(rate(cell["accuracy"]), interval(cell["ci95"])) for cell in cells]
        return [plain(name), f"{first['n']:,}", rate(first["chance"]), rate(first["majority"]), *accuracies]

    for task, cell in metrics["tasks"].items():
        if cell is not None:
            table.add_row(*row(task, [arm["tasks"][task] for arm in arms]))
    table.add_section()
    table.add_row(*row("overall", [arm["overall"] for arm in arms]))
    table.caption = plain(
        "A model that looks falls to the level of chance or of the majority answer without its pictures. What it keeps "
        "above both comes from the text."
    )
    return table


def sweep_table(rows: list[dict[str, Any]]) -> Table:
    """Table of the runs of a sweep, in the order given.

    Args:
        rows: One mapping a run: `overrides` (list of `key=value`, or mapping, or text), `metric` (logged name),
            `value` (number, or None for a run without result), `run_folder`.

    Returns:
        The table; long overrides and folders go over several lines.
    """
    metrics = sorted({str(row["metric"]) for row in rows})
    shared = metrics[0] if len(metrics) == 1 else None
    table = new_table(f"{len(rows)} run{'' if len(rows) == 1 else 's'}")
    table.add_column("overrides", overflow="fold")
    if shared is None:
        table.add_column("metric", overflow="fold")
    table.add_column(plain(shared or "value"), justify="right", overflow="fold")
    table.add_column("run folder", overflow="fold")
    for row in rows:
        metric = [plain(str(row["metric"]))] if shared is None else []
        table.add_row(plain(_overrides(row["overrides"])), *metric, rate(row["value"]), plain(str(row["run_folder"])))
    return table


def results_table(runs: Mapping[str, dict[str, Any]]) -> Table:
    """What the runs of a sweep learnt, side by side.

    Args:
        runs: What tells a run from the others -> content of its `comparison.json`.

    Returns:
        Table of at most 80 columns, intervals on a second line.
    """
    table = new_table("test, before and after fine-tuning")
    table.add_column("", overflow="fold", min_width=16)
    for header in ("n", "groups", "zero-shot", "fine-tuned", "difference"):
        table.add_column(header, justify="right", overflow="fold")
    for name, comparison in runs.items():
        cell = comparison["overall"]
        before, after, difference = (cell[key] for key in ("zero_shot", "fine_tuned", "difference"))
        table.add_row(
            plain(name),
            f"{cell['n']:,}",
            f"{cell['n_groups']:,}",
            stacked(rate(before["accuracy"]), interval(before["ci95"])),
            stacked(rate(after["accuracy"]), interval(after["ci95"])),
            stacked(signed(difference["estimate"]), signed_interval(difference["ci95"])),
        )
    table.caption = plain(
        "Accuracy over all items of test. Brackets: 95 % interval, resampling groups. Runs with different test sets "
        "are not to be ranked."
    )
    return table


def new_table(title: str) -> Table:
    """A table without rows that leaves room for ten columns of figures."""
    # One space between columns and no outer frame: ten columns of figures have to fit 80.
    return Table(
        title=plain(title, "bold") if title else None,
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 0),
        header_style="bold",
        title_justify="left",
        caption_justify="left",
        caption_style="dim",
    )


def plain(text: str, style: str = "") -> Text:
    """Text that is shown as it is: rich would read brackets of a plain string as markup."""
    return Text(text, style=style)


def _add_sections(
    table: Table, tables: Sequence[Mapping[str, Any]], row_of: Callable[[str, dict[str, Any]], list[str | Text]]
) -> str:
    """Add one section a table, and return a sentence naming the cells that are absent."""
    absent = []
    for cells in tables:
        for name, cell in cells.items():
            if cell is None:
                absent.append(name)
            else:
                table.add_row(*row_of(name, cell))
        if any(cell is not None for cell in cells.values()):
            table.add_section()
    return f" No items: {', '.join(absent)}." if absent else ""


def _metrics_row(name: str, cell: dict[str, Any]) -> list[str | Text]:
    levels = [rate(cell[key]) for key in ("chance", "always_a", "majority", "invalid_rate", "uncommitted_rate")]
    counts = [f"{cell['n']:,}", f"{cell['n_groups']:,}"]
    return [plain(name), rate(cell["accuracy"]), plain(interval(cell["ci95"])), *levels, *counts]


def _comparison_row(name: str, cell: dict[str, Any]) -> list[str | Text]:
    p_holm = cell["difference"].get("p_holm")
    return [
        plain(name),
        f"{cell['n']:,}",
        rate(cell["chance"]),
        stacked(rate(cell["zero_shot"]), interval(cell["ci95_zero_shot"])),
        stacked(rate(cell["fine_tuned"]), interval(cell["ci95_fine_tuned"])),
        difference_cell(cell["difference"], p_holm),
        p_value(p_holm),
    ]


def stacked(figure: str, bounds: str, style: str = "") -> Text:
    """A figure with its interval on a second line."""
    return Text.assemble((figure, style), "\n", (bounds, "dim"))


def difference_cell(difference: dict[str, Any], p: float | None) -> Text:
    """A difference with its interval on a second line, coloured where it is significant."""
    low, high = difference["ci95"]
    style = ""
    # Coloured only where the test and the interval agree, since the test alone ignores groups.
    if p is not None and p < SIGNIFICANT_BELOW and (low > 0 or high < 0):
        style = "bold green" if low > 0 else "bold red"
    return stacked(signed(difference["estimate"]), signed_interval(difference["ci95"]), style)


def _overrides(overrides: Any) -> str:
    if isinstance(overrides, str):
        return overrides
    if isinstance(overrides, Mapping):
        return " ".join(f"{key}={value}" for key, value in overrides.items())
    return " ".join(map(str, overrides))
