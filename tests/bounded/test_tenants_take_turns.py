"""Promise: a tenant with many calls, or with slow ones, delays another's call by one of them at most."""

from __future__ import annotations

import asyncio

import pytest

from rollouts.bounded.process import RESTS, Turns

pytestmark = pytest.mark.virtual_time

SLOW_S = 0.1


@pytest.fixture
async def order() -> Order:
    """No call yet."""
    return Order()


class Order:
    """Calls of tenants, and when each was over."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.turns = Turns(monotonic_s=loop.time)
        self.began_s = loop.time()
        self.over: list[tuple[str, float]] = []

    async def call(self, tenant: str, takes_s: float) -> None:
        """One call."""
        async with self.turns.turn(tenant):
            await asyncio.sleep(takes_s)
        self.over.append((tenant, round(asyncio.get_running_loop().time() - self.began_s, 3)))


async def test_another_tenant_waits_for_one_call_at_most(order: Order) -> None:
    """However many the first one has."""
    async with asyncio.TaskGroup() as calls:
        for _ in range(20):
            calls.create_task(order.call("many", SLOW_S))
        await asyncio.sleep(0.01)
        calls.create_task(order.call("one", 0.001))
    assert order.over[:2] == [("many", 0.1), ("one", 0.101)]


async def test_a_tenant_has_at_most_a_tenth_of_the_time(order: Order) -> None:
    """Else the others would have a core less, in a container with a limit of CPU too."""
    async with asyncio.TaskGroup() as calls:
        for _ in range(3):
            calls.create_task(order.call("slow", SLOW_S))
    ends_s = [end_s for _, end_s in order.over]
    assert ends_s == [0.1, pytest.approx(0.1 + (1 + RESTS) * SLOW_S), pytest.approx(0.1 + 2 * (1 + RESTS) * SLOW_S)]


async def test_a_turn_that_nobody_takes_is_the_next_ones(order: Order) -> None:
    """Callers are cancelled while they wait, and in the moment when their turn comes."""
    first = asyncio.create_task(order.call("a", SLOW_S))
    waiting = asyncio.create_task(order.call("b", SLOW_S))
    last = asyncio.create_task(order.call("c", SLOW_S))
    await asyncio.sleep(0.05)
    waiting.cancel()
    await first  # in this moment it is c's turn
    last.cancel()
    await asyncio.wait({waiting, last})
    await order.call("d", SLOW_S)
    assert [tenant for tenant, _ in order.over] == ["a", "d"]


async def test_a_call_that_fails_gives_its_turn_back(order: Order) -> None:
    """With its rest, too."""
    with pytest.raises(ZeroDivisionError):
        async with order.turns.turn("a"):
            raise ZeroDivisionError
    await order.call("a", SLOW_S)
    assert order.over == [("a", 0.1)]
