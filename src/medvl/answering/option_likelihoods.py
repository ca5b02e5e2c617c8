"""The log-probabilities of option texts, and the scores that are made of them. Imports no torch."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from medvl.config.asking import LikelihoodScore


@dataclass(frozen=True, slots=True)
class OptionLikelihoods:
    """How likely a model finds each option of one question as its whole reply.

    Attributes:
        sums: Natural-log probability of each option's tokens and the end of the turn, in option order.
        tokens: Number of those tokens, the end of the turn included.
        text_only_sums: `sums` of the same question without its picture; None when not asked.
    """

    sums: tuple[float, ...]
    tokens: tuple[int, ...]
    text_only_sums: tuple[float, ...] | None = None

    def scores(self, name: LikelihoodScore) -> tuple[float, ...]:
        """One score an option, larger is likelier.

        Args:
            name: `sum`: log P(option | picture, question). `per_token`: that over the number of tokens. `relative`:
                log P(option | picture, question) - log P(option | question), the pointwise mutual information of
                option and picture (Holtzman et al. 2021, arXiv:2104.08315, with the question alone as the domain
                premise); it may be above 0.

        Raises:
            ValueError: `relative` without the sums of the text-only question.
        """
        if name == "sum":
            return self.sums
        if name == "per_token":
            return tuple(total / count for total, count in zip(self.sums, self.tokens, strict=True))
        if self.text_only_sums is None:
            raise ValueError("the relative score needs the log-probabilities of the text-only question")
        return tuple(seen - blind for seen, blind in zip(self.sums, self.text_only_sums, strict=True))

    def to_json(self) -> str:
        """One line for `Prediction.raw_text`."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> OptionLikelihoods:
        """Read back what `to_json` wrote."""
        found = json.loads(text)
        blind = found["text_only_sums"]
        return cls(tuple(found["sums"]), tuple(found["tokens"]), None if blind is None else tuple(blind))


def shared_out(scores: Sequence[float]) -> tuple[float, ...]:
    """Log-softmax of the scores of one item's options: their exponentials add to 1.

    Args:
        scores: Finite numbers, at least one.
    """
    highest = max(scores)
    total = highest + math.log(math.fsum(math.exp(score - highest) for score in scores))
    return tuple(min(0.0, score - total) for score in scores)
