"""`medvl adapter show`, `medvl adapter check` and `medvl merge`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from medvl.errors import ConfigError
from medvl.reporting import console_lines
from medvl.reporting.progress import step_progress

if TYPE_CHECKING:  # imported late: they import torch
    from medvl.models.adapter_summary import AdapterSummary


def adapter_show_command(console: Console, adapter: Path) -> None:
    """Print what an adapter is, by its files alone."""
    from medvl.models.adapter_summary import summarise_adapter

    summary = summarise_adapter(adapter)
    for name, text in _facts(summary).items():
        console.print(Text(f"{name:<10} {text}"), soft_wrap=True)
    table = Table(title="what it changes", title_justify="left")
    table.add_column("part")
    for column in ("layers", "layers in full", "parameters", "B norms", "B still zero"):
        table.add_column(column, justify="right", overflow="fold")
    for part, held in summary.parts.items():
        norms = f"{min(held.b_norms):.3g} to {max(held.b_norms):.3g}" if held.b_norms else "-"
        zero = sum(norm == 0 for norm in held.b_norms)
        table.add_row(part, str(held.layers), str(held.whole), f"{held.parameters:,}", norms, str(zero))
    console.print(table)
    console.print(Text(f"serving: {summary.serving}"), soft_wrap=True)


def adapter_check_command(console: Console, adapter: Path, base: str | None, *, items: int) -> bool:
    """Put an adapter on its base and print what each check found. Returns whether it is sound."""
    from medvl.models.adapter_check import check_adapter

    with step_progress(console) as bar:
        findings = check_adapter(adapter, base=base, items=items, progress=bar)
    table = Table(title=f"check of {adapter}", title_justify="left")
    for column in ("", "check", "found"):
        table.add_column(column, overflow="fold")
    for finding in findings:
        table.add_row("ok" if finding.is_ok else "FAULT", finding.check, Text(finding.text))
    console.print(table)
    return all(finding.is_ok for finding in findings)


def merge_command(
    console: Console,
    adapter: Path,
    out: Path,
    *,
    base: str | None,
    dtype: str | None,
    items: int,
    max_flips: float,
) -> bool:
    """Merge an adapter and print how far the merged model agrees with the unmerged one. Returns whether far enough.

    Raises:
        ConfigError: An unknown precision.
    """
    from medvl.models.adapter_base import DTYPES

    if dtype is not None and dtype not in DTYPES:
        raise ConfigError([f"--dtype {dtype}: expected one of {', '.join(DTYPES)}"])
    from medvl.models.merge import merge_into_base

    with step_progress(console) as bar:
        merged = merge_into_base(adapter, out, base=base, dtype=dtype, items=items, max_flips=max_flips, progress=bar)
    console.print(Text(f"base {merged.base}, {merged.dtype}; asked {merged.questions}"), soft_wrap=True)
    console.print(Text(f"merged against unmerged: {merged.with_unmerged}"), soft_wrap=True)
    if merged.with_quantized is not None:
        console.print(
            Text(f"merged against the {merged.quantization} base it was trained on: {merged.with_quantized}"),
            soft_wrap=True,
        )
    elif merged.quantization != "none":
        console_lines.notes(
            console, [f"not compared with the {merged.quantization} base it was trained on: needs bitsandbytes"]
        )
    if not merged.is_sound:
        console.print(
            Text(
                f"FAULT: more than {max_flips:.1%} of the letters differ; the model is kept as {merged.folder}, do not "
                "use it before you know why. Is --dtype too coarse? Is the adapter sound (medvl adapter check "
                f"{adapter})?"
            ),
            soft_wrap=True,
        )
        return False
    asked = f"model.name={out.name} model.path={merged.folder} model.dtype={merged.dtype}"
    asked += "" if merged.prompt == "letter" else f" model.prompt={merged.prompt}"
    console_lines.whereabouts(
        console,
        {"merged model": merged.folder, "fingerprint": merged.fingerprints["merged"]},
        [f"python evaluate.py {asked}"],
    )
    return True


def _facts(summary: AdapterSummary) -> dict[str, str]:
    """Name -> text of what is known beside the weights."""
    record = summary.record
    facts = {"adapter": str(summary.folder), "base": summary.base, "recipe": summary.recipe}
    if record is None:
        return {**facts, "record": "none: not trained by medvl, so it cannot be judged by evaluate.py"}
    model = record["config"]["model"]
    held = [f"base held in {model['quantization']}" if model.get("quantization", "none") != "none" else "full weights"]
    held += [f"{', '.join(model['train_parts'])} trained in full"] if model.get("train_parts") else []
    data = record["config"].get("data", {}).get("name")
    prints = record["fingerprints"]
    facts["trained"] = "; ".join(held)
    facts["benchmark"] = f"{data or 'unknown'} ({prints.get('benchmark', 'no fingerprint')})"
    facts["prints"] = ", ".join(f"{name} {value}" for name, value in prints.items() if name != "benchmark")
    return facts
