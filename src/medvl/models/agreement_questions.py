"""Questions on which two versions of a model are compared: those of the benchmark of a run, or drawn on the spot."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import yaml

from medvl.batching.collator import Batch, Collator
from medvl.batching.dataset import ItemDataset, Sample
from medvl.batching.subset import stratified_subset
from medvl.benchmark.item import Item
from medvl.benchmark.prepare import BENCHMARKS, stored_root
from medvl.benchmark.store import CARD_FILE, read_benchmark, read_card
from medvl.errors import DataError
from medvl.models.base import Base
from medvl.sources.demo.picture import draw_picture
from medvl.sources.demo.plan import ORIENTATIONS, PLANES, PicturePlan, plan_patient
from medvl.sources.record import Split, Task

BATCH_SIZE = 8


class Samples(Protocol):
    """Items with their pictures, read when asked for."""

    def __len__(self) -> int:
        """Number of items."""

    def __getitem__(self, index: int) -> Sample:
        """One item with its picture."""


@dataclass(frozen=True, slots=True)
class Questions:
    """Some questions, and where they are from.

    Attributes:
        samples: Items with their pictures.
        origin: What they are, for people: `200 test questions of demo`.
    """

    samples: Samples
    origin: str

    def batches(self, base: Base) -> Iterator[Batch]:
        """Question batches in the form of a base, in order."""
        collate = Collator(base.processor, with_answer=False, companions=base.family.companions)
        for start in range(0, len(self.samples), BATCH_SIZE):
            stop = min(start + BATCH_SIZE, len(self.samples))
            yield collate([self.samples[index] for index in range(start, stop)])


def questions_of(adapter: Path, record: dict[str, Any] | None, limit: int) -> Questions:
    """Test questions of the benchmark that an adapter was trained on, or drawn ones where it is not on this machine.

    Args:
        adapter: Adapter folder, below its run folder.
        record: Its run record; None for an adapter without one.
        limit: Most questions.
    """
    wanted = None if record is None else record["fingerprints"].get("benchmark")
    if wanted is None:
        return _drawn(limit, "the adapter's files name no benchmark")
    for place in _places(adapter):
        for card in sorted((place / BENCHMARKS).glob(f"*/{CARD_FILE}")):
            found = _stored(card.parent, wanted, limit)
            if found is not None:
                return found
    return _drawn(limit, "the benchmark of its run record is not on this machine")


def _places(adapter: Path) -> list[Path]:
    """Folders that built benchmarks may lie in: the default one, and the one that the run used."""
    places = [Path("data")]
    try:
        config = yaml.safe_load((adapter.parent / "config.yaml").read_text(encoding="utf-8"))
        places.append(Path(config["paths"]["data"]))
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
        pass  # the adapter was moved away from its run
    return list(dict.fromkeys(places))


def _stored(folder: Path, fingerprint: str, limit: int) -> Questions | None:
    try:
        card = read_card(folder)
    except DataError:
        return None  # another benchmark's damage is not this command's business
    root = stored_root(folder)
    if card["fingerprints"]["items"] != fingerprint or root is None or not root.is_dir():
        return None
    items = read_benchmark(folder).items
    asked = [item for item in items if item.split is Split.TEST] or items
    chosen = stratified_subset(asked, limit, seed=0)
    side = "test " if asked[0].split is Split.TEST else ""
    return Questions(ItemDataset(chosen, root), f"{len(chosen)} {side}questions of {card['name']}")


def _drawn(limit: int, why: str) -> Questions:
    plans: list[PicturePlan] = []
    patient = 0
    while len(plans) < limit:
        plans += plan_patient(0, patient)
        patient += 1
    return Questions(_Drawn(plans[:limit]), f"{limit} drawn questions ({why})")


class _Drawn:
    """Questions on pictures of the demo's kind, drawn when they are asked for."""

    def __init__(self, plans: Sequence[PicturePlan]) -> None:
        self._plans = plans

    def __len__(self) -> int:
        return len(self._plans)

    def __getitem__(self, index: int) -> Sample:
        plan = self._plans[index]
        grey = draw_picture(plan).grey
        return Sample(_item(plan, grey.shape[0], grey.shape[1]), np.repeat(grey[:, :, None], 3, axis=2))


def _item(plan: PicturePlan, height: int, width: int) -> Item:
    is_plane = bool(plan.plane)
    options, answer = (PLANES, plan.plane) if is_plane else (ORIENTATIONS, plan.orientation)
    return Item(
        item_id=plan.stem,
        picture=f"{plan.stem}.png",
        sha256_pixels=hashlib.sha256(plan.stem.encode()).hexdigest(),
        width=width,
        height=height,
        task=Task.PI if is_plane else Task.FO,
        question="Which standard plane is shown?" if is_plane else "What is the orientation of the fetus?",
        options=options,
        answer_index=options.index(answer),
        raw_label=answer,
        answer=answer,
        group=plan.patient_id,
        source="demo",
        domain=plan.domain,
        split=Split.TEST,
    )
