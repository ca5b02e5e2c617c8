"""Samples -> one batch of model inputs, with or without the answer."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Literal

import torch
from PIL import Image

from medvl.batching.dataset import Sample
from medvl.batching.inputs import Companions
from medvl.batching.pictures_once import encode
from medvl.batching.prompt import (
    AnswerTokens,
    Ending,
    answer_tokens,
    control_tokens,
    question_text,
    render,
    style_of,
)
from medvl.batching.question_batches import picture_key
from medvl.benchmark.item import Item
from medvl.errors import DataError

IGNORED = -100
"""Label of a position that the loss leaves out."""


class Batch:
    """Questions ready for a model.

    No dataclass: Lightning looks into those for tensors, and refuses the frozen items.

    Attributes:
        items: The items, one a row.
        inputs: What the model takes: `input_ids` and `attention_mask` int64 [B, T], padded on one side, and the picture
            tensors of the model's processor, which hold each distinct picture once (see `picture_of`).
        labels: int64 [B, T]: token ids of the answer and the end of turn, IGNORED elsewhere. None in a question batch.
        answer_position: int64 [B]: position whose logits predict the answer letter.
        shown: The items whose pictures the rows show, where they are not their own.
        picture_of: For each row, the number of its picture among those in `inputs`. Rows share one that show the same
            pixels and the same box; pictures are in the order in which they first appear.
    """

    def __init__(
        self,
        items: tuple[Item, ...],
        inputs: dict[str, torch.Tensor],
        labels: torch.Tensor | None,
        answer_position: torch.Tensor,
        shown: tuple[Item, ...] | None = None,
    ) -> None:
        self.items = items
        self.inputs = inputs
        self.labels = labels
        self.answer_position = answer_position
        self.shown = items if shown is None else shown
        self.picture_of = _numbered(self.shown)

    def to(self, device: torch.device | str) -> Batch:
        """The same batch with its tensors on a device."""
        return Batch(
            self.items,
            {name: tensor.to(device) for name, tensor in self.inputs.items()},
            None if self.labels is None else self.labels.to(device),
            self.answer_position.to(device),
            self.shown,
        )


def _numbered(shown: Sequence[Item]) -> list[int]:
    """The number of the picture of each row, see `Batch.picture_of`."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(picture_key(item), len(numbers)) for item in shown]


def _drawn(samples: Sequence[Sample], picture_of: Sequence[int]) -> list[Image.Image]:
    """The distinct pictures; none for questions without pictures."""
    pictures = {
        number: sample.pixels for number, sample in zip(picture_of, samples, strict=True) if sample.pixels is not None
    }
    if pictures and any(sample.pixels is None for sample in samples):
        raise ValueError("a batch holds questions with pictures or questions without, not both")
    return [Image.fromarray(pictures[number]) for number in sorted(pictures)]


class Collator:
    """Renders questions with the model's own chat template and lets its processor make the tensors.

    Args:
        processor: A transformers processor.
        with_answer: True adds the answer and its labels (training); False stops after the generation prompt (scoring).
        companions: Inputs that the model's architecture must not go without.
        padding_side: Where short rows are filled up. Scoring and training do with either, generation needs `left`.
        opened: Write the opening of the processor's prompt style for the model. False leaves it to begin its own turn,
            with a thought (generation only).

    Raises:
        ModelError: See `answer_tokens`.
    """

    def __init__(
        self,
        processor: Any,
        *,
        with_answer: bool,
        companions: Companions = Companions(),  # noqa: B008  # frozen
        padding_side: Literal["left", "right"] = "right",
        opened: bool = True,
    ) -> None:
        if with_answer and not opened:
            raise ValueError("an answer follows the opening; it cannot be left out")
        self._processor = processor
        self._style = style_of(processor)
        self._with_answer = with_answer
        self._companions = companions
        self._padding_side = padding_side
        self.tokens: AnswerTokens = answer_tokens(processor)
        self._opening = self.tokens.opening if opened else ""
        self._control = set(control_tokens(processor.tokenizer).values())

    def __call__(self, samples: Sequence[Sample]) -> Batch:
        """Make one batch, a row a sample, order kept.

        Raises:
            DataError: An item's text holds a control token of the model, its row is longer than the model can take, or
                the processor cut an answer off.
        """
        texts = [question_text(sample.item, self._style) for sample in samples]
        letters = [sample.item.answer_letter for sample in samples]
        endings = [Ending(self.tokens.endings[letter], self.tokens.ending_ids[letter]) for letter in letters]
        return self.rows(samples, texts, endings if self._with_answer else None)

    def rows(self, samples: Sequence[Sample], texts: Sequence[str], endings: Sequence[Ending] | None) -> Batch:
        """Make one batch of rows with texts of their own, order kept.

        Args:
            samples: Items with their pictures, a row each; one may stand in several rows.
            texts: The user's text of each row.
            endings: What follows the prompt of each row, and is labelled; None stops after the generation prompt.

        Raises:
            DataError: See `__call__`.
        """
        items = tuple(sample.item for sample in samples)
        shown = tuple(sample.shown or sample.item for sample in samples)
        picture_of = _numbered(shown)
        pictures = _drawn(samples, picture_of)
        for item, text in zip(items, texts, strict=True):
            self.check_plain(item, text)
        rendered = [render(self._processor, text, picture=bool(pictures)) + self._opening for text in texts]
        if endings is not None:
            rendered = [text + ending.text for text, ending in zip(rendered, endings, strict=True)]
        inputs = encode(
            self._processor,
            rendered,
            pictures,
            picture_of,
            padding=True,
            padding_side=self._padding_side,
            add_special_tokens=self.tokens.adds_special_tokens,
            return_tensors="pt",
        )
        inputs.pop("labels", None)
        self._companions.check(inputs, pictures=bool(pictures))
        lengths = inputs["attention_mask"].sum(dim=1)
        self._check_lengths(items, lengths)
        ends = lengths if self._padding_side == "right" else torch.full_like(lengths, inputs["input_ids"].shape[1])
        if endings is None:
            return Batch(items, inputs, None, ends - 1, shown)
        labels = torch.full_like(inputs["input_ids"], IGNORED)
        answer_position = torch.empty_like(lengths)
        for row, (item, (_, ids)) in enumerate(zip(items, endings, strict=True)):
            end = int(ends[row])
            found = tuple(inputs["input_ids"][row, end - len(ids) : end].tolist())
            if found != ids:
                raise DataError(
                    f"item {item.item_id}: expected the tokens {ids} of its answer at the end of the row, found "
                    f"{found}; the processor cut the text: raise its length limit"
                )
            labels[row, end - len(ids) : end] = inputs["input_ids"][row, end - len(ids) : end]
            answer_position[row] = end - len(ids) - 1
        return Batch(items, inputs, labels, answer_position, shown)

    def check_plain(self, item: Item, text: str) -> None:
        """Refuse a text of an item that the model would not read as text.

        Raises:
            DataError: It holds a control token of the model.
        """
        if found := sorted(token for token in self._control if token in text):
            raise DataError(
                f"item {item.item_id}: its question or options hold {', '.join(found)}, which the model reads as a "
                "command, not as text; correct the labels of its source"
            )

    def _check_lengths(self, items: tuple[Item, ...], lengths: torch.Tensor) -> None:
        longest = int(lengths.argmax())
        limit = self._processor.tokenizer.model_max_length
        if int(lengths[longest]) > limit:
            raise DataError(
                f"item {items[longest].item_id}: {int(lengths[longest])} tokens with its picture, the model takes at "
                f"most {limit}; nothing is cut. Lower the model's picture size, or shorten the question"
            )
