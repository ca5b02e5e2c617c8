"""Option likelihood: how likely the text of each option is as the whole reply to the question.

The question is asked without its options (the cloze form of OLMES, arXiv:2406.08446, and of SEED-Bench,
arXiv:2307.16125). Where the options stand in the prompt, a chat model's likely reply is a letter, and repeating any
listed text is cheap; without them neither letters nor the order of options can decide, which is what this scoring is
to add to letter scoring.

The end of the turn is part of an option: the options are then replies that exclude each other, and "femur" does not
get what belongs to "femur length". (lm-evaluation-harness leaves it out; its figures differ.)
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from medvl.answering.driver import ask_all, check_finite
from medvl.answering.option_likelihoods import OptionLikelihoods, shared_out
from medvl.answering.prediction import Prediction, Scoring
from medvl.batching.collator import IGNORED, Batch
from medvl.batching.option_rows import OptionBatch
from medvl.benchmark.item import Item
from medvl.config.asking import LikelihoodScore
from medvl.models.shared_prefix import shared_logits

LOGITS_AT_ONCE = 64
"""Answer tokens whose logits are normalised together."""


def score_batch(
    model: Any, batch: OptionBatch, score: LikelihoodScore, *, shared_prefix: bool = True
) -> list[Prediction]:
    """Answer a batch of questions.

    Args:
        model: A transformers image-text model in evaluation mode, with or without an adapter.
        batch: Questions for the model's device; with their rows without pictures for `relative`.
        score: Which score of an option decides, see `OptionLikelihoods.scores`.
        shared_prefix: Let the options of the questions on one picture share what comes before them (`shared_logits`).

    Returns:
        One prediction an item, in order. The answer is the option with the highest score, the first of equals.
        `option_logprobs` are the scores' log-softmax over the options; `raw_text` holds what they are made of.
        `outside_mass` is None: no option is ever most of what a model might say, so it tells nothing.

    Raises:
        ModelError: See `check_finite`.
        ValueError: `relative`, and the batch has no rows without pictures.
    """
    if score == "relative" and not batch.blind:
        raise ValueError("the relative score needs an OptionCollator with text_only_too=True")
    start = time.perf_counter()
    found = _likelihoods(model, batch, shared_prefix)
    seconds = (time.perf_counter() - start) / len(batch.items)
    check_finite(batch.items, (not _is_finite(likelihoods) for likelihoods in found))
    return [_prediction(item, one, score, seconds) for item, one in zip(batch.items, found, strict=True)]


def answer_all(
    model: Any,
    batches: Iterable[OptionBatch],
    score: LikelihoodScore,
    device: torch.device | str,
    progress: Callable[[int], None] | None = None,
    keep: Callable[[list[Prediction]], None] | None = None,
    *,
    shared_prefix: bool = True,
) -> list[Prediction]:
    """Answer every batch with the model in evaluation mode; its mode is restored afterwards.

    Args:
        model: See `score_batch`.
        batches: Question batches of an `OptionCollator`.
        score: See `score_batch`.
        device: Where the model is.
        progress: Called with the number of items answered so far.
        keep: Called with the answers of each batch as it is done.
        shared_prefix: See `score_batch`.
    """
    ask = partial(score_batch, model, score=score, shared_prefix=shared_prefix)
    return ask_all(model, batches, ask, device, progress, keep)


@torch.inference_mode()
def row_logprobs(model: Any, rows: Batch, *, shared_prefix: bool = True) -> tuple[Tensor, Tensor]:
    """Log-probabilities of the labels of a batch.

    Args:
        model: See `score_batch`.
        rows: A batch with labels, on the model's device.
        shared_prefix: See `score_batch`.

    Returns:
        Their sum over each row, float64 [B], and their number, int64 [B], on the CPU.
    """
    assert rows.labels is not None
    positions = torch.zeros_like(rows.labels, dtype=torch.bool)
    positions[:, :-1] = rows.labels[:, 1:] != IGNORED  # the logits that predict a token stand one before it
    targets = rows.labels[:, 1:][positions[:, :-1]]
    logits = shared_logits(model, rows.inputs, positions, rows.picture_of, shared_prefix=shared_prefix)
    parts = zip(torch.split(logits, LOGITS_AT_ONCE), torch.split(targets, LOGITS_AT_ONCE), strict=True)
    logprobs = [part.gather(1, ids[:, None])[:, 0] - part.logsumexp(dim=1) for part, ids in parts]
    row = positions.nonzero()[:, 0].cpu()
    sums = torch.zeros(len(positions), dtype=torch.float64).index_add(0, row, torch.cat(logprobs).cpu().double())
    return sums, positions.sum(dim=1).cpu()


def _likelihoods(model: Any, batch: OptionBatch, shared_prefix: bool) -> list[OptionLikelihoods]:
    read = partial(row_logprobs, model, shared_prefix=shared_prefix)
    seen = [read(part.to(batch.device)) for part in batch.parts]
    sums = iter(torch.cat([total for total, _ in seen]).tolist())
    tokens = iter(torch.cat([count for _, count in seen]).tolist())
    without = [read(part.to(batch.device))[0] for part in batch.blind]
    blind = iter([total for totals in without for total in totals.tolist()])

    def next_of(values: Iterable[Any], item: Item) -> tuple[Any, ...]:
        return tuple(islice(values, len(item.options)))

    return [
        OptionLikelihoods(next_of(sums, item), next_of(tokens, item), next_of(blind, item) if batch.blind else None)
        for item in batch.items
    ]


def _is_finite(likelihoods: OptionLikelihoods) -> bool:
    return all(map(math.isfinite, (*likelihoods.sums, *(likelihoods.text_only_sums or ()))))


def _prediction(item: Item, found: OptionLikelihoods, score: LikelihoodScore, seconds: float) -> Prediction:
    scores = found.scores(score)
    return Prediction(
        item_id=item.item_id,
        item_fingerprint=item.fingerprint(),
        answer=item.letters[scores.index(max(scores))],
        option_logprobs=shared_out(scores),
        outside_mass=None,
        raw_text=found.to_json(),
        rule="argmax",
        scoring=Scoring(f"likelihood:{score}"),
        latency_s=seconds,
    )
