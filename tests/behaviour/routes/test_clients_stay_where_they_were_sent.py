"""Promise: through a whole update with stickiness each client changes sides once, and a weight is the part of the clients.

Every one of 256 session ids is asked of every proxy of the gateway at each step: where would it be sent?
"""

from __future__ import annotations

import asyncio

from rollouts.objects import Manifest
from rollouts.sim.network.route_table import PLAIN, WebRequest
from tests.behaviour.routed import Users, http_route, play_routed, routed, weight
from tests.behaviour.scenarios import MANUAL, STABLE_AND_CANARY
from tests.behaviour.stage import KEY, Stage

STEPS = (weight(5), MANUAL, weight(25), MANUAL, weight(60), MANUAL, weight(100), MANUAL)
CANARY = (KEY.namespace, "canary")
STICKY = {"stickiness": {"cookieName": "sid"}}


def world() -> tuple[Manifest, ...]:
    """Services, route, and a Rollout that tells clients apart."""
    manifest = routed(*STEPS)
    manifest["spec"]["strategy"]["canary"]["trafficRouting"] |= STICKY
    return (*STABLE_AND_CANARY, http_route(), manifest)


def on_canary(stage: Stage) -> set[str]:
    """Session ids that every proxy sends to the canary; the others it sends to stable."""
    found: set[str] = set()
    for number in range(256):
        request = WebRequest(headers=(("cookie", f"theme=dark; sid=9b1f{number:02x}; lang=en"),))
        shares = [proxy.service_shares(request).get(CANARY, 0) for proxy in stage.gateway.proxies]
        assert set(shares) in ({0}, {1}), "one client is sent here and there"
        found |= {f"{number:02x}"} if shares[0] else set()
    return found


def test_each_client_changes_sides_once() -> None:
    """5 → 25 → 60 → 100 %: those who are on the new revision stay there; without the cookie it is the stable one."""
    seen: list[set[str]] = []
    strangers: list[float] = []

    async def script(stage: Stage, _users: Users) -> None:
        stage.image("2")
        for step in (1, 3, 5, 7):
            await stage.until(lambda: stage.status["phase"] == "Paused" and stage.status["currentStepIndex"] == step)  # noqa: B023 - awaited at once
            seen.append(on_canary(stage))
            strangers.append(float(stage.gateway.proxies[0].service_shares(PLAIN).get(CANARY, 0)))
            stage.annotate("promote", f"{stage.status['currentRevision']}@{step}")
        await stage.until_phase("Healthy", "2")
        seen.append(on_canary(stage))

    outcome = play_routed(world(), script)

    assert [len(each) for each in seen] == [12, 64, 153, 256, 0]
    assert seen[0] < seen[1] < seen[2] < seen[3]
    assert strangers == [0, 0, 0, 1]
    assert outcome.users.causes == {}
    assert outcome.run.unexpected == []


def test_an_abort_and_a_retry_meet_the_same_clients() -> None:
    """Those who were on the new revision leave it at once, and come back when it is tried again; no others."""
    seen: list[set[str]] = []

    async def script(stage: Stage, _users: Users) -> None:
        await stage.update("2", "Paused")
        seen.append(on_canary(stage))
        await stage.order("abort", "true", "Aborted", "2")
        await asyncio.sleep(1.0)  # the routes follow what is on record
        seen.append(on_canary(stage))
        await stage.order("retry", "true", "Paused", "2")
        seen.append(on_canary(stage))

    outcome = play_routed(world(), script)

    assert seen[0] == seen[2]
    assert (len(seen[0]), len(seen[1])) == (12, 0)
    assert outcome.users.causes == {}
