"""Generation: the model writes a reply (see `medvl.models.greedy`), and the reply is read for an option."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any

import torch

from medvl.answering.driver import ask_all, check_finite
from medvl.answering.prediction import Prediction, Scoring
from medvl.answering.reading import read_reply
from medvl.batching.collator import Batch
from medvl.batching.prompt import control_tokens
from medvl.models.greedy import Decoding, write_replies
from medvl.models.pictures import row_inputs


def reply_batch(
    model: Any, batch: Batch, tokenizer: Any, end_ids: Collection[int], decoding: Decoding, opening: str = ""
) -> list[Prediction]:
    """Let the model reply to a batch of questions, and read its replies.

    Args:
        model: A transformers image-text model in evaluation mode, with or without an adapter.
        batch: Questions on the model's device, padded on the left.
        tokenizer: The tokenizer of its processor.
        end_ids: See `end_of_turn_ids`.
        decoding: How long the replies may be.
        opening: What the batch lets every reply begin with (`AnswerTokens.opening`); it is read, but is not the reply.

    Returns:
        One prediction an item, in order. `raw_text` is the whole reply, thought included, without control tokens.

    Raises:
        ModelError: See `check_finite`; also an input that the architecture needs is absent.
        ValueError: The batch is padded on the right, or holds the answers.
    """
    if batch.labels is not None:
        raise ValueError("the batch holds the answers; make it with Collator(..., with_answer=False)")
    start = time.perf_counter()
    inputs = row_inputs(model, batch.inputs, batch.picture_of)
    replies = write_replies(model, inputs, tokenizer, end_ids, decoding)
    seconds = (time.perf_counter() - start) / len(batch.items)
    check_finite(batch.items, (reply.is_lost for reply in replies))
    dropped = _without_meaning(tokenizer, decoding)
    predictions = []
    for item, reply in zip(batch.items, replies, strict=True):
        text = tokenizer.decode([token for token in reply.ids if token not in dropped], skip_special_tokens=False)
        told = opening + text.replace(decoding.opening, "<think>").replace(decoding.closing, "</think>")
        found = read_reply(item, told, is_cut=reply.is_cut)
        predictions.append(
            Prediction(
                item_id=item.item_id,
                item_fingerprint=item.fingerprint(),
                answer=found.answer,
                option_logprobs=(),
                outside_mass=None,
                raw_text=text,
                rule=found.rule,
                scoring=Scoring.GENERATION,
                latency_s=seconds,
            )
        )
    return predictions


def answer_all(
    model: Any,
    batches: Iterable[Batch],
    tokenizer: Any,
    end_ids: Collection[int],
    decoding: Decoding,
    device: torch.device | str,
    progress: Callable[[int], None] | None = None,
    keep: Callable[[list[Prediction]], None] | None = None,
    opening: str = "",
) -> list[Prediction]:
    """Let the model reply to every batch, in evaluation mode; its mode is restored afterwards.

    Args:
        model: See `reply_batch`.
        batches: Question batches, padded on the left.
        tokenizer: See `reply_batch`.
        end_ids: See `end_of_turn_ids`.
        decoding: How long the replies may be.
        device: Where the model is.
        progress: Called with the number of items answered so far.
        keep: Called with the answers of each batch as it is done.
        opening: See `reply_batch`.
    """
    ask = partial(reply_batch, model, tokenizer=tokenizer, end_ids=end_ids, decoding=decoding, opening=opening)
    return ask_all(model, batches, ask, device, progress, keep)


def _without_meaning(tokenizer: Any, decoding: Decoding) -> set[int]:
    """Control tokens that are left out of a reply: all but those that tell its thought from its answer."""
    tags = (decoding.opening, decoding.closing, decoding.answer_prefix)
    return {i for i, text in control_tokens(tokenizer).items() if text not in tags}
