"""Asks an endpoint all questions of a benchmark."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from medvl.answering.endpoint.budget import Ledger, Usage
from medvl.answering.endpoint.retry import Retry
from medvl.answering.endpoint.secrecy import read_key
from medvl.answering.endpoint.sender import Sender
from medvl.answering.endpoint.work import Done, Failure, Work
from medvl.answering.prediction import Prediction
from medvl.config.endpoint import EndpointProfile
from medvl.errors import ConfigError

if TYPE_CHECKING:  # the dataset is torch's, which asking an endpoint does not need
    from medvl.batching.dataset import Sample


@dataclass(frozen=True, slots=True)
class EndpointRun:
    """All answers of an endpoint.

    Attributes:
        predictions: One an item, in order. An item that failed has no answer and the rule `failed:REASON`.
        failures: Items that failed, in order.
        usage: Tokens and money.
        sampled: Whether replies were drawn at random; figures then differ from run to run.
        spread: Item id -> share of its answers that agree with the one taken; empty unless items were asked repeatedly.
        served_models: Names of the model as the server gave them. More than one: it was changed during the run.
    """

    predictions: list[Prediction]
    failures: list[Failure]
    usage: Usage
    sampled: bool
    spread: dict[str, float]
    served_models: tuple[str, ...]


def answer_samples(
    samples: Iterable[Sample],
    profile: EndpointProfile,
    *,
    repeats: int = 1,
    budget: float | None = None,
    may_leave: Collection[str] = (),
    retry: Retry | None = None,
    progress: Callable[[int], None] | None = None,
    keep: Callable[[list[Prediction]], None] | None = None,
) -> EndpointRun:
    """Ask an endpoint every question. Ctrl-C ends it; what was answered has been handed to `keep` by then.

    The first item is asked alone, so that a wrong key or setting costs one request. Inside a running event loop (a
    notebook), await `answer_samples_async` instead.

    Args:
        samples: Questions with their pictures; read as they are needed.
        profile: The endpoint.
        repeats: How often each item is asked. The answer given most often is taken, of several the first.
        budget: Most that the run may cost, in the currency of the prices; items beyond it fail with `budget`.
        may_leave: Sources whose pictures may be sent to another machine. A server on this machine needs none.
        retry: When a request is sent again; None takes the usual.
        progress: Called with the number of items done so far.
        keep: Called with finished answers, some at a time; never with items that failed.

    Raises:
        ConfigError: The key is missing, the budget lacks prices, `repeats` is below 1, or a picture may not leave.
        EndpointError: The endpoint refuses to be asked, or has stopped working.
    """
    return asyncio.run(
        answer_samples_async(
            samples,
            profile,
            repeats=repeats,
            budget=budget,
            may_leave=may_leave,
            retry=retry,
            progress=progress,
            keep=keep,
        )
    )


async def answer_samples_async(
    samples: Iterable[Sample],
    profile: EndpointProfile,
    *,
    repeats: int = 1,
    budget: float | None = None,
    may_leave: Collection[str] = (),
    retry: Retry | None = None,
    progress: Callable[[int], None] | None = None,
    keep: Callable[[list[Prediction]], None] | None = None,
) -> EndpointRun:
    """The same as `answer_samples`, to be awaited."""
    if repeats < 1:
        raise ConfigError([f"each item must be asked at least once, got repeats={repeats}"])
    ledger = Ledger(profile, budget)
    done = Done(progress, keep)
    async with Sender(profile, read_key(profile), ledger, retry or Retry()) as sender:
        work = Work(iter(samples), profile, sender, done, repeats, may_leave)
        trouble: BaseException | None = None
        try:
            if await work.next_item():
                async with asyncio.TaskGroup() as group:
                    for _ in range(profile.in_flight):
                        group.create_task(work.all_items())
        except BaseExceptionGroup as several:
            trouble = _first(several)
        finally:
            done.hand_over()
        if trouble is not None:
            raise trouble
    return EndpointRun(
        predictions=[prediction for _, prediction in sorted(done.predictions.items())],
        failures=[failure for _, failure in sorted(done.failures.items())],
        usage=ledger.usage,
        sampled=profile.is_sampled,
        spread={done.predictions[i].item_id: share for i, share in sorted(done.spread.items())},
        served_models=tuple(sorted(work.served_models)),
    )


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first of the errors that ended the tasks."""
    error: BaseException = several
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
