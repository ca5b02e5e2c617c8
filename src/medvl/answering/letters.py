"""Letter scoring: one forward pass, the logits of the option letters at the answer position.

The questions of one picture in a batch share what they begin with, see `medvl.models.shared_prefix`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch

from medvl.answering.driver import ask_all, check_finite
from medvl.answering.prediction import Prediction, Scoring
from medvl.batching.collator import Batch
from medvl.models.shared_prefix import answer_logits


@torch.inference_mode()
def score_batch(
    model: Any, batch: Batch, letter_ids: dict[str, int], *, shared_prefix: bool = True
) -> list[Prediction]:
    """Answer a batch of questions.

    Args:
        model: A transformers image-text model in evaluation mode, with or without an adapter.
        batch: Questions on the model's device.
        letter_ids: Letter -> token id at the answer position.
        shared_prefix: Whether the questions of one picture share what they begin with; changes log-probabilities by
            rounding only.

    Returns:
        One prediction an item, in order. The answer is the letter with the largest probability, the first of equals.
        Probabilities are over the whole vocabulary, computed in float32.

    Raises:
        ModelError: See `check_finite`.
    """
    start = time.perf_counter()
    logits = answer_logits(model, batch.inputs, batch.answer_position, batch.picture_of, shared_prefix=shared_prefix)
    logprobs = torch.log_softmax(logits, dim=-1).cpu()
    seconds = (time.perf_counter() - start) / len(batch.items)
    check_finite(batch.items, (bool(row.isnan().any()) for row in logprobs))
    predictions = []
    for item, row in zip(batch.items, logprobs, strict=True):
        options = row[[letter_ids[letter] for letter in item.letters]]
        predictions.append(
            Prediction(
                item_id=item.item_id,
                item_fingerprint=item.fingerprint(),
                answer=item.letters[int(options.argmax())],
                option_logprobs=tuple(float(x) for x in options),
                outside_mass=max(0.0, 1.0 - float(options.exp().sum())),
                raw_text="",
                rule="argmax",
                scoring=Scoring.LETTER,
                latency_s=seconds,
            )
        )
    return predictions


def answer_all(
    model: Any,
    batches: Iterable[Batch],
    letter_ids: dict[str, int],
    device: torch.device | str,
    progress: Callable[[int], None] | None = None,
    keep: Callable[[list[Prediction]], None] | None = None,
    *,
    shared_prefix: bool = True,
) -> list[Prediction]:
    """Answer every batch with the model in evaluation mode; its mode is restored afterwards.

    Args:
        model: See `score_batch`.
        batches: Question batches.
        letter_ids: Letter -> token id.
        device: Where the model is.
        progress: Called with the number of items answered so far.
        keep: Called with the answers of each batch as it is done.
        shared_prefix: See `score_batch`.
    """
    ask = partial(score_batch, model, letter_ids=letter_ids, shared_prefix=shared_prefix)
    return ask_all(model, batches, ask, device, progress, keep)
