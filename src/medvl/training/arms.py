"""The models of one evaluation, asked one after the other: the base alone, or the base and its adapted self."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvl.config.schema import EvaluateConfig
from medvl.sources.record import Split
from medvl.training.askers import Asker, Questions
from medvl.training.session import Evaluation, ask, ask_controls, kept_answers
from medvl.training.variants import VariantAnswers, ask_variants

Bars = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Arm:
    """One model to ask.

    Attributes:
        name: `zero_shot` or `fine_tuned`.
        folder: Where its answers go.
        fingerprints: What its figures are made from.
        state: While it is entered, the asker asks this model.
    """

    name: str
    folder: Path
    fingerprints: dict[str, str]
    state: Callable[[], AbstractContextManager[Any]] = nullcontext


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of asking.

    Attributes:
        models: Name of an arm -> its evaluation.
        variants: The same of rotated and reworded questions; empty where none are wanted.
        controls: Control -> metrics of the last arm under it.
    """

    models: dict[str, Evaluation]
    variants: dict[str, VariantAnswers]
    controls: dict[str, dict[str, Any]]

    @property
    def notes(self) -> list[str]:
        """Sentences for the user."""
        notes = [one.notes for one in self.models.values()] + [one.notes for one in self.variants.values()]
        return [note for some in notes for note in some]


def ask_arms(
    asker: Asker, questions: Questions, arms: Sequence[Arm], config: EvaluateConfig, controls: Path, progress: Bars
) -> Answered:
    """Ask each arm the questions of the split in all ways that are wanted, and write each one's answers.

    Args:
        asker: Whom, and how.
        questions: The benchmark's questions.
        arms: In the order in which they are asked; controls are asked of the last.
        config: The split, and what is asked beside the questions as they are.
        controls: Folder for the answers under controls.
        progress: Called with (what, items answered, items in all).
    """
    split, kept = Split(config.split), kept_answers(config)
    models, variants = {}, {}
    for arm in arms:
        words = arm.name.replace("_", "-")
        with arm.state():
            found = ask(asker, questions, split, arm.fingerprints, _on(progress, f"{words} on {split}"), answers=kept)
            found.write(arm.folder)
            varied = ask_variants(asker, questions, found, config.eval, _on(progress, f"{words}, variants"), kept)
        models[arm.name] = found
        if varied is not None:
            variants[arm.name] = varied
    asked = ask_controls(asker, questions, split, arms[-1].fingerprints, config.eval.controls, controls, progress, kept)
    return Answered(models, variants, asked)


def _on(progress: Bars, what: str) -> Callable[[int, int], None]:
    return lambda done, total: progress(what, done, total)
