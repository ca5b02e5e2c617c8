"""From a reply to a prediction, and the prediction of an item that got none."""

from __future__ import annotations

from dataclasses import replace

from medvl.answering.endpoint.first_token import letter_scores
from medvl.answering.endpoint.reply import Reply
from medvl.answering.parsing import parse_choice, parse_yes_no
from medvl.answering.prediction import Prediction, Scoring
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
    answer, rule = _parsed(item, reply.text)
    scores = letter_scores(reply, item.letters)
    if scores is None or answer is None or scores.drawn != answer:
        return _prediction(item, answer, rule, latency_s, reply.text)
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


def _parsed(item: Item, text: str) -> tuple[str | None, str]:
    """Letter and rule. A statement ("there is no effusion") answers a yes/no question where no option is named."""
    parsed = parse_choice(text, dict(zip(item.letters, item.options, strict=True)))
    of_word = {option.strip().casefold(): letter for letter, option in zip(item.letters, item.options, strict=True)}
    if parsed.rule == "no_commitment" and set(of_word) == {"yes", "no"}:
        stated = parse_yes_no(text, item.question)
        if stated.answer is not None:
            return of_word[stated.answer], stated.rule
    return parsed.answer, parsed.rule


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
