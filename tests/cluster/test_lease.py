"""One leader writes, whatever happens to it: refusal, silence, a pause, a thief; and a standby takes over soon."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any

import pytest

from rollouts.cluster.lease import Elector
from rollouts.errors import ApiUnavailable, NotLeader, SettingsInvalid
from rollouts.ports import Request, Response
from rollouts.sim.clock import SimClock
from tests.cluster.stand_ins import NoServer

pytestmark = pytest.mark.virtual_time(limit_s=7200)


class LeaseServer(NoServer):
    """Keeps one Lease as the API server does; can refuse, swallow requests, or answer late."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.mode = "well"
        self.renewed_at_s = 0.0
        self.slow_answer = asyncio.Event()
        self.requests: list[str] = []

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        self.requests.append(request.method)
        if self.mode == "refuse":
            raise ApiUnavailable("refused")
        if self.mode == "black hole":
            await asyncio.sleep(deadline_s)
            raise ApiUnavailable("no answer")
        began_s = asyncio.get_running_loop().time()
        if self.mode == "say nonsense":
            return Response(200, b'{"metadata":{}}')
        answer = self._answer(request)
        if self.mode == "slow":
            await asyncio.sleep(4)
            self.renewed_at_s = began_s
            self.slow_answer.set()
        if self.mode == "lose answers":
            await asyncio.sleep(deadline_s)
            raise ApiUnavailable("the answer was lost")
        return answer

    def _answer(self, request: Request) -> Response:
        wanted = json.loads(request.body) if request.body else {}
        if request.method == "POST":
            return Response(409, b'{"reason":"AlreadyExists"}') if self.lease else self.store(wanted, 201)
        if self.lease is None:
            return Response(404, b'{"reason":"NotFound"}')
        if request.method == "PUT":
            if wanted["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
                return Response(409, b'{"reason":"Conflict"}')
            return self.store(wanted, 200)
        return Response(200, json.dumps(self.lease).encode())

    def store(self, lease: dict[str, Any], status: int = 200) -> Response:
        self.version += 1
        lease["metadata"]["resourceVersion"] = str(self.version)
        self.lease = lease
        return Response(status, json.dumps(lease).encode())

    @property
    def holder(self) -> str:
        assert self.lease is not None
        return str(self.lease["spec"]["holderIdentity"])


class PausableClock(SimClock):
    """A clock that a test moves ahead, as if the process had been stopped, and whose wall clock may be wrong."""

    paused_s = 0.0
    wall_error_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.paused_s

    def now_s(self) -> float:
        return super().now_s() + self.wall_error_s


class Candidate:
    """A process that takes part: its clock, its elector, and the work it does while it leads."""

    def __init__(self, server: LeaseServer, identity: str) -> None:
        self.clock = PausableClock(asyncio.get_running_loop())
        self.elector = Elector(server, namespace="shop", name="rollouts", identity=identity, clock=self.clock)
        self.stubborn = False
        self.began_s: float | None = None
        self.ended_s: float | None = None
        self.run = asyncio.ensure_future(self.elector.run(self.lead))

    async def lead(self) -> None:
        loop = asyncio.get_running_loop()
        self.began_s = loop.time()
        try:
            await asyncio.sleep(1e6)
        finally:
            self.ended_s = loop.time()
            if self.stubborn:
                await asyncio.sleep(60)

    async def stop(self) -> None:
        self.run.cancel()
        await asyncio.wait({self.run})


@pytest.fixture
async def server() -> LeaseServer:
    return LeaseServer()


@pytest.fixture
async def one(server: LeaseServer) -> AsyncIterator[Candidate]:
    candidate = Candidate(server, "one")
    yield candidate
    await candidate.stop()


async def test_one_candidate_leads_and_the_other_waits(server: LeaseServer, one: Candidate) -> None:
    """Two controllers started at once: one acts."""
    two = Candidate(server, "two")
    await asyncio.sleep(60)
    assert sorted((one.elector.holds(), two.elector.holds())) == [False, True]
    assert (one.began_s is None) != (two.began_s is None)
    await two.stop()


@pytest.mark.usefixtures("one")
async def test_a_renewal_is_one_request(server: LeaseServer) -> None:
    """An idle controller asks for nothing but its Lease: a write every two seconds and no read."""
    await asyncio.sleep(5)
    server.requests.clear()
    await asyncio.sleep(30)
    assert set(server.requests) == {"PUT"}
    assert 14 <= len(server.requests) <= 16


async def test_a_leader_that_stops_in_order_hands_over_at_once(server: LeaseServer, one: Candidate) -> None:
    """A rolling update of the controller must not cost 15 s without anybody leading."""
    await asyncio.sleep(1)
    two = Candidate(server, "two")
    await asyncio.sleep(5)
    await one.stop()
    assert one.run.cancelled()
    assert one.ended_s is not None
    assert server.holder == ""
    stopped_s = asyncio.get_running_loop().time()
    await asyncio.sleep(3)
    assert two.began_s is not None
    assert two.began_s - stopped_s < 2.5
    await two.stop()


@pytest.mark.parametrize("mode", ["refuse", "black hole", "lose answers", "say nonsense"])
async def test_a_leader_that_cannot_renew_stops_before_another_may_begin(
    mode: str, server: LeaseServer, one: Candidate
) -> None:
    """The fence closes 10 s after the start of the last good renewal; others wait 15 s."""
    await asyncio.sleep(7)
    server.mode = mode
    broken_s = asyncio.get_running_loop().time()
    await asyncio.wait_for(one.run, 30)
    assert one.ended_s is not None
    assert 7.5 <= one.ended_s - broken_s <= 10.0
    assert not one.elector.holds()


async def test_the_fence_counts_from_before_a_renewal_was_sent(server: LeaseServer, one: Candidate) -> None:
    """Others saw the renewal when the server had it, not when its slow answer came to us."""
    await asyncio.sleep(3)
    server.mode = "slow"
    await server.slow_answer.wait()
    server.mode = "refuse"
    await asyncio.wait_for(one.run, 30)
    assert one.ended_s is not None
    assert one.ended_s - server.renewed_at_s <= 10.0


async def test_a_short_outage_costs_no_leadership(server: LeaseServer, one: Candidate) -> None:
    """The API server restarts in a few seconds; the work goes on."""
    await asyncio.sleep(7)
    server.mode = "lose answers"
    await asyncio.sleep(6)
    server.mode = "well"
    await asyncio.sleep(60)
    assert one.elector.holds()
    assert one.ended_s is None


async def test_a_standby_takes_over_when_the_leader_is_dead(server: LeaseServer, one: Candidate) -> None:
    """Counted on the standby's own clock from when it last saw a renewal."""
    await asyncio.sleep(1)
    two = Candidate(server, "two")
    two.clock.wall_error_s = -86_400.0  # nobody's wall clock matters
    await asyncio.sleep(20)
    one.run.cancel()
    server.mode = "refuse"  # so that the dead leader gives nothing back
    await asyncio.wait({one.run})
    server.mode = "well"
    died_s = asyncio.get_running_loop().time()
    await asyncio.sleep(30)
    assert two.began_s is not None
    assert 12 <= two.began_s - died_s <= 18
    assert server.lease is not None
    assert server.lease["spec"]["leaseTransitions"] == 1
    await two.stop()


async def test_a_leader_that_was_paused_past_its_lease_finds_the_fence_closed(
    server: LeaseServer, one: Candidate
) -> None:
    """SIGSTOP, then SIGCONT: the first thing that it may try is a write, before any timer has fired."""
    await asyncio.sleep(5)
    assert one.elector.holds()
    one.clock.paused_s = 20.0
    assert not one.elector.holds()
    await asyncio.wait_for(one.run, 5)
    assert one.ended_s is not None
    assert server.holder == "one"  # to give back what is not held would be a write behind the fence


async def test_a_stolen_lease_ends_the_work_within_a_renewal(server: LeaseServer, one: Candidate) -> None:
    """Somebody edited the Lease: whoever it names leads now."""
    await asyncio.sleep(5)
    assert server.lease is not None
    server.store(server.lease | {"spec": server.lease["spec"] | {"holderIdentity": "thief"}})
    await asyncio.wait_for(one.run, 3)
    assert not one.elector.holds()
    assert server.holder == "thief"


async def test_an_edit_of_somebody_elses_is_kept_and_costs_nothing(server: LeaseServer, one: Candidate) -> None:
    """An annotation changes the resourceVersion; the next renewal looks again and goes on."""
    await asyncio.sleep(5)
    assert server.lease is not None
    server.store(server.lease | {"metadata": server.lease["metadata"] | {"annotations": {"a": "b"}}})
    await asyncio.sleep(30)
    assert one.elector.holds()
    assert server.lease["metadata"]["annotations"] == {"a": "b"}


async def test_a_deleted_lease_is_made_again(server: LeaseServer, one: Candidate) -> None:
    """Nobody else has it, so the leader goes on."""
    await asyncio.sleep(5)
    server.lease = None
    await asyncio.sleep(5)
    assert one.elector.holds()
    assert server.holder == "one"


async def test_work_that_will_not_end_is_reported(server: LeaseServer, one: Candidate) -> None:
    """The process must then exit: the fence is closed, but requests on their way are not."""
    one.stubborn = True
    await asyncio.sleep(5)
    server.mode = "refuse"
    with pytest.raises(NotLeader, match="exit at once"):
        await one.run
    await asyncio.sleep(120)


async def test_work_that_fails_ends_the_run_with_its_error_and_frees_the_lease(server: LeaseServer) -> None:
    """A bug must crash the process, and the standby need not wait for it."""
    clock = SimClock(asyncio.get_running_loop())
    elector = Elector(server, namespace="shop", name="rollouts", identity="one", clock=clock)

    async def lead() -> None:
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        await elector.run(lead)
    assert server.holder == ""


@pytest.mark.usefixtures("one")
async def test_times_in_the_lease_are_utc_with_microseconds(server: LeaseServer) -> None:
    """`kubectl describe lease` shows them; local time written as Z would be hours off."""
    await asyncio.sleep(0.5)
    assert server.lease is not None
    assert server.lease["spec"]["renewTime"] == "2026-01-01T00:00:00.000000Z"
    assert server.lease["spec"]["leaseDurationSeconds"] == 15


def test_numbers_that_leave_no_room_are_refused() -> None:
    """A renew deadline as long as the lease lets two lead at once."""
    named: dict[str, Any] = {"namespace": "shop", "name": "rollouts", "identity": "one"}
    with closing(asyncio.new_event_loop()) as loop, pytest.raises(SettingsInvalid, match="must increase"):
        Elector(LeaseServer(), clock=PausableClock(loop), lease_duration_s=10, renew_deadline_s=10, **named)
