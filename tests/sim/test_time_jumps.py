"""Promise: virtual time costs nothing, and ends what cannot end."""

from __future__ import annotations

import asyncio
import time

import pytest

from rollouts.sim.clock import EPOCH_S, Deadlock, SimClock, TimeLimitPassed, run_virtual


def test_an_hour_passes_at_once_and_timers_fire_in_the_order_of_their_times() -> None:
    """Pauses of a rollout must not be waited for in tests; jumping must not reorder what waiting would not."""
    fired: list[int] = []

    async def sleep_an_hour() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        for delay_s in (3, 1, 2):
            loop.call_later(delay_s, fired.append, delay_s)
        await asyncio.sleep(3_600)
        clock = SimClock(loop)
        return clock.now_s(), clock.monotonic_s()

    began_s = time.monotonic()
    now_s, monotonic_s = run_virtual(sleep_an_hour())

    assert time.monotonic() - began_s < 10
    assert monotonic_s == pytest.approx(3_600)
    assert now_s == pytest.approx(EPOCH_S + 3_600)
    assert fired == [1, 2, 3]


def test_a_wait_for_nothing_is_a_deadlock_at_once() -> None:
    """A test that waits for an event nobody will send must fail, not hang."""
    with pytest.raises(Deadlock):
        run_virtual(_forever())


def test_a_run_that_goes_on_for_ever_is_given_up() -> None:
    """Periodic timers keep a stuck run alive; the limit ends it."""

    async def tick() -> None:
        loop = asyncio.get_running_loop()

        def again() -> None:
            loop.call_later(60, again)

        again()
        await _forever()

    with pytest.raises(TimeLimitPassed):
        run_virtual(tick(), limit_s=600)


async def _forever() -> None:
    await asyncio.Event().wait()
