"""How far two versions of a model agree: the letter that each gives, and the logits of the options behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from medvl.batching.prompt import answer_tokens
from medvl.errors import ModelError
from medvl.models.agreement_questions import Questions
from medvl.models.answer_head import answer_mask, logits_at
from medvl.models.base import Base


@dataclass(frozen=True, slots=True)
class Agreement:
    """Two versions of a model on the same questions.

    Attributes:
        questions: How many.
        flips: Questions that they answer with different letters.
        largest_difference: Largest difference of an option's logit.
    """

    questions: int
    flips: int
    largest_difference: float

    @property
    def share(self) -> float:
        """Share of questions with different letters, in [0, 1]."""
        return self.flips / self.questions

    def __str__(self) -> str:
        return (
            f"{self.flips} of {self.questions} letters differ ({self.share:.1%}), logits by at most "
            f"{self.largest_difference:.2g}"
        )


@torch.inference_mode()
def option_logits(
    model: Any, base: Base, questions: Questions, progress: Callable[[int, int], None] | None = None
) -> list[Tensor]:
    """Logits of the option letters, on the GPU where there is one.

    Args:
        model: The model, with or without an adapter; brought to the device, and in evaluation mode afterwards.
        base: Its base: processor and family are read.
        questions: What is asked.
        progress: Called with (questions answered, questions in all).

    Returns:
        A question each, in order: float32 [options] on the CPU.

    Raises:
        ModelError: Logits that are not finite, or a GPU that is too small.
    """
    try:
        return _option_logits(model, base, questions, progress)
    except torch.OutOfMemoryError as error:
        raise ModelError(
            f"{base.label} does not fit the memory of the GPU; put CUDA_VISIBLE_DEVICES= before the command to use the "
            "CPU"
        ) from error


def _option_logits(
    model: Any, base: Base, questions: Questions, progress: Callable[[int, int], None] | None
) -> list[Tensor]:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.to(device).eval()
    letters = answer_tokens(base.processor).letter_ids
    found: list[Tensor] = []
    for batch in questions.batches(base):
        batch = batch.to(device)
        asked = answer_mask(batch.inputs, batch.answer_position)
        logits = logits_at(model, batch.inputs, asked, picture_of=batch.picture_of).cpu()
        for item, row in zip(batch.items, logits, strict=True):
            ids = [letters[letter] for letter in item.letters]
            found.append(row[ids])
            if not row[ids].isfinite().all():
                raise ModelError(
                    f"the logits of question {item.item_id} are not finite; the weights overflow in this precision "
                    "(float16 ends at 65504: take bfloat16), or the adapter holds broken numbers"
                )
        if progress is not None:
            progress(len(found), len(questions.samples))
    return found


def agreement(one: Sequence[Tensor], other: Sequence[Tensor]) -> Agreement:
    """Compare the option logits of two versions of a model.

    Args:
        one: What `option_logits` gave for the one.
        other: The same questions, for the other.
    """
    if not one:
        raise ValueError("there is nothing to compare: no questions")
    pairs = list(zip(one, other, strict=True))
    return Agreement(
        questions=len(pairs),
        flips=sum(int(a.argmax()) != int(b.argmax()) for a, b in pairs),
        largest_difference=max(float((a - b).abs().max()) for a, b in pairs),
    )
