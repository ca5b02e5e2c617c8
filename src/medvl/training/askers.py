"""What a way of asking is, and those of a model on this machine: by letter, by the reply it writes, by likelihood."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from medvl.answering import generation, letters, likelihood
from medvl.answering.prediction import Prediction, Scoring
from medvl.batching.collator import Batch
from medvl.batching.dataset import Sample
from medvl.batching.picture_control import PictureControl
from medvl.batching.prompt import answer_tokens, open_prompt_fingerprint
from medvl.benchmark.item import Item
from medvl.config.asking import EvalConfig, LikelihoodScore
from medvl.errors import ModelError
from medvl.models.families import family_of_model
from medvl.models.greedy import Decoding, end_of_turn_ids
from medvl.sources.record import Split
from medvl.training.team import ALONE, Team

Progress = Callable[[int], None]
"""Called with the number of items answered so far."""

Keep = Callable[[list[Prediction]], None]
"""Called with answers as they come."""


class Questions(Protocol):
    """Where the items of a split and their batches come from (a DataModule)."""

    def items(self, split: Split) -> list[Item]:
        """Items of a split."""

    def question_loader(
        self, split: Split, control: PictureControl | None = None, items: list[Item] | None = None
    ) -> Iterable[Batch]:
        """Question batches of a split, or of some of its items, in an order of their own."""

    def question_samples(self, split: Split, control: PictureControl | None, items: list[Item]) -> Iterable[Sample]:
        """The same questions one by one, with their pictures, not made ready for any model."""


class Asker(Protocol):
    """A way of asking."""

    @property
    def scoring(self) -> Scoring:
        """How its answers are obtained."""

    @property
    def about(self) -> dict[str, str]:
        """What can change its answers beside the model and the scoring: part of the fingerprints of its figures."""

    @property
    def team(self) -> Team:
        """The processes that ask together, each of them some of the items."""

    def answer(
        self,
        questions: Questions,
        split: Split,
        control: PictureControl | None,
        items: list[Item],
        progress: Progress | None,
        keep: Keep | None,
    ) -> list[Prediction]:
        """Answer some items of a split, one prediction an item, in order."""

    def facts(self) -> dict[str, Any]:
        """What `run.json` says of it, beside `about`."""

    def notes(self) -> list[str]:
        """Sentences for the user once all is asked."""


@dataclass(frozen=True, slots=True)
class LocalAsker:
    """Asks a loaded model batch by batch. Made by `by_letter`, `by_generation` and `by_likelihood`.

    Attributes:
        model: The model, on its device, with or without an adapter.
        scoring: See `Asker`.
        answer_batches: Called with (model, batches, device=, progress=, keep=).
        about: See `Asker`.
        team: See `Asker`.
    """

    model: Any
    scoring: Scoring
    answer_batches: Callable[..., list[Prediction]]
    about: dict[str, str] = field(default_factory=dict)
    team: Team = ALONE

    def answer(
        self,
        questions: Questions,
        split: Split,
        control: PictureControl | None,
        items: list[Item],
        progress: Progress | None,
        keep: Keep | None,
    ) -> list[Prediction]:
        """See `Asker`."""
        batches = questions.question_loader(split, control, items)
        device = next(self.model.parameters()).device
        found = self.answer_batches(self.model, batches, device=device, progress=progress, keep=keep)
        by_item = {(answer.item_id, answer.item_fingerprint): answer for answer in found}
        return [by_item[item.item_id, item.fingerprint()] for item in items]

    def facts(self) -> dict[str, Any]:
        """See `Asker`."""
        return {}

    def notes(self) -> list[str]:
        """See `Asker`."""
        return []


def by_letter(model: Any, processor: Any, *, shared_prefix: bool = True) -> LocalAsker:
    """Letter scoring, see `medvl.answering.letters`.

    Args:
        model: The model, on its device, with or without an adapter.
        processor: Its processor.
        shared_prefix: See `letters.score_batch`.
    """
    tokens = answer_tokens(processor)
    score = partial(letters.answer_all, letter_ids=tokens.letter_ids, shared_prefix=shared_prefix)
    return LocalAsker(model, Scoring.LETTER, score, _thought(tokens.opening))


def by_generation(model: Any, processor: Any, decoding: Decoding) -> LocalAsker:
    """Generation, see `medvl.answering.generation`. The batches must be padded on the left.

    Args:
        model: The model, on its device, with or without an adapter.
        processor: Its processor.
        decoding: How long replies may be.
    """
    tokens = answer_tokens(processor)
    ends = end_of_turn_ids(model, tokens)
    opening = "" if decoding.reasoning_tokens else tokens.opening
    write = partial(
        generation.answer_all, tokenizer=processor.tokenizer, end_ids=ends, decoding=decoding, opening=opening
    )
    about = {"decoding": decoding.describe(), "end_of_turn": " ".join(map(str, ends)), **_thought(opening)}
    return LocalAsker(model, Scoring.GENERATION, write, about)


def _thought(opening: str) -> dict[str, str]:
    """A model that would think first and is not let to is another model: its figures say so."""
    return {"thought": "left empty"} if opening else {}


def by_likelihood(model: Any, processor: Any, score: LikelihoodScore, *, shared_prefix: bool = True) -> LocalAsker:
    """Option likelihood, see `medvl.answering.likelihood`. The batches must be those of an `OptionCollator`.

    Args:
        model: The model, on its device, with or without an adapter.
        processor: Its processor.
        score: Which score of an option decides.
        shared_prefix: See `likelihood.score_batch`.

    Raises:
        ModelError: The score needs questions without a picture, and the model takes none.
    """
    if score == "relative" and not family_of_model(model).abilities.text_only:
        raise ModelError(
            f"{family_of_model(model).title} takes no question without a picture, which eval.likelihood=relative "
            "subtracts; use per_token or sum"
        )
    read = partial(likelihood.answer_all, score=score, shared_prefix=shared_prefix)
    about = {"open_prompt": open_prompt_fingerprint(processor), **_thought(answer_tokens(processor).opening)}
    return LocalAsker(model, Scoring(f"likelihood:{score}"), read, about)


def local_asker(model: Any, processor: Any, config: EvalConfig, team: Team = ALONE) -> LocalAsker:
    """The way of asking that a configuration names.

    Args:
        model: The model, on its device, with or without an adapter.
        processor: Its processor.
        config: How it is asked.
        team: See `Asker`.
    """
    return replace(_local_asker(model, processor, config), team=team)


def _local_asker(model: Any, processor: Any, config: EvalConfig) -> LocalAsker:
    if config.scoring == "letter":
        return by_letter(model, processor, shared_prefix=config.shared_prefix)
    if config.scoring == "likelihood":
        return by_likelihood(model, processor, config.likelihood, shared_prefix=config.shared_prefix)
    decoding = Decoding(max_new_tokens=config.max_new_tokens, reasoning_tokens=config.reasoning_tokens)
    return by_generation(model, processor, decoding)
