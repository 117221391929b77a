"""Promise: a tenant with many calls, or with slow ones, delays another's call by one of them at most."""

from __future__ import annotations

import asyncio

import pytest

from rollouts.bounded.turns import RESTS, Turns
from rollouts.sim.clock import run_virtual

SLOW_S = 0.1


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


def test_another_tenant_waits_for_one_call_at_most() -> None:
    """However many the first one has."""

    async def main() -> list[tuple[str, float]]:
        order = Order()
        async with asyncio.TaskGroup() as calls:
            for _ in range(20):
                calls.create_task(order.call("many", SLOW_S))
            await asyncio.sleep(0.01)
            calls.create_task(order.call("one", 0.001))
        return order.over

    assert run_virtual(main())[:2] == [("many", 0.1), ("one", 0.101)]


def test_a_tenant_has_at_most_a_tenth_of_the_time() -> None:
    """Else the others would have a core less, in a container with a limit of CPU too."""

    async def main() -> list[tuple[str, float]]:
        order = Order()
        async with asyncio.TaskGroup() as calls:
            for _ in range(3):
                calls.create_task(order.call("slow", SLOW_S))
        return order.over

    ends_s = [end_s for _, end_s in run_virtual(main())]
    assert ends_s == [0.1, pytest.approx(0.1 + (1 + RESTS) * SLOW_S), pytest.approx(0.1 + 2 * (1 + RESTS) * SLOW_S)]


def test_a_turn_that_nobody_takes_is_the_next_ones() -> None:
    """Callers are cancelled while they wait, and in the moment when their turn comes."""

    async def main() -> list[tuple[str, float]]:
        order = Order()
        first = asyncio.create_task(order.call("a", SLOW_S))
        waiting = asyncio.create_task(order.call("b", SLOW_S))
        last = asyncio.create_task(order.call("c", SLOW_S))
        await asyncio.sleep(0.05)
        waiting.cancel()
        await first  # in this moment it is c's turn
        last.cancel()
        await asyncio.wait({waiting, last})
        await order.call("d", SLOW_S)
        return order.over

    assert [tenant for tenant, _ in run_virtual(main())] == ["a", "d"]


def test_a_call_that_fails_gives_its_turn_back() -> None:
    """With its rest, too."""

    async def main() -> list[tuple[str, float]]:
        order = Order()
        with pytest.raises(ZeroDivisionError):
            async with order.turns.turn("a"):
                raise ZeroDivisionError
        await order.call("a", SLOW_S)
        return order.over

    assert run_virtual(main()) == [("a", 0.1)]
