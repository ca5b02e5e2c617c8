"""`medvl model info`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from medvl.benchmark.item import Item
from medvl.benchmark.prepare import benchmark_folder, data_root
from medvl.benchmark.store import CARD_FILE, read_benchmark
from medvl.config.composing import compose_config, find_conf
from medvl.config.schema import TrainConfig
from medvl.errors import ModelError
from medvl.reporting import console_lines
from medvl.sources.record import Domain, Split, Task

if TYPE_CHECKING:  # torch is imported once the configuration is right
    from medvl.batching.dataset import Sample
    from medvl.models.families import Family
    from medvl.models.fitting import Outlook
    from medvl.models.info import PictureCost, Piece


def info_command(console: Console, overrides: list[str]) -> None:
    """Print what is known of a model and of what a recipe would train of it, without loading weights."""
    config = compose_config("train", TrainConfig, overrides, find_conf())
    from medvl.models.info import local_folder

    folder = local_folder(config.model)
    _print_facts(console, _option_facts(config))
    if folder is None:
        console_lines.notes(
            console,
            [
                "the rest is in the model's config.json, which is not on this machine: "
                f"`hf download {config.model.hub_id} --include '*.json' '*.jinja'` fetches it with the processor and "
                "without the weights; or say model.path=DIR with a folder that holds them"
            ],
        )
        return
    from medvl.models.locate import family_of
    from medvl.models.quantization import empty_model

    family = family_of(folder)
    model = empty_model(folder)
    _print_facts(console, _family_facts(config, family))
    console.print(Text(f"\nparts, and what lora r={config.lora.r} trains of them"))
    console.print(_parts_table(config, family, model))
    _print_with_processor(console, config, family, model, folder)


def _print_with_processor(console: Console, config: TrainConfig, family: Family, model: Any, folder: Path) -> None:
    from medvl.models import fitting
    from medvl.models.base import load_processor
    from medvl.models.info import TYPICAL, picture_costs, rendered

    items = _built_items(config)
    try:
        processor = load_processor(config.model, folder, family)
    except ModelError as error:
        console_lines.notes(console, [f"tokens, memory and an example need the processor's files: {error}"])
        return
    where = "some sizes" if items is None else f"the commonest sizes of {config.data.name}"
    console.print(Text(f"\nwhat a picture costs, {where}"))
    console.print(_pictures_table(picture_costs(processor, family, model.config, items)))
    sample = _sample(config, items)
    shown = items if items is not None else [replace(sample.item, height=TYPICAL[0], width=TYPICAL[1])]
    device = "cuda" if config.trainer.accelerator == "gpu" or _has_gpu(config) else "cpu"
    found = fitting.outlook(config, shown, model, folder, device)
    free = fitting.free_bytes(device)
    console_lines.notes(console, [_memory_line(config, found, device, free)])
    if free is not None and found.memory.total > free:
        console_lines.notes(console, fitting.ways_out(config, shown, model, found, device, free))
    what = "an example" if items is None else f"item {sample.item.item_id} of {config.data.name}"
    console.print(Text(f"\n{what} as the model reads it, what it learns in [[ ]]:"))
    console.print(_marked(rendered(processor, family, sample)), soft_wrap=True)


def _option_facts(config: TrainConfig) -> dict[str, str]:
    option = config.model
    place = option.path or f"{option.hub_id} ({option.revision or 'newest commit'})"
    return {
        "model": option.name,
        "from": place,
        "licence": option.licence + (", accepted on the hub with a login (gated)" if option.gated else ""),
        "medical training data": option.training_data_note,
        "number format": option.dtype + ("" if option.quantization == "none" else f", {option.quantization}"),
    }


def _family_facts(config: TrainConfig, family: Family) -> dict[str, str]:
    from medvl.models.base import choose_attention

    can = family.abilities
    wishes = {
        "questions without a picture": can.text_only,
        "with and without in one batch": can.mixed_rows,
        "several pictures": can.several_pictures,
        "a picture encoded once a batch": can.encodes_pictures_once,
        "questions sharing a row": can.branched_rows,
    }
    return {
        "family": f"{family.title} ({family.model_type})",
        "attention": choose_attention(config.model),
        "resolution": can.resolution,
        "can": ", ".join(what for what, able in wishes.items() if able) or "-",
        "cannot": ", ".join(what for what, able in wishes.items() if not able) or "-",
    }


def _print_facts(console: Console, facts: dict[str, str]) -> None:
    for name, fact in facts.items():
        console.print(Text(f"{name:<22} {fact}"), soft_wrap=True)


def _parts_table(config: TrainConfig, family: Family, model: Any) -> Table:
    from medvl.models.plan import plan_training

    plan = plan_training(model, family, config.lora, config.model.train_parts)
    table = Table()
    table.add_column("part")
    for column in ("parameters", "adapter layers", "adapter parameters", "trained in full"):
        table.add_column(column, justify="right")
    rows = [
        (part, size, len(plan.layers.get(part, [])), plan.adapter.get(part, 0), plan.full.get(part, 0))
        for part, size in plan.sizes.items()
    ]
    for part, *counts in rows:
        table.add_row(part, *(f"{count:,}" if count else "-" for count in counts))
    sums = [sum(row[column] for row in rows) for column in range(1, 5)]  # type: ignore[misc]
    table.add_row("all", *(f"{count:,}" for count in sums), style="bold")
    return table


def _pictures_table(costs: Sequence[PictureCost]) -> Table:
    table = Table()
    has_states = any(cost.states for cost in costs)
    has_shares = all(cost.share is not None for cost in costs)
    columns = ("width x height", "tokens in the row", *["states beside it"] * has_states, *["items"] * has_shares)
    for column in columns:
        table.add_column(column, justify="right")
    for cost in costs:
        cells = [f"{cost.width} x {cost.height}", f"{cost.tokens:,}", *[f"{cost.states:,}"] * has_states]
        table.add_row(*cells, *([] if cost.share is None else [f"{cost.share:.1%}"]))
    return table


def _memory_line(config: TrainConfig, found: Outlook, device: str, free: int | None) -> str:
    from medvl.models.fitting import describe, gib

    verdict = "there is none here"
    if free is not None:
        verdict = f"{gib(free)} GiB are free, it {'fits' if found.memory.total <= free else 'does not fit'}"
    return f"memory: about {gib(found.memory.total)} GiB on {device}, {verdict}. An estimate: {describe(found, config)}"


def _has_gpu(config: TrainConfig) -> bool:
    import torch

    return config.trainer.accelerator == "auto" and torch.cuda.is_available()


def _marked(pieces: Sequence[Piece]) -> Text:
    text = Text()
    for number, piece in enumerate(pieces):
        before = number and pieces[number - 1].supervised
        after = number + 1 < len(pieces) and pieces[number + 1].supervised
        if piece.supervised:
            text.append(f"{'' if before else '[['}{piece.text}{'' if after else ']]'}", style="bold")
        else:
            text.append(piece.text)
    return text


def _built_items(config: TrainConfig) -> list[Item] | None:
    folder = benchmark_folder(config)
    return (read_benchmark(folder).items or None) if (folder / CARD_FILE).is_file() else None


def _sample(config: TrainConfig, items: list[Item] | None) -> Sample:
    """The first item of the benchmark with its picture, or an example with a drawn one."""
    from medvl.batching.dataset import ItemDataset, Sample

    if items:
        return ItemDataset(items[:1], data_root(config))[0]
    import numpy as np

    from medvl.sources.demo.picture import draw_picture
    from medvl.sources.demo.plan import PicturePlan

    plan = PicturePlan(0, 0, 0, Domain.CLINICAL, "fetal head", "", "", "")
    pixels = np.repeat(draw_picture(plan).grey[:, :, None], 3, axis=2)
    item = Item(
        item_id="example",
        picture="",
        sha256_pixels="",
        width=pixels.shape[1],
        height=pixels.shape[0],
        task=Task.PI,
        question="Which standard plane is shown?",
        options=("fetal abdomen", "fetal head", "fetal femur", "fetal thorax"),
        answer_index=1,
        raw_label="fetal head",
        answer="fetal head",
        group="",
        source="example",
        domain=Domain.CLINICAL,
        split=Split.TRAIN,
    )
    return Sample(item, pixels)
