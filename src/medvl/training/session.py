"""What both entry files do with a model and a benchmark: ask the questions of a split and keep what came of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch

from medvl.answering.prediction import Prediction, Scoring
from medvl.answering.store import AnswerStore
from medvl.batching.inputs import Companions
from medvl.batching.picture_control import PictureControl
from medvl.benchmark.item import Item
from medvl.config.schema import EntryConfig
from medvl.errors import ConfigError
from medvl.models.base import Base
from medvl.sources.record import Split
from medvl.training.askers import Asker, Questions
from medvl.training.results import metrics_of, write_answers, write_details


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One model's answers to the questions of one split.

    Attributes:
        items: What was asked.
        predictions: One answer an item, in order.
        metrics: Content of `metrics.json`.
        notes: Sentences for the user.
    """

    items: list[Item]
    predictions: list[Prediction]
    metrics: dict[str, Any]
    notes: list[str]

    def write(self, folder: Path) -> None:
        """Write `predictions.parquet`, `metrics.json` and `details.json`."""
        write_answers(folder, self.predictions, self.metrics)
        write_details(folder, self.items, self.predictions, self.metrics)


def ask(
    asker: Asker,
    questions: Questions,
    split: Split,
    fingerprints: dict[str, str],
    progress: Callable[[int, int], None] | None = None,
    control: PictureControl | None = None,
    answers: Path | None = None,
) -> Evaluation:
    """Ask all questions of a split.

    Answers are kept as they come when there is a place for them, and questions that were answered before in the very
    same way are not asked again.

    Args:
        asker: Whom, and how.
        questions: The benchmark's questions.
        split: Which of them.
        fingerprints: What the figures are made from.
        progress: Called with (items answered, items in all).
        control: What stands in the place of the pictures; None shows them.
        answers: Folder of kept answers; None keeps none.
    """
    items = questions.items(split)
    shown = {} if control is None else {"picture_control": str(control)}
    prints = fingerprints | asker.about | shown
    predictions, notes = answers_to(asker, questions, items, prints, progress, control, answers)
    return Evaluation(items, predictions, metrics_of(items, predictions, prints), notes)


def answers_to(
    asker: Asker,
    questions: Questions,
    items: list[Item],
    fingerprints: dict[str, str],
    progress: Callable[[int, int], None] | None = None,
    control: PictureControl | None = None,
    answers: Path | None = None,
) -> tuple[list[Prediction], list[str]]:
    """Answers to some items of one split, kept ones where there are.

    Args:
        asker: Whom, and how.
        questions: Where their batches come from.
        items: What is asked, in this order; at least one.
        fingerprints: Everything that can change an answer except the item and the scoring.
        progress: Called with (items answered, items in all).
        control: What stands in the place of the pictures; None shows them.
        answers: Folder of kept answers; None keeps none.

    Returns:
        (one prediction an item, in order; sentences for the user).
    """
    split, team = items[0].split, asker.team
    store = _store(answers, asker.scoring, fingerprints, control)
    keys = [item.fingerprint() for item in items]
    known = team.agreed({} if store is None else store.answers(keys))
    if store is None:
        asked = list(items)
    else:  # two items may ask the same: it is asked once
        asked = list({key: item for key, item in zip(keys, items, strict=True) if key not in known}.values())
    # The picture that a shuffled item shows depends on all items that are asked with it.
    mine = team.share(asked, whole=control is PictureControl.SHUFFLED)
    report = None if progress is None else _of_all(progress, len(items), len(asked), len(mine))
    found = asker.answer(questions, split, control, mine, report, None if store is None else store.add) if mine else []
    found = team.gathered(found)
    if store is None:
        by_id = {answer.item_id: answer for answer in found}
        return [by_id[item.item_id] for item in items], _remarks(fingerprints)
    by_key = known | {answer.item_fingerprint: answer for answer in found}
    predictions = [replace(by_key[key], item_id=item.item_id) for key, item in zip(keys, items, strict=True)]
    notes = [f"kept answers {name} could not be read; their questions were asked again" for name in store.unreadable]
    return predictions, notes + _remarks(fingerprints)


def _of_all(progress: Callable[[int, int], None], n: int, asked: int, mine: int) -> Callable[[int], None]:
    """Progress of all processes as one of them sees it: the others are as far with their shares."""
    return lambda done: progress(n - asked + round(done * asked / mine), n)


def _remarks(fingerprints: dict[str, str]) -> list[str]:
    empty = "the model was made to leave its thought empty and to answer at once; every figure says so"
    return [empty] if "thought" in fingerprints else []


def _store(
    folder: Path | None, scoring: Scoring, fingerprints: dict[str, str], control: PictureControl | None
) -> AnswerStore | None:
    """Kept answers of one way of asking. None for shuffled pictures, where an answer depends on all other items."""
    if folder is None or control is PictureControl.SHUFFLED:
        return None
    # An item says itself which pixels, question and options it has; in which benchmark it stands changes no answer.
    asking = {name: value for name, value in fingerprints.items() if name != "benchmark"}
    return AnswerStore(folder, asking | {"scoring": str(scoring)})


def ask_controls(
    asker: Asker,
    questions: Questions,
    split: Split,
    fingerprints: dict[str, str],
    controls: Sequence[str],
    folder: Path,
    progress: Callable[[str, int, int], None] | None = None,
    answers: Path | None = None,
) -> dict[str, dict[str, Any]]:
    """Ask the questions of a split again under each control, and write the answers to `folder/CONTROL`.

    Args:
        asker: Whom, and how.
        questions: The benchmark's questions.
        split: Which of them.
        fingerprints: What the figures are made from.
        controls: Values of `PictureControl`.
        folder: Where the answers go, a folder each.
        progress: Called with (what, items answered, items in all).
        answers: Folder of kept answers; None keeps none.

    Returns:
        Control -> content of its `metrics.json`.
    """
    found = {}
    for name in controls:
        label = f"{name.replace('_', ' ')} on {split}"
        report = None if progress is None else partial(progress, label)
        asked = ask(asker, questions, split, fingerprints, report, PictureControl(name), answers)
        asked.write(folder / name)
        found[name] = asked.metrics
    return found


class HandedOver(Protocol):
    """What questions must know of a model before it can be asked (a DataModule)."""

    processor: Any
    companions: Companions
    picture_tokens: Callable[[int, int], int] | None


def hand_over(base: Base, questions: HandedOver) -> None:
    """Make questions ready for a model."""
    questions.processor, questions.companions = base.processor, base.family.companions
    questions.picture_tokens = partial(base.family.picture_tokens, base.processor)


def kept_answers(config: EntryConfig) -> Path | None:
    """Folder of kept answers, shared by all runs below one output folder; None when answers are not to be reused."""
    return Path(config.paths.outputs) / "answers" if config.eval.reuse_answers else None


def choose_device(accelerator: str) -> torch.device:
    """The GPU when there is one and it is not declined, else the CPU.

    Raises:
        ConfigError: A GPU was asked for and there is none.
    """
    has_gpu = torch.cuda.is_available()
    if accelerator == "gpu" and not has_gpu:
        raise ConfigError(["trainer.accelerator=gpu: torch sees no GPU on this machine; use trainer=cpu"])
    if accelerator == "cpu" or not has_gpu:
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
