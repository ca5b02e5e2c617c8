"""Sends requests: as often as it takes, no more than pays, and without giving away the key."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any, Self

import httpx

from medvl.answering.endpoint.budget import Ledger
from medvl.answering.endpoint.problem import EndpointError, Problem, endpoint_error
from medvl.answering.endpoint.reply import Reply, read_response
from medvl.answering.endpoint.retry import Retry
from medvl.answering.endpoint.secrecy import Key, Signing, without_wire_log
from medvl.config.endpoint import EndpointProfile

CONNECT_TIMEOUT_S = 10.0

GIVE_UP_AFTER = 20
"""Items in a row that fail for want of a working server or of a reply; the run then ends instead of paying for more."""

WITHOUT_REPLY = ("empty", "token_limit")
"""Reasons that, item after item, mean wrong settings. Refusals do not: they are what a model says."""

OUT_OF_BUDGET = Problem("budget", "the budget does not hold another request")


class Sender:
    """A connection to an endpoint, to be used as an asynchronous context.

    Args:
        profile: The endpoint.
        key: Its key.
        ledger: Counts tokens and money.
        retry: When a request is sent again.
    """

    def __init__(self, profile: EndpointProfile, key: Key, ledger: Ledger, retry: Retry) -> None:
        self._profile, self._key, self._ledger, self._retry = profile, key, ledger, retry
        self._accepts = False
        """Whether a request was accepted so far; before that, a refusal is about the settings and not about an item."""
        self._failed_in_a_row = 0
        self._stack = AsyncExitStack()
        self._client = httpx.AsyncClient(
            auth=Signing(key),
            timeout=httpx.Timeout(profile.timeout_s, connect=min(CONNECT_TIMEOUT_S, profile.timeout_s)),
            limits=httpx.Limits(max_connections=profile.in_flight),
            trust_env=not profile.is_local,  # a proxy would take what is meant for this machine off it
            follow_redirects=False,  # or key and pictures would go where nobody said
        )

    async def __aenter__(self) -> Self:
        self._stack.enter_context(without_wire_log())
        await self._stack.enter_async_context(self._client)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    @property
    def is_out_of_budget(self) -> bool:
        """Whether nothing more is sent."""
        return self._ledger.is_exhausted

    async def ask(self, item_id: str, body: dict[str, Any], most_input_tokens: int) -> tuple[Reply | Problem, int]:
        """Ask one question.

        Args:
            item_id: Item, for messages.
            body: Request.
            most_input_tokens: Upper bound of its input tokens.

        Returns:
            The reply, or the last problem; and the number of requests sent.

        Raises:
            EndpointError: Asking on is of no use: every request would meet this problem, or the server refuses the
                very first one, or has stopped working.
        """
        content, sent = json.dumps(body).encode(), 0
        while True:
            hold = await self._ledger.hold(most_input_tokens)
            if hold is None:
                return OUT_OF_BUDGET, sent
            outcome = await self._post(content)
            sent += 1
            may_cost = isinstance(outcome, Reply) or outcome.may_cost
            await self._ledger.settle(hold, outcome.input_tokens, outcome.output_tokens, may_cost=may_cost)
            if isinstance(outcome, Reply):
                self._accepts, self._failed_in_a_row = True, 0
                return outcome, sent
            wait_s = self._retry.wait_s(sent, outcome.asked_wait_s) if outcome.is_passing else None
            if wait_s is None:
                self._check(outcome, item_id)
                return outcome, sent
            await asyncio.sleep(wait_s)

    def _check(self, problem: Problem, item_id: str) -> None:
        """Raise where the problem is not one of this item only."""
        self._accepts |= problem.status == 200 and not problem.is_passing
        refused = problem.status is not None and 400 <= problem.status < 500 and not problem.is_passing
        never_worked = (refused or problem.reason == "unreachable") and not self._accepts
        if problem.is_general or (never_worked and problem.reason != "refusal"):
            raise endpoint_error(problem, self._profile, item_id)
        is_in_vain = problem.is_passing or problem.reason in WITHOUT_REPLY
        self._failed_in_a_row = self._failed_in_a_row + 1 if is_in_vain else 0
        if self._failed_in_a_row >= GIVE_UP_AFTER:
            raise EndpointError(
                f"{self._profile.name} at {self._profile.url}: {GIVE_UP_AFTER} items in a row got no reply, lastly "
                f"{item_id}: {problem.detail}. Correct what it names, wait until the server works again, or lower "
                "in_flight; the same command goes on from the answers kept so far"
            )

    async def _post(self, content: bytes) -> Reply | Problem:
        """Send one request. Errors of the network become values here: chained, they would carry the request along."""
        try:
            async with asyncio.timeout(self._profile.timeout_s):  # httpx has limits for each step only
                response = await self._client.post(
                    self._profile.url, content=content, headers={"Content-Type": "application/json"}
                )
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
            return Problem("unreachable", self._words(error), is_passing=True)
        except (httpx.TimeoutException, TimeoutError):
            detail = f"no whole reply within {self._profile.timeout_s:g} s"
            return Problem("timeout", detail, is_passing=True, may_cost=True)
        except httpx.HTTPError as error:
            return Problem("broken_connection", self._words(error), is_passing=True, may_cost=True)
        return read_response(response.status_code, response.headers, response.text, self._key)

    def _words(self, error: Exception) -> str:
        words = self._key.excerpt(str(error))
        return f"{type(error).__name__} ({words})" if words else type(error).__name__
