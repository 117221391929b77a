"""Promise: who has lost the lease, in whatever way, does not write any more, and the other one does the rest.

The old leader's lease ends, for itself, 10 s after the start of its last renewal; others take over 15 s after they saw it.
"""

from __future__ import annotations

import asyncio

import pytest

from rollouts.controller.wiring import EXIT_LEASE_LOST
from rollouts.ports import ApiServer, Clock, Request, Response
from rollouts.settings import Settings
from rollouts.sim.clock import run_virtual
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.faults import is_rollout_write
from tests.behaviour.scenarios import HALF, SCENARIOS, canary, played, rollout
from tests.behaviour.stage import Stage, crds
from tests.cluster.stand_ins import PassesOn

LEASE_S = 10.0
TAKEOVER_S = 22.0  # 15 s, the standby's 2 s between looks with jitter, and the look itself
OLD, NEW = (Settings(leader_elect=True, identity=name) for name in ("old", "new"))


class HungLease(PassesOn):
    """Leaves requests about the Lease unanswered from `since_s` on."""

    def __init__(self, api: ApiServer, *, since_s: float) -> None:
        super().__init__(api)
        self._since_s = since_s

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        if "/leases" in request.path and asyncio.get_running_loop().time() >= self._since_s:
            await asyncio.Event().wait()
        return await super().request(request, deadline_s=deadline_s)


class JumpingClock:
    """A clock that can be set forward: what a process sees that was stopped in between."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.ahead_s = 0.0

    def now_s(self) -> float:
        return self._clock.now_s() + self.ahead_s

    def monotonic_s(self) -> float:
        return self._clock.monotonic_s() + self.ahead_s


class StallAfter(PassesOn):
    """Sets the clock forward as the answer to write `number` arrives."""

    def __init__(self, api: ApiServer, clock: JumpingClock, *, number: int, stall_s: float) -> None:
        super().__init__(api)
        self._clock = clock
        self._left = number
        self._stall_s = stall_s
        self.writes_after = 0

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        if self._clock.ahead_s and request.method != "GET" and "/leases" not in request.path:
            self.writes_after += 1
        response = await super().request(request, deadline_s=deadline_s)
        if is_rollout_write(request):
            if self._left == 0:
                self._clock.ahead_s = self._stall_s
            self._left -= 1
        return response


async def work_for_ever(stage: Stage) -> None:
    """Somebody scales all the time, so that a leader always has something to write."""
    replicas = 2
    while True:
        await asyncio.sleep(0.5)
        replicas = 5 - replicas
        stage.edit({"spec": {"replicas": replicas}})


@pytest.mark.parametrize("hung_from_s", (3.0, 6.1))
def test_a_leader_whose_renewals_hang_stops_within_its_lease(hung_from_s: float) -> None:
    """Its other requests still get through, and there is work at all times: only the fence holds it back."""

    async def main() -> None:
        async with SimulatedCluster(seed=1, crds=crds()) as cluster:
            stage = Stage(cluster, grace_s=LEASE_S)
            door = stage.witness.door
            old = asyncio.create_task(stage.control(HungLease(door("old"), since_s=hung_from_s), seed=1, settings=OLD))
            await asyncio.sleep(0.5)
            new = asyncio.create_task(stage.control(door("new"), seed=2, settings=NEW))
            cluster.apply(rollout(canary(HALF)))
            work = asyncio.create_task(work_for_ever(stage))
            await asyncio.sleep(hung_from_s + LEASE_S + TAKEOVER_S)
            work.cancel()

            arrivals = stage.witness.arrivals
            renewed_s = max(each.at_s for each in arrivals if each.sender == "old" and "leases" in each.what)
            by_old, by_new = (
                [each.at_s for each in arrivals if each.is_rollout_write and each.sender == who]
                for who in ("old", "new")
            )
            # It is the lease that ended its writing, not a lack of work.
            assert renewed_s + LEASE_S - 1.5 < max(by_old) <= renewed_s + LEASE_S
            assert min(by_new) > max(by_old)
            assert await old == EXIT_LEASE_LOST
            stage.stop()
            await new

    run_virtual(main(), limit_s=600)


SCENARIO = "canary-with-services-by-time"


def test_a_leader_that_was_stopped_past_its_lease_writes_nothing_after() -> None:
    """SIGSTOP, a frozen machine, a blocked loop: it wakes up in the middle of a pass, and its next write is held back."""
    for place in range(played(SCENARIO).faultable):
        stopped_after(place)


def stopped_after(place: int) -> None:
    """An update whose first leader is stopped as the answer to its write number `place` arrives."""

    async def main() -> None:
        async with SimulatedCluster(seed=1, crds=crds()) as cluster:
            stage = Stage(cluster)
            clock = JumpingClock(cluster.clock)
            stalled = StallAfter(stage.witness.door("old"), clock, number=place, stall_s=LEASE_S)
            old = asyncio.create_task(stage.control(stalled, seed=1, settings=OLD, clock=clock))
            await asyncio.sleep(0.5)
            new = asyncio.create_task(stage.control(stage.witness.door("new"), seed=2, settings=NEW))
            scenario = SCENARIOS[SCENARIO]
            for manifest in scenario.manifests:
                cluster.apply(manifest)
            await scenario.script(stage)
            assert stalled.writes_after == 0, place
            await stage.until_quiet()
            assert await old == EXIT_LEASE_LOST
            stage.stop()
            await new

            assert stage.witness.violations == []
            end = stage.end_state()
            assert {tag: size for tag, size, *_ in end["replicaSets"].values()} == scenario.sizes

    run_virtual(main(), limit_s=600)
