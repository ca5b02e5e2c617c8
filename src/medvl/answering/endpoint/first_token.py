"""Letter scores from the likeliest tokens at the first token of a reply.

A server gives the k likeliest tokens only. A letter that is not among them is less likely than the least likely of
them, and that is all that is known of it. So a missing letter gets this upper bound as its log-probability, but only
where the bounds of all missing letters together are at most `MISSING_MASS`; else the item gets no option scores. The
answer is the likeliest letter in either case. Letters that hold less than half of the probability decide nothing: the
reply begins with words, and it is read as text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from medvl.answering.endpoint.reply import Reply, TokenScore

COMMITTED_MASS = 0.5
"""Probability that the letters must hold for the first token to be the answer."""

MISSING_MASS = 0.01
"""Most probability that bounds may stand for."""

NOT_GIVEN = -700.0
"""At and below stand what OpenAI and vLLM (-9999) and SGLang (-3.4e38) write for a probability that is too small or not
known. A true one of this size would be 0 in double precision."""

_BLANKS = " \t\r\n\u2581\u0120\u010a"
"""Blanks, also as tokenizers write them."""


@dataclass(frozen=True, slots=True)
class LetterScores:
    """The letters at the first token of a reply.

    Attributes:
        drawn: Letter that the reply itself begins with; None where it begins with something else.
        answer: Likeliest letter, the first of equals.
        logprobs: Natural-log probability of every letter over the whole vocabulary, in order; empty when some letter
            is missing and its bound is too loose.
        outside_mass: Probability of all that is no letter, in [0, 1]; None without `logprobs`.
        rule: `argmax` where every letter is given, `argmax_bounded` where some have a bound, `argmax_unscored` where
            scores are not known.
    """

    drawn: str | None
    answer: str
    logprobs: tuple[float, ...]
    outside_mass: float | None
    rule: str


def letter_scores(reply: Reply, letters: str) -> LetterScores | None:
    """Score the letters at the first token of a reply.

    Args:
        reply: The reply. A letter with and without a blank before it are two tokens; both count for the letter.
        letters: Option letters, in order.

    Returns:
        None where the reply comes without scores, where these are of other text (a server may count the thoughts
        in), or where the letters hold less than half of the probability.
    """
    first = _first_token(reply)
    if first is None:
        return None
    known = [(token, logprob) for token, logprob in first.top if _is_given(logprob)]
    if first.token not in (token for token, _ in known) and _is_given(first.logprob):
        known.append((first.token, first.logprob))  # drawn from beyond the likeliest
    mass = dict.fromkeys(letters, 0.0)
    for token, logprob in known:
        if (letter := token.strip(_BLANKS)) in mass:
            mass[letter] += math.exp(logprob or 0.0)
    if sum(mass.values()) < COMMITTED_MASS:
        return None
    start = first.token.strip(_BLANKS)
    drawn = start if start in mass else None
    answer = max(letters, key=lambda letter: mass[letter])
    missing = [letter for letter in letters if not mass[letter]]
    if missing:
        bound = _bound(known, first.token)
        if bound is None or len(missing) * bound > MISSING_MASS:
            return LetterScores(drawn, answer, (), None, "argmax_unscored")
        mass |= dict.fromkeys(missing, bound)
    logprobs = tuple(min(0.0, math.log(mass[letter])) for letter in letters)
    outside = min(1.0, max(0.0, 1.0 - sum(mass.values())))
    return LetterScores(drawn, answer, logprobs, outside, "argmax_bounded" if missing else "argmax")


def _is_given(logprob: float | None) -> bool:
    return logprob is not None and math.isfinite(logprob) and logprob > NOT_GIVEN


def _first_token(reply: Reply) -> TokenScore | None:
    """First token that is not blank, if the text of the reply begins with it."""
    first = next((one for one in reply.tokens if one.token.strip(_BLANKS)), None)
    if first is None or not reply.text.lstrip().startswith(first.token.strip(_BLANKS)):
        return None
    return first


def _bound(known: Sequence[tuple[str, float | None]], drawn: str) -> float | None:
    """Probability that a token which is not given has at most.

    The drawn token tells nothing: servers list it even where it is not among the likeliest.
    """
    others = [logprob for token, logprob in known if token != drawn and logprob is not None]
    return math.exp(min(others)) if others else None
