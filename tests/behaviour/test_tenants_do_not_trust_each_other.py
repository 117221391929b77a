"""Promise: nothing in another namespace changes what becomes of a Rollout, and nobody there makes the controller write here.

The attacker may write whatever he likes in his own namespace: objects with our marks, with owners of other namespaces, with the
names of other people's objects. The controller has rights in all namespaces, so it is the one to be careful.
"""

from __future__ import annotations

import asyncio
from functools import cache

import pytest

from rollouts.manifests.ownership import ALLOW_FROM
from rollouts.objects import ROLLOUT, Manifest
from rollouts.ports import MERGE_PATCH, Request
from rollouts.sim.faults import CrashAfter, CrashBefore, Fault, FaultTape
from rollouts.sim.network.gateway import ENVOY
from rollouts.sim.network.gateway_types import HTTP_ROUTE
from tests import build
from tests.behaviour.routed import http_route, weight, world
from tests.behaviour.routes.test_a_declared_provider_steers_a_canary import declared
from tests.behaviour.scenarios import MANUAL, STABLE_AND_CANARY, canary, rollout
from tests.behaviour.stage import GATEWAY_NAME, KEY, Behind, Run, Stage, play
from tests.behaviour.tenants import ATTACKS, MALLORY, Attack, rollout_of_their_route, strike

STEPS = (weight(25), MANUAL, weight(100))
ATTACKER = pytest.mark.parametrize("attack", ATTACKS.values(), ids=list(ATTACKS))
DECLARED = declared(service={"path": "name"})


def _update(stage_attack: Attack | None) -> Run:
    """An update of the victim's; the attacker strikes before it, in the middle of it, and after it."""

    def struck(stage: Stage) -> None:
        if stage_attack is not None:
            strike(stage, stage_attack)

    async def script(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        struck(stage)
        await asyncio.sleep(5.0)
        await stage.update("2", "Paused")
        struck(stage)
        await asyncio.sleep(5.0)
        await stage.order(
            "promote", f"{stage.status['currentRevision']}@{stage.status['currentStepIndex']}", "Healthy", "2"
        )
        struck(stage)

    manifests = (DECLARED, *world(*STEPS, replicas=2))
    return play(manifests, script, behind=Behind(settings=ENVOY), grace_s=0.1)


@cache
def _alone() -> Run:
    return _update(None)


def _without_versions(end: Manifest) -> Manifest:
    return {name: part for name, part in end.items() if name != "status"} | {"phase": end["status"]["phase"]}


@ATTACKER
def test_an_update_ends_as_without_the_attacker(attack: Attack) -> None:
    """Every rule of the witness holds for each write into the victim's namespace, and for each one outside of it."""
    run = _update(attack)

    run.assert_clean()
    assert _without_versions(run.end) == _without_versions(_alone().end)


def _elsewhere(stage: Stage) -> Manifest:
    return (stage.cluster.get(ROLLOUT, MALLORY, KEY.name) or {}).get("status") or {}


def test_a_route_elsewhere_is_not_told_from_one_that_is_not_there() -> None:
    """Who may not see a namespace learns nothing of it from a Rollout's status, but what its owner would have to do."""
    told: list[str] = []

    async def script(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        strike(stage, rollout_of_their_route)
        await stage.until(lambda: (_elsewhere(stage).get("waitingFor") or {}).get("reason") == "RouteNotFound")
        told.append(_elsewhere(stage)["waitingFor"]["message"])
        stage.cluster.api.answer(Request("DELETE", HTTP_ROUTE.path(KEY.namespace, KEY.name)))
        await asyncio.sleep(30.0)
        told.append(_elsewhere(stage)["waitingFor"]["message"])

    play(world(*STEPS, replicas=2), script, behind=Behind(settings=ENVOY), grace_s=0.1)

    assert told[0] == told[1]
    assert f"{ALLOW_FROM}={MALLORY}" in told[0]


EDGE = "edge"


def _shared(*, leave: str) -> tuple[Manifest, ...]:
    """A route in the namespace of a shared gateway, and a Rollout that names it."""
    split = http_route()["spec"]["rules"][0]["backendRefs"]
    rule = build.http_rule(*({**each, "namespace": KEY.namespace} for each in split))
    spec = {"parentRefs": [{"name": GATEWAY_NAME, "namespace": KEY.namespace}], "rules": [rule]}
    route = build.manifest(HTTP_ROUTE, KEY.name, EDGE, metadata={"annotations": {ALLOW_FROM: leave}}, spec=spec)
    routing = {"gatewayAPI": {"httpRoutes": [{"name": KEY.name, "namespace": EDGE}]}}
    app = rollout(canary(*STEPS, services=True, trafficRouting=routing))
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": EDGE}}
    return (namespace, route, *STABLE_AND_CANARY, app)


def _shared_route(stage: Stage) -> Manifest:
    return stage.cluster.get(HTTP_ROUTE, EDGE, KEY.name) or {}


def _shared_weights(stage: Stage) -> list[int]:
    return [each["weight"] for each in _shared_route(stage)["spec"]["rules"][0]["backendRefs"]]


@pytest.mark.parametrize("fault", [None, CrashBefore(), CrashAfter()], ids=["whole", "crash before", "crash after"])
@pytest.mark.parametrize("number", [8, 10, 12])
def test_with_its_owners_leave_a_route_elsewhere_is_managed_and_given_back(fault: Fault | None, number: int) -> None:
    """By the record in status, also where the controller ended between any two writes."""

    async def script(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        await stage.update("2", "Paused")
        assert _shared_weights(stage) == [75, 25]
        assert [each["namespace"] for each in stage.status["routesElsewhere"]] == [EDGE]
        by_pods = {"trafficRouting": None, "stableService": None, "canaryService": None}
        stage.edit({"spec": {"strategy": {"canary": by_pods}}})
        await stage.until(lambda: _shared_weights(stage) == [100, 0])
        await stage.until(lambda: not stage.status.get("routesElsewhere") and not stage.status.get("givenBack"))
        await stage.order("promote", f"{stage.status['currentRevision']}@full", "Healthy", "2")

    tape = FaultTape({} if fault is None else {number: fault})
    play(_shared(leave="other, default"), script, behind=Behind(settings=ENVOY), grace_s=0.1, tape=tape).assert_clean()


def test_without_leave_nothing_is_written_there() -> None:
    """The update waits, and says for whom."""

    async def script(stage: Stage) -> None:
        await stage.until(lambda: stage.waits_for == "RouteNotFound")
        await asyncio.sleep(60.0)
        assert _shared_weights(stage) == [100, 0]
        assert set(_shared_route(stage)["metadata"]["annotations"]) == {ALLOW_FROM}

    run = play(_shared(leave="other"), script, behind=Behind(settings=ENVOY), grace_s=0.1)

    assert run.violations == []


def test_the_witness_sees_a_write_to_another_namespace() -> None:
    """A rule that nothing can break holds nothing."""

    async def script(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        strike(stage, ATTACKS["a route with their mark"])
        body = b'{"metadata":{"labels":{"planted":"1"}}}'
        request = Request("PATCH", HTTP_ROUTE.path(MALLORY, KEY.name), {}, body, MERGE_PATCH)
        await stage.witness.door("planted").request(request, deadline_s=1.0)

    run = play(world(*STEPS, replicas=2), script, behind=Behind(settings=ENVOY), grace_s=0.1)

    assert [each.split(": ")[1] for each in run.violations] == ["S28"]
