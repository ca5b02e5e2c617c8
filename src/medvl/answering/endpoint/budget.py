"""Counts tokens and money. With a ceiling, a request leaves only when even its highest cost still fits."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from medvl.config.endpoint import EndpointProfile
from medvl.errors import ConfigError

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Usage:
    """What a run used.

    Attributes:
        requests: Requests sent, failed ones included.
        input_tokens: Input tokens, as far as the server told.
        output_tokens: Output tokens, thoughts included, as far as the server told.
        cost: In the currency of the prices; None when no prices are known.
        estimated_requests: Requests whose tokens the server did not tell though it may have billed them (a timeout,
            say). They are in `cost` with their highest cost.
    """

    requests: int
    input_tokens: int
    output_tokens: int
    cost: float | None
    estimated_requests: int


@dataclass(frozen=True, slots=True)
class Hold:
    """Money set aside for one request that is on its way.

    Attributes:
        input_tokens: Expected input tokens at most.
        cost: Highest cost.
    """

    input_tokens: float
    cost: float


class Ledger:
    """Usage so far, and the ceiling on it.

    Args:
        profile: Gives prices and token limits.
        budget: Most that a run may cost; None for no ceiling.

    Raises:
        ConfigError: A ceiling without prices, or one that is not above 0.
    """

    def __init__(self, profile: EndpointProfile, budget: float | None) -> None:
        self._input_price, self._output_price = profile.input_price, profile.output_price
        if budget is not None and self._input_price is None:
            raise ConfigError(
                [f"a budget needs the prices of {profile.name}: set its input_price and output_price (per million)"]
            )
        if budget is not None and not budget > 0:
            raise ConfigError([f"a budget must be above 0, got {budget}"])
        self._budget = budget
        self._output_tokens = profile.max_output_tokens
        self._spent = self._held = 0.0
        self._on_their_way = 0
        self._underestimate = 1.0
        """Largest ratio of billed to expected input tokens seen so far."""
        self._changed = asyncio.Condition()
        self._usage = dict.fromkeys(("requests", "input_tokens", "output_tokens", "estimated_requests"), 0)
        self.is_exhausted = False
        """True once a request did not fit; nothing is sent from then on."""

    def _cost(self, input_tokens: float, output_tokens: float) -> float:
        prices = (self._input_price or 0.0, self._output_price or 0.0)
        return (input_tokens * prices[0] + output_tokens * prices[1]) / MILLION

    async def hold(self, most_input_tokens: int) -> Hold | None:
        """Set money aside for a request; waits while others on their way may turn out cheaper.

        Args:
            most_input_tokens: Upper bound of its input tokens.

        Returns:
            What `settle` takes; None when the budget does not hold the request.
        """
        async with self._changed:
            while not self.is_exhausted:
                expected = most_input_tokens * self._underestimate
                hold = Hold(most_input_tokens, self._cost(expected, self._output_tokens))
                if self._budget is None or self._spent + self._held + hold.cost <= self._budget:
                    self._held += hold.cost
                    self._on_their_way += 1
                    return hold
                if not self._on_their_way:
                    self.is_exhausted = True
                else:
                    await self._changed.wait()
            self._changed.notify_all()
            return None

    async def settle(
        self, hold: Hold, input_tokens: int | None, output_tokens: int | None, *, may_cost: bool = True
    ) -> None:
        """Book what a request cost in the end.

        Args:
            hold: What was set aside for it.
            input_tokens: As billed; None when not known.
            output_tokens: As billed; None when not known.
            may_cost: False for a request that was certainly not billed.
        """
        async with self._changed:
            self._usage["requests"] += 1
            if input_tokens is not None and output_tokens is not None:
                self._usage["input_tokens"] += input_tokens
                self._usage["output_tokens"] += output_tokens
                self._spent += self._cost(input_tokens, output_tokens)
                self._underestimate = max(self._underestimate, input_tokens / hold.input_tokens)
            elif may_cost:
                self._usage["estimated_requests"] += 1
                self._spent += hold.cost
            self._on_their_way -= 1
            self._held = self._held - hold.cost if self._on_their_way else 0.0
            self._changed.notify_all()

    @property
    def usage(self) -> Usage:
        """Usage so far."""
        return Usage(**self._usage, cost=None if self._input_price is None else self._spent)
