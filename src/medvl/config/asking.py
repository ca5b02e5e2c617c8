"""How a model is asked: the configuration root `eval`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from medvl.config.node import Count, Node, Positive

MOST_WORDINGS = 5
"""The wordings that `medvl.benchmark.paraphrases` knows of a question, its own included."""

LikelihoodScore = Literal["sum", "per_token", "relative"]
"""How the log-probabilities of an option's tokens become one score, see `EvalConfig.likelihood`."""


class EvalConfig(Node):
    """How a model is asked and its answers are reduced."""

    scoring: Literal["letter", "generation", "likelihood"] = "letter"
    """`letter`: the likeliest option letter at the answer position. `generation`: what the model's reply says.
    `likelihood`: the option whose text is the likeliest reply to the question alone, no options shown."""
    likelihood: LikelihoodScore = "per_token"
    """Which score of an option's text decides (likelihood only). `sum`: log-probability of the text. `per_token`: the
    same over the number of its tokens, so that long options are not at a loss. `relative`: the sum with the picture
    minus that without it, so that common words gain nothing."""
    max_new_tokens: Annotated[int, Field(ge=2)] = 16
    """Most tokens of a reply, its end of turn included (generation only). A reply cut there is read up to the cut."""
    reasoning_tokens: Count = 0
    """Most tokens of the thought before the answer, between `<think>` and `</think>` (generation only); 0: none."""
    batch_size: Positive = 32
    """Most questions of a batch."""
    batch_tokens: Positive = 16384
    """Most tokens of a batch: its rows times the longest of them. A longer question is asked alone."""
    shared_prefix: bool = True
    """Compute what the questions of one picture begin with once a batch (letter only). Changes rounding, no more."""
    val_items: Positive | None = None
    """Most items of val asked at each validation (stratified by task, seeded); None asks all."""
    test_items: Positive | None = None
    """Most items of test asked; None asks all."""
    reuse_answers: bool = True
    """Keep answers in `paths.outputs/answers` as they come, and do not ask again what was answered in the same way."""
    controls: list[Literal["text_only", "blank", "shuffled"]] = Field(default_factory=list)
    """Asked again without their pictures (does the model look?): no picture, a blank one, that of another item."""
    rotations: bool = False
    """True: evaluate.py also asks every item in all rotations of its options (is the answer about the letter?)."""
    paraphrases: Annotated[int, Field(ge=1, le=MOST_WORDINGS)] = 1
    """In how many wordings evaluate.py asks every question; 1: as it is. With `rotations`, each in all rotations."""

    @property
    def asks_variants(self) -> bool:
        """Whether items are asked in more ways than one."""
        return self.rotations or self.paraphrases > 1
