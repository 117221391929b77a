"""Promise: while the API server refuses our token, all that tells of the controller says so; a new token ends it in seconds."""

from __future__ import annotations

import asyncio

import pytest

from rollouts.clock import SystemClock
from rollouts.cluster.sign_in import SignIn
from rollouts.controller.health.readiness import Readiness
from rollouts.controller.workqueue.standing_watches import new_store
from rollouts.errors import ApiUnavailable
from rollouts.objects import ROLLOUT
from rollouts.ports import ApiServer, Request, Response, WatchStream
from rollouts.sim.cluster import SimulatedCluster
from tests.controller.door import Door, refusal
from tests.controller.test_the_process_outlives_what_objects_hold import Running, healthy, rollout, served, until


class Token(Door):
    """An API server that refuses every request while the token is dead. Watches that are open stay open, as with the real one."""

    def __init__(self, api: ApiServer) -> None:
        refused = refusal(401, "Unauthorized", "Unauthorized")
        super().__init__(api, lambda _request: refused if self.dead else None)
        self.dead = False


async def test_requests_and_watches_keep_their_patience_on_the_way() -> None:
    """Without its limit of silence a watch whose connection is dead would never end."""
    asked: list[object] = []

    class Nobody(ApiServer):
        async def request(self, request: Request, *, deadline_s: float) -> Response:
            asked.append((request, deadline_s))
            raise ApiUnavailable("nobody")

        async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> WatchStream:
            asked.append((request, deadline_s, silence_s))
            raise ApiUnavailable("nobody")

        async def aclose(self) -> None:
            asked.append("closed")

    api, get = SignIn(SystemClock()).through(Nobody()), Request("GET", "/version")
    with pytest.raises(ApiUnavailable):
        await api.request(get, deadline_s=3)
    with pytest.raises(ApiUnavailable):
        await api.open_watch(get, deadline_s=3, silence_s=45)
    await api.aclose()

    assert asked == [(get, 3), (get, 3, 45), "closed"]


@pytest.mark.virtual_time
async def test_a_token_that_was_dead_at_the_start_is_replaced_in_seconds(cluster: SimulatedCluster) -> None:
    """It had taken up to a minute: the refusal counted as a missing right, and the watches' pauses grew to that."""
    api = Token(cluster.api)
    api.dead = True
    served(cluster, "cart")
    running = Running(cluster, api)
    await asyncio.sleep(600)
    assert len(api.asked) < 600 * 10, "each watch asks every four seconds or more"

    api.dead = False
    began_s = cluster.clock.monotonic_s()
    await until(cluster, "cart", healthy)
    assert cluster.clock.monotonic_s() - began_s < 20
    await running.stopped()


@pytest.mark.virtual_time
async def test_a_change_during_an_outage_is_carried_out_right_after_it(cluster: SimulatedCluster) -> None:
    """Its pass fails again and again, and must not wait for the end of its back-off."""
    api = Token(cluster.api)
    served(cluster, "cart")
    running = Running(cluster, api)

    await until(cluster, "cart", healthy)
    api.dead = True
    cluster.apply(rollout("cart", image="app:2"))
    await asyncio.sleep(100)
    told = running.telemetry[0].exposition().decode()
    assert "rollouts_credentials_refused 1.0" in told
    assert 'rollouts_api_requests_total{code="401"' in told

    api.dead = False
    began_s = cluster.clock.monotonic_s()
    await until(cluster, "cart", lambda status: healthy(status) and status["observedGeneration"] == 2)
    assert cluster.clock.monotonic_s() - began_s < 20
    assert "rollouts_credentials_refused 0.0" in running.telemetry[0].exposition().decode()
    await running.stopped()


def test_readiness_says_at_once_that_the_token_is_refused() -> None:
    """`/readyz` was 200 during the outage: the watches were still open, while each write was refused."""
    clock = SystemClock()
    sign_in, woken = SignIn(clock), []
    readiness = Readiness(new_store(clock, ("",)), sign_in=sign_in, wake_all=lambda: woken.append(1))
    path = ROLLOUT.path("default")

    sign_in.answered(path, 401)
    sign_in.answered(path, 401)
    assert "(401)" in readiness.why_not() and "token file" in readiness.why_not()
    assert woken == []

    sign_in.answered("/apis/metrics.k8s.io/v1beta1/pods", 200)  # another server's answer says nothing of this one
    assert sign_in.refused
    sign_in.answered(path, 403)
    assert "401" not in readiness.why_not()
    assert woken == [1]
    sign_in.answered("/apis/external.metrics.k8s.io/v1beta1/x", 401)
    assert not sign_in.refused
