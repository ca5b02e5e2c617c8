"""One answer out of several to the same question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from medvl.answering.endpoint.answer import is_failed
from medvl.answering.prediction import Prediction


def majority(answers: Sequence[Prediction]) -> tuple[int, float]:
    """Find the answer that was given most often; of several, the one that was given first.

    No letter (an invalid reply) and each reason for no reply are answers like the letters: an item that mostly fails
    has failed, whatever was said in between.

    Args:
        answers: Answers to one item, in the order given. At least one.

    Returns:
        Index of the first answer that says what most say, and the share of answers that agree with it, in (0, 1].
    """
    said = [(one.answer, one.rule if is_failed(one) else "") for one in answers]
    winner, times = Counter(said).most_common(1)[0]  # of equal counts, the one met first
    return said.index(winner), times / len(said)
