"""Promise: virtual time costs nothing, ends what cannot end, and the same seed is the same run."""

from __future__ import annotations

import asyncio
import time

import pytest

from rollouts.objects import ENDPOINT_SLICE, POD, REPLICA_SET
from rollouts.sim.clock import EPOCH_S, Deadlock, SimClock, TimeLimitPassed, run_virtual
from rollouts.sim.cluster import SimulatedCluster
from tests.sim.manifests import replica_set, service


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


def _history(seed: int) -> list[tuple[str, str, int]]:
    async def run() -> list[tuple[str, str, int]]:
        async with SimulatedCluster(seed=seed) as cluster:
            cluster.apply(service("web"))
            cluster.apply(replica_set("web", replicas=5))
            await asyncio.sleep(3)
            cluster.apply(replica_set("web", replicas=2))
            await asyncio.sleep(60)
            kinds = (POD, REPLICA_SET, ENDPOINT_SLICE)
            return [
                (change.event, change.new.raw().decode(), change.new.version)
                for kind in kinds
                for change in cluster.api.history.since(kind, 0) or ()
            ]

    return run_virtual(run())


def test_the_same_seed_is_the_same_run_to_the_byte() -> None:
    """A failure found by chance can be looked at again."""
    assert _history(7) == _history(7)
    assert _history(7) != _history(8)


async def _forever() -> None:
    await asyncio.Event().wait()
