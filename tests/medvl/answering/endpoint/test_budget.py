import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medvl.answering.endpoint.budget import Ledger, Usage
from medvl.config.endpoint import EndpointProfile
from medvl.errors import ConfigError


def profile(**changes):
    facts = {"name": "lab", "base_url": "http://localhost/v1", "model": "m", "max_output_tokens": 10}
    return EndpointProfile(**{**facts, "input_price": 1e4, "output_price": 1e5, **changes})


# At these prices an input token costs .01 and an output token .1: a request of 100 and 10 tokens costs 2.


def test_what_was_billed_is_counted():
    async def run():
        ledger = Ledger(profile(), None)
        for billed in ((50, 3), (70, 1)):
            await ledger.settle(await ledger.hold(100), *billed)
        return ledger.usage

    assert asyncio.run(run()) == Usage(2, 120, 4, pytest.approx(1.2 + 0.4), 0)


def test_what_was_certainly_not_billed_costs_nothing():
    async def run():
        ledger = Ledger(profile(), None)
        await ledger.settle(await ledger.hold(100), None, None, may_cost=False)
        return ledger.usage

    assert asyncio.run(run()) == Usage(1, 0, 0, 0.0, 0)


def test_what_may_have_been_billed_counts_with_its_highest_cost():
    async def run():
        ledger = Ledger(profile(), None)
        await ledger.settle(await ledger.hold(100), None, None)
        return ledger.usage

    assert asyncio.run(run()) == Usage(1, 0, 0, pytest.approx(2.0), 1)


def test_without_prices_there_is_no_cost():
    async def run():
        ledger = Ledger(profile(input_price=None, output_price=None), None)
        await ledger.settle(await ledger.hold(100), 5, 5)
        return ledger.usage.cost

    assert asyncio.run(run()) is None


def test_a_budget_needs_prices_and_must_be_positive():
    with pytest.raises(ConfigError, match="needs the prices of lab"):
        Ledger(profile(input_price=None, output_price=None), 1.0)
    for budget in (0, -1, float("nan")):
        with pytest.raises(ConfigError, match="must be above 0"):
            Ledger(profile(), budget)


def test_a_request_that_does_not_fit_ends_the_run():
    async def run():
        ledger = Ledger(profile(), 3.0)
        await ledger.settle(await ledger.hold(100), 100, 10)
        refused = await ledger.hold(100)
        return refused, ledger.is_exhausted, await ledger.hold(1)

    assert asyncio.run(run()) == (None, True, None)


def test_a_request_waits_for_those_on_their_way():
    async def run():
        ledger = Ledger(profile(), 3.0)
        first = await ledger.hold(100)
        second = asyncio.create_task(ledger.hold(100))
        await asyncio.sleep(0)
        assert not second.done()
        await ledger.settle(first, 50, 1)
        return await asyncio.wait_for(second, 1)

    assert asyncio.run(run()).cost == pytest.approx(2.0)


def test_all_that_wait_are_refused_together():
    async def run():
        ledger = Ledger(profile(), 3.0)
        first = await ledger.hold(100)
        waiting = [asyncio.create_task(ledger.hold(100)) for _ in range(5)]
        await asyncio.sleep(0)
        await ledger.settle(first, 100, 10)
        return await asyncio.wait_for(asyncio.gather(*waiting), 1)

    assert asyncio.run(run()) == [None] * 5


def test_an_underestimate_raises_what_is_set_aside():
    async def run():
        ledger = Ledger(profile(), 100.0)
        await ledger.settle(await ledger.hold(100), 250, 1)
        return await ledger.hold(100)

    assert asyncio.run(run()).cost == pytest.approx(2.5 + 1.0)


@settings(max_examples=40)
@given(
    st.floats(0.5, 20),
    st.lists(st.tuples(st.integers(1, 200), st.floats(0, 1), st.floats(0, 1), st.booleans()), max_size=40),
)
def test_the_ceiling_holds_for_any_course(budget, requests):
    """As long as no request is billed for more than its upper bound."""

    async def run():
        ledger = Ledger(profile(), budget)

        async def one(most, share_in, share_out, told):
            hold = await ledger.hold(most)
            if hold is not None:
                await asyncio.sleep(0)
                billed = (int(most * share_in), int(10 * share_out)) if told else (None, None)
                await ledger.settle(hold, *billed)
            assert ledger.usage.cost <= budget + 1e-9

        await asyncio.wait_for(asyncio.gather(*(one(*request) for request in requests)), 5)

    asyncio.run(run())
