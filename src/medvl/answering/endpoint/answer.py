"""From a reply to a prediction, and the prediction of an item that got none."""

from __future__ import annotations

from dataclasses import replace

from medvl.answering.endpoint.first_token import letter_scores
from medvl.answering.endpoint.reply import Reply
from medvl.answering.prediction import Prediction, Scoring
from medvl.answering.reading import read_reply
from medvl.benchmark.item import Item

FAILED = "failed:"
"""Begins the rule of an item that got no reply; the reason follows."""


def read_answer(item: Item, reply: Reply, latency_s: float) -> Prediction:
    """Read the answer to an item: by letter scores where the server gives them, else from the text.

    Scores count only where the text, too, is read as the letter that it begins with: the first word of "A large head is
    seen" is no answer.

    Args:
        item: The item.
        reply: What the model said.
        latency_s: Seconds spent on it.
    """
    read = read_reply(item, reply.text, is_cut=reply.is_cut)
    scores = letter_scores(reply, item.letters)
    if scores is None or read.answer is None or scores.drawn != read.answer:
        return _prediction(item, read.answer, read.rule, latency_s, reply.text)
    found = _prediction(item, scores.answer, scores.rule, latency_s, reply.text)
    return replace(found, option_logprobs=scores.logprobs, outside_mass=scores.outside_mass)


def failed(item: Item, reason: str, latency_s: float) -> Prediction:
    """The invalid answer of an item that got no reply.

    Args:
        item: The item.
        reason: Short name of why.
        latency_s: Seconds spent on it.
    """
    return _prediction(item, None, FAILED + reason, latency_s)


def is_failed(prediction: Prediction) -> bool:
    """Whether an item got no reply, so that it should be asked again."""
    return prediction.rule.startswith(FAILED)


def _prediction(item: Item, answer: str | None, rule: str, latency_s: float, text: str = "") -> Prediction:
    return Prediction(
        item_id=item.item_id,
        item_fingerprint=item.fingerprint(),
        answer=answer,
        option_logprobs=(),
        outside_mass=None,
        raw_text=text,
        rule=rule,
        scoring=Scoring.ENDPOINT,
        latency_s=latency_s,
    )
