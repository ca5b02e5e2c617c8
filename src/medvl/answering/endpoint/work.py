"""The items of a run: taken one after the other by several workers, and collected in their order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from medvl.answering.endpoint.answer import failed, is_failed, read_answer
from medvl.answering.endpoint.problem import Problem
from medvl.answering.endpoint.request import most_input_tokens, request_body
from medvl.answering.endpoint.sender import OUT_OF_BUDGET, Sender
from medvl.answering.endpoint.votes import majority
from medvl.answering.prediction import Prediction
from medvl.config.endpoint import EndpointProfile
from medvl.errors import ConfigError

if TYPE_CHECKING:  # the dataset is torch's, which asking an endpoint does not need
    from medvl.batching.dataset import Sample

KEEP_EVERY = 16
"""Answers that are handed to `keep` together."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An item that got no reply.

    Attributes:
        item_id: The item.
        reason: Short name of why: `timeout`, `http_503`, `refusal`, `empty`, `token_limit`, `not_json`, `budget`, ...
        detail: What happened, in words.
        attempts: Requests sent for it.
    """

    item_id: str
    reason: str
    detail: str
    attempts: int


class Done:
    """Collects what is finished.

    Args:
        progress: Called with the number of items done so far.
        keep: Called with finished answers, some at a time; never with items that failed.

    Attributes:
        predictions: Place in the order of the items -> its prediction.
        failures: Place -> its failure.
        spread: Place -> share of its answers that agree with the one taken, of items asked repeatedly.
    """

    def __init__(self, progress: Callable[[int], None] | None, keep: Callable[[list[Prediction]], None] | None) -> None:
        self.predictions: dict[int, Prediction] = {}
        self.failures: dict[int, Failure] = {}
        self.spread: dict[int, float] = {}
        self._progress, self._keep = progress, keep
        self._waiting: list[Prediction] = []

    def add(self, index: int, prediction: Prediction) -> None:
        """Book a finished item."""
        self.predictions[index] = prediction
        if not is_failed(prediction):
            self._waiting.append(prediction)
        if len(self._waiting) >= KEEP_EVERY:
            self.hand_over()
        if self._progress is not None:
            self._progress(len(self.predictions))

    def hand_over(self) -> None:
        """Give what has not been given yet to `keep`."""
        waiting, self._waiting = self._waiting, []
        if waiting and self._keep is not None:
            self._keep(waiting)


class _Asked(NamedTuple):
    """What came of asking an item once."""

    prediction: Prediction
    problem: Problem | None
    attempts: int


class Work:
    """The items that are left, for several workers that take one after the other.

    Args:
        samples: Questions with their pictures; read one by one, as they are needed.
        profile: The endpoint.
        sender: A connection to it.
        done: Where finished items go.
        repeats: How often each item is asked.
        may_leave: Sources whose pictures may be sent to another machine.

    Attributes:
        served_models: Names of the model as the server gave them.
    """

    def __init__(
        self,
        samples: Iterator[Sample],
        profile: EndpointProfile,
        sender: Sender,
        done: Done,
        repeats: int,
        may_leave: Collection[str],
    ) -> None:
        self._samples, self._profile, self._sender = samples, profile, sender
        self._done, self._repeats, self._may_leave = done, repeats, may_leave
        self._lock = asyncio.Lock()
        self._taken = 0
        self.served_models: set[str] = set()

    async def all_items(self) -> None:
        """Work until no item is left."""
        while await self.next_item():
            pass

    async def next_item(self) -> bool:
        """Do one item; False when none is left."""
        async with self._lock:
            index = self._taken
            taken = await asyncio.to_thread(self._take)  # reading pictures must not hold up replies
            if taken is None:
                return False
            self._taken += 1
        sample, body = taken
        asked = [await self._ask(sample, body)]
        while len(asked) < self._repeats and asked[-1].problem is not OUT_OF_BUDGET:
            asked.append(await self._ask(sample, body))
        chosen, share = majority([one.prediction for one in asked])
        if asked[-1].problem is OUT_OF_BUDGET:  # it has not been asked as often as the others
            chosen = len(asked) - 1
        prediction, problem = asked[chosen].prediction, asked[chosen].problem
        if problem is not None:
            attempts = sum(one.attempts for one in asked)
            self._done.failures[index] = Failure(prediction.item_id, problem.reason, problem.detail, attempts)
        elif self._repeats > 1:
            self._done.spread[index] = share
        self._done.add(index, replace(prediction, latency_s=sum(one.prediction.latency_s for one in asked)))
        return True

    async def _ask(self, sample: Sample, body: dict[str, Any] | None) -> _Asked:
        """Ask an item once."""
        item, start = sample.item, time.perf_counter()
        if body is None:
            return _Asked(failed(item, OUT_OF_BUDGET.reason, 0.0), OUT_OF_BUDGET, 0)
        outcome, attempts = await self._sender.ask(item.item_id, body, most_input_tokens(sample, self._profile))
        seconds = time.perf_counter() - start
        if isinstance(outcome, Problem):
            return _Asked(failed(item, outcome.reason, seconds), outcome, attempts)
        self.served_models.add(outcome.model)
        return _Asked(read_answer(item, outcome, seconds), None, attempts)

    def _take(self) -> tuple[Sample, dict[str, Any] | None] | None:
        """The next sample and its request; no request once the budget is spent."""
        sample = next(self._samples, None)
        if sample is None:
            return None
        if self._sender.is_out_of_budget:
            return sample, None
        source = (sample.shown or sample.item).source
        if sample.pixels is not None and not self._profile.is_local and source not in self._may_leave:
            raise ConfigError(
                [
                    f"{self._profile.name} is on another machine ({self._profile.base_url}), and pictures of {source} "
                    "may not leave this one (item "
                    f"{sample.item.item_id}): allow it for sources that may be passed on, or ask a local server"
                ]
            )
        return sample, request_body(sample, self._profile)
