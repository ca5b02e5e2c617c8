"""Contact sheets of a benchmark: the picture as a model will see it, its box, the question, the options, the answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from medvl.benchmark.item import Item
from medvl.benchmark.options import item_rng
from medvl.errors import DataError
from medvl.imaging.overlay import draw_red_box
from medvl.imaging.reading import read_picture
from medvl.imaging.sheet import contact_sheet


def choose_items(
    items: Sequence[Item],
    count: int,
    *,
    task: str | None = None,
    source: str | None = None,
    split: str | None = None,
    tier: str | None = None,
    seed: int = 0,
) -> list[Item]:
    """Choose items to look at, spread over pictures.

    Args:
        items: All items.
        count: Most items returned.
        task: Only of this task.
        source: Only of this source.
        split: Only of this side.
        tier: Only boxes of this tier.
        seed: Which are chosen.

    Raises:
        DataError: No item fits; says what there is.
    """
    wanted = {"task": task, "source": source, "split": split, "tier": tier}
    fitting = [i for i in items if all(v is None or str(getattr(i, name)) == v for name, v in wanted.items())]
    if not fitting:
        asked = ", ".join(f"{name}={value}" for name, value in wanted.items() if value is not None)
        there = "; ".join(
            f"{name}: {', '.join(sorted({str(getattr(i, name)) for i in items if getattr(i, name) is not None}))}"
            for name, value in wanted.items()
            if value is not None
        )
        raise DataError(f"no item has {asked}; there are {there}")
    order = item_rng("contact sheet", seed).permutation(len(fitting))
    seen: set[tuple[str, int | None]] = set()
    first: list[Item] = []
    again: list[Item] = []
    for index in order:
        item = fitting[index]
        (again if (item.picture, item.frame) in seen else first).append(item)
        seen.add((item.picture, item.frame))
    return (first + again)[:count]


def item_sheet(
    items: Sequence[Item], root: Path, *, columns: int = 3, cell_px: int = 360, side_px: int | None = None
) -> npt.NDArray[np.uint8]:
    """Contact sheet of items.

    Args:
        items: At least one.
        root: Data root.
        columns: Pictures in a row.
        cell_px: Side of a cell.
        side_px: Picture side of a model: pictures are first brought to this square, as its processor does, so that the
            sheet shows what is left of a thin box.

    Returns:
        uint8 [H, W, 3].

    Raises:
        DataError: A picture cannot be read.
    """
    pictures, captions = [], []
    for item in items:
        pixels = read_picture(root / item.picture, item.frame)
        if item.bbox_xyxy_px is not None:
            pixels = draw_red_box(pixels, item.bbox_xyxy_px)
        if side_px is not None:
            pixels = np.asarray(cv2.resize(pixels, (side_px, side_px), interpolation=cv2.INTER_AREA), dtype=np.uint8)
        pictures.append(pixels)
        captions.append(caption(item))
    return contact_sheet(pictures, captions, columns, cell_px)


def caption(item: Item) -> str:
    """Task, side and the options of an item, the right one marked."""
    shown = [
        f"[{letter}. {text}]" if letter == item.answer_letter else f"{letter}. {text}"
        for letter, text in zip(item.letters, item.options, strict=True)
    ]
    tier = f" {item.tier}" if item.tier else ""
    return f"{item.task} {item.source} {item.split}{tier}\n{item.question}\n" + "\n".join(shown)
