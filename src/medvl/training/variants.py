"""Asks items in further ways, their options rotated and their questions in other words, and keeps what came of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from medvl.answering.prediction import Prediction, predictions_to_frame
from medvl.batching.option_order import is_bound_to_its_order
from medvl.batching.variants import Variant, all_variants
from medvl.benchmark.item import Item, items_to_frame
from medvl.benchmark.paraphrases import wordings
from medvl.config.asking import EvalConfig
from medvl.errors import StorageError
from medvl.evaluation.files import write_json
from medvl.evaluation.robustness import robustness
from medvl.evaluation.variants import VARIANT_SCHEMA, score_variants
from medvl.training.askers import Asker, Questions
from medvl.training.session import Evaluation, answers_to

VARIANTS_FILE, ROBUSTNESS_FILE = "variants.parquet", "robustness.json"

_ITEM_COLUMNS = ("question", "options", "answer_index")


@dataclass(frozen=True, slots=True)
class VariantAnswers:
    """One model's answers to the variants of the items of one split, the items as they are among them.

    Attributes:
        variants: What was asked.
        predictions: One answer a variant, in order.
        fingerprints: What the figures are made from.
        asked: `rotations` and `paraphrases` as configured, `n_variants`; `n_not_rotated`, the items whose options speak
            of each other and stay in place; `n_in_own_words`, the items whose question is not in the table of
            paraphrases, so that its other wordings only add a sentence to it.
        notes: Sentences for the user.
    """

    variants: list[Variant]
    predictions: list[Prediction]
    fingerprints: dict[str, str]
    asked: dict[str, Any]
    notes: list[str]

    def table(self) -> pl.DataFrame:
        """See `medvl.evaluation.variants.score_variants`."""
        return score_variants(self._names(), self._items(), predictions_to_frame(self.predictions))

    def write(self, folder: Path) -> None:
        """Write `variants.parquet`: which variant it is, what was asked, and the columns of `predictions.parquet`."""
        answers = predictions_to_frame(self.predictions).drop("item_id")
        table = pl.concat([self._names(), self._items().select(_ITEM_COLUMNS), answers], how="horizontal")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            temporary = folder / f".{VARIANTS_FILE}"
            table.write_parquet(temporary)
            temporary.replace(folder / VARIANTS_FILE)
        except OSError as error:
            raise StorageError(f"cannot write the answers to {folder}: {os.strerror(error.errno or 0)}") from error

    def _names(self) -> pl.DataFrame:
        rows = [(one.item.item_id, one.base_id, one.rotation, one.paraphrase) for one in self.variants]
        return pl.DataFrame(rows, schema=VARIANT_SCHEMA, orient="row")

    def _items(self) -> pl.DataFrame:
        return items_to_frame(one.item for one in self.variants)


def ask_variants(
    asker: Asker,
    questions: Questions,
    found: Evaluation,
    config: EvalConfig,
    progress: Callable[[int, int], None] | None = None,
    answers: Path | None = None,
) -> VariantAnswers | None:
    """Ask the items of an evaluation in all further ways that a configuration names.

    Args:
        asker: Whom, and how; as in the evaluation.
        questions: The benchmark's questions.
        found: The items as they are and their answers, which are not asked again.
        config: Which rotations and paraphrases.
        progress: Called with (items answered, items in all).
        answers: Folder of kept answers; None keeps none.

    Returns:
        The answers; None where no further way is wanted.
    """
    if not config.asks_variants:
        return None
    variants = _variants(found.items, config)
    further = [one.item for one in variants if not one.is_base]
    prints = found.metrics["fingerprints"]
    predictions, notes = (
        answers_to(asker, questions, further, prints, progress, answers=answers) if further else ([], [])
    )
    by_id = {answer.item_id: answer for answer in (*found.predictions, *predictions)}
    asked = {
        "rotations": config.rotations,
        "paraphrases": config.paraphrases,
        "n_variants": len(variants),
        "n_not_rotated": sum(map(is_bound_to_its_order, found.items)) if config.rotations else 0,
        "n_in_own_words": (
            sum(not wordings(item.task, item.question).is_known for item in found.items)
            if config.paraphrases > 1
            else 0
        ),
    }
    return VariantAnswers(variants, [by_id[one.item.item_id] for one in variants], prints, asked, notes + _said(asked))


def write_robustness(folder: Path, models: Mapping[str, VariantAnswers]) -> dict[str, Any]:
    """Write `robustness.json`, and `variants.parquet` where the model's `predictions.parquet` is.

    Args:
        folder: Run folder.
        models: `zero_shot`, and `fine_tuned` where there is an adapter -> answers to the same variants.

    Returns:
        Content of `robustness.json`.
    """
    for name, answers in models.items():
        answers.write(folder / name if name == "zero_shot" and len(models) > 1 else folder)
    first = next(iter(models.values()))
    content = robustness(
        {name: answers.table() for name, answers in models.items()},
        split=first.variants[0].item.split,
        scoring=first.predictions[0].scoring,
        asked=first.asked,
        fingerprints={name: answers.fingerprints for name, answers in models.items()},
    )
    write_json(folder / ROBUSTNESS_FILE, content)
    return content


def price_notes(items: Sequence[Item], config: EvalConfig) -> list[str]:
    """What further ways of asking come to at a server, for the user before it is asked; empty without any."""
    if not config.asks_variants:
        return []
    further = sum(not one.is_base for one in _variants(items, config))
    return [
        f"rotations and paraphrases send {further:,} questions to the server beside the {len(items):,} as they are; "
        "eval.test_items=N asks fewer items, endpoint.budget sets a ceiling"
    ]


def _variants(items: Sequence[Item], config: EvalConfig) -> list[Variant]:
    return all_variants(items, rotations=config.rotations, paraphrases=config.paraphrases)


def _said(asked: Mapping[str, Any]) -> list[str]:
    said = {
        "n_not_rotated": "questions whose options speak of each other, which kept their order",
        "n_in_own_words": "questions without known paraphrases, which were asked with a sentence added instead",
    }
    return [f"{text}: {asked[name]:,}" for name, text in said.items() if asked[name]]
