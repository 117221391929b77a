"""Promise: while the API server refuses our token, all that tells of the controller says so; a new token ends it in seconds."""

from __future__ import annotations

import asyncio
import json

from rollouts.clock import SystemClock
from rollouts.cluster.sign_in import SignIn
from rollouts.controller.health.readiness import Readiness
from rollouts.controller.workqueue.standing_watches import new_store
from rollouts.objects import ROLLOUT
from rollouts.ports import ApiServer, Request, Response, WatchStream
from rollouts.sim.cluster import SimulatedCluster
from tests.controller.test_the_process_outlives_what_objects_hold import (
    Refused,
    Running,
    healthy,
    play,
    rollout,
    service,
)

UNAUTHORIZED = json.dumps({"kind": "Status", "code": 401, "reason": "Unauthorized", "message": "Unauthorized"}).encode()


class Stranger(Refused):
    """A watch that is refused."""

    status = 401

    async def readline(self) -> bytes:
        return UNAUTHORIZED


class Token:
    """An API server that refuses every request while the token is dead. Watches that are open stay open, as with the real one."""

    def __init__(self, api: ApiServer) -> None:
        self.api = api
        self.dead = False
        self.refused = 0

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        self.refused += self.dead
        return Response(401, UNAUTHORIZED) if self.dead else await self.api.request(request, deadline_s=deadline_s)

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> WatchStream:
        self.refused += self.dead
        if self.dead:
            return Stranger()
        return await self.api.open_watch(request, deadline_s=deadline_s, silence_s=silence_s)

    async def aclose(self) -> None:
        """The cluster closes its own."""


def test_a_token_that_was_dead_at_the_start_is_replaced_and_the_rollout_goes_on_in_seconds() -> None:
    """It had taken up to a minute: the refusal counted as a missing right, and the watches' pauses grew to that."""

    async def scenario(cluster: SimulatedCluster) -> None:
        api = Token(cluster.api)
        api.dead = True
        cluster.apply(service("cart"))
        cluster.apply(rollout("cart"))
        running = Running(cluster, api)
        await asyncio.sleep(600)
        assert api.refused < 600 * 10, "each watch asks every four seconds or more"

        api.dead = False
        await cluster.until(
            lambda found: found is not None and healthy(found.get("status") or {}),
            kind=ROLLOUT, namespace="default", name="cart", deadline_s=20,
        )  # fmt: skip
        await running.stopped()

    play(scenario)


def test_a_change_during_an_outage_is_carried_out_right_after_it() -> None:
    """Its pass fails again and again, and must not wait for the end of its back-off."""

    async def scenario(cluster: SimulatedCluster) -> None:
        api = Token(cluster.api)
        cluster.apply(service("cart"))
        cluster.apply(rollout("cart"))
        running = Running(cluster, api)

        def is_done(generation: int) -> object:
            def done(found: object) -> bool:
                status = (found or {}).get("status", {})  # type: ignore[attr-defined]
                return bool(healthy(status) and status.get("observedGeneration") == generation)

            return done

        await cluster.until(is_done(1), kind=ROLLOUT, namespace="default", name="cart", deadline_s=60)  # type: ignore[arg-type]
        api.dead = True
        cluster.apply(rollout("cart", image="app:2"))
        await asyncio.sleep(100)
        told = running.telemetry[0].exposition().decode()
        assert "rollouts_credentials_refused 1.0" in told
        assert 'rollouts_api_requests_total{code="401"' in told

        api.dead = False
        await cluster.until(is_done(2), kind=ROLLOUT, namespace="default", name="cart", deadline_s=20)  # type: ignore[arg-type]
        assert "rollouts_credentials_refused 0.0" in running.telemetry[0].exposition().decode()
        await running.stopped()

    play(scenario)


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
