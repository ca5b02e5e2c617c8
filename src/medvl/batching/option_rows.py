"""Questions as rows of a model, one for each option: the question without its options, and an option as the answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch

from medvl.batching.collator import Batch, Collator
from medvl.batching.dataset import Sample
from medvl.batching.inputs import Companions
from medvl.batching.option_order import is_bound_to_its_order
from medvl.batching.prompt import Ending, open_question_text, worded_ending
from medvl.benchmark.item import LETTERS, Item
from medvl.errors import DataError, ModelError

TOKENS_AT_ONCE = 256
"""Most answer tokens of a part: their logits over a vocabulary of 150,000 take 160 MB."""


class OptionBatch:
    """Questions whose options are rows.

    Attributes:
        items: The questions.
        parts: The rows, the options of one item after those of the item before, over as many batches as the memory
            asks for. Labelled are an option's tokens and the end of the turn.
        blind: The same rows without pictures; empty when they are not asked for.
        device: Where a part is to go when its turn comes. All at once would take a copy of a picture for each option.
    """

    def __init__(
        self,
        items: tuple[Item, ...],
        parts: list[Batch],
        blind: list[Batch],
        device: torch.device | str = "cpu",
    ) -> None:
        self.items = items
        self.parts = parts
        self.blind = blind
        self.device = device

    def to(self, device: torch.device | str) -> OptionBatch:
        """The same questions for a device."""
        return OptionBatch(self.items, self.parts, self.blind, device)


class OptionCollator:
    """Makes a row of each option of each question; no part has more rows than the batch has questions.

    Args:
        processor: A transformers processor.
        companions: Inputs that the model's architecture must not go without.
        text_only_too: Make the rows without pictures as well.
        padding_side: Where short rows are filled up.

    Raises:
        ModelError: See `answer_tokens`.
    """

    def __init__(
        self,
        processor: Any,
        *,
        companions: Companions = Companions(),  # noqa: B008  # frozen
        text_only_too: bool = False,
        padding_side: Literal["left", "right"] = "right",
    ) -> None:
        self._processor = processor
        self._text_only_too = text_only_too
        self._collator = Collator(processor, with_answer=False, companions=companions, padding_side=padding_side)
        self._endings: dict[str, Ending] = {}

    def __call__(self, samples: Sequence[Sample]) -> OptionBatch:
        """Make one batch, order kept.

        Raises:
            DataError: See `check` and `Collator`.
        """
        items = tuple(sample.item for sample in samples)
        rows = [(sample, ending) for sample in samples for ending in self._endings_of(sample.item)]
        parts = self._parts(rows, len(samples))
        blind = [(replace(sample, pixels=None, shown=None), ending) for sample, ending in rows]
        return OptionBatch(items, parts, self._parts(blind, len(samples)) if self._text_only_too else [])

    def check(self, items: Iterable[Item]) -> None:
        """Refuse items whose options cannot stand as answers on their own.

        Raises:
            DataError: An option is empty, speaks of other options, holds a control token, cannot be told from the
                prompt, or has the tokens of another one. Names the item.
        """
        for item in items:
            self._endings_of(item)

    def _endings_of(self, item: Item) -> list[Ending]:
        if is_bound_to_its_order(item):
            raise DataError(
                f"item {item.item_id}: its options speak of each other ({', '.join(map(repr, item.options))}), so none "
                "is an answer on its own; use eval.scoring=letter"
            )
        endings = [self._ending(item, option) for option in item.options]
        first: dict[tuple[int, ...], str] = {}
        for letter, ending in zip(item.letters, endings, strict=True):
            if (other := first.setdefault(ending.ids, letter)) != letter:
                raise DataError(
                    f"item {item.item_id}: options {other} and {letter} are the same to the model "
                    f"({item.options[LETTERS.index(letter)]!r}), so their texts cannot be told apart; correct the "
                    "labels of its source, or use eval.scoring=letter"
                )
        return endings

    def _ending(self, item: Item, option: str) -> Ending:
        if option not in self._endings:
            if not option.strip():
                raise DataError(f"item {item.item_id}: an option without text is no answer; use eval.scoring=letter")
            self._collator.check_plain(item, option)
            try:
                self._endings[option] = worded_ending(self._processor, self._collator.tokens, option)
            except ModelError as error:
                raise DataError(f"item {item.item_id}: {error}; use eval.scoring=letter") from error
        return self._endings[option]

    def _parts(self, rows: Sequence[tuple[Sample, Ending]], most_rows: int) -> list[Batch]:
        parts: list[list[tuple[Sample, Ending]]] = []
        tokens = 0
        for sample, ending in rows:
            tokens += len(ending.ids)
            if not parts or len(parts[-1]) == most_rows or tokens > TOKENS_AT_ONCE:
                parts.append([])
                tokens = len(ending.ids)
            parts[-1].append((sample, ending))
        return [self._batch(part) for part in parts]

    def _batch(self, rows: Sequence[tuple[Sample, Ending]]) -> Batch:
        samples = [sample for sample, _ in rows]
        texts = [open_question_text(sample.item) for sample in samples]
        return self._collator.rows(samples, texts, [ending for _, ending in rows])
