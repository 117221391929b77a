"""Promise: a TrafficProvider of the cluster makes a router of any kind usable, and one that is spoilt or gone moves nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rollouts.core.model.frozen import replace
from rollouts.objects import TRAFFIC_PROVIDER, Manifest
from rollouts.sim.faults import CrashAfter, FaultTape
from rollouts.sim.network.gateway_types import HTTP_ROUTE
from tests import build
from tests.behaviour.branches import assert_ends_as_without
from tests.behaviour.routed import (
    BETA_ROUTE,
    LADDER,
    NO_BETA_ROUTE,
    STAY,
    Users,
    assert_good,
    http_route,
    play_routed,
    stored_weights,
    weight,
)
from tests.behaviour.scenarios import STABLE_AND_CANARY, canary, rollout
from tests.behaviour.stage import KEY, Run, Stage

NAME = "plain-http"
PATH = f"spec.strategy.canary.trafficRouting.plugins[{NAME}]"


def _tested(stable: int, canary_weight: int) -> Manifest:
    split = build.http_rule(build.backend("stable", stable), build.backend("canary", canary_weight))
    return {"spec": {"parentRefs": [{"name": "public"}], "rules": [split]}}


ACCEPTED = "object.status.parents.all(p, p.conditions.exists(c, c.type == 'Accepted' && c.status == 'True'))"
DECLARATION: Manifest = {
    "match": {"group": HTTP_ROUTE.group, "kind": HTTP_ROUTE.kind, "plural": HTTP_ROUTE.plural, "versions": ["v1"]},
    "backends": "spec.rules[].backendRefs[]",
    "service": {"cel": "item.name"},
    "accepted": {"cel": ACCEPTED},
    "settleSeconds": 2,
    "tests": [{"object": _tested(100, 0), "canaryPercent": 10, "result": _tested(90, 10)}],
}


def declared(**fields: Any) -> Manifest:
    return build.manifest(TRAFFIC_PROVIDER, NAME, spec={**DECLARATION, **fields})


PROVIDER = declared()
WEIGHTS = tuple(step for step in LADDER if "setWeight" in step or step == STAY)


def world(*steps: Manifest, provider: Manifest | None = PROVIDER, **more: Any) -> tuple[Manifest, ...]:
    """A Rollout that names the provider by its name, and what it needs."""
    routing = {"plugins": {NAME: {"name": KEY.name}}, **more}
    app = rollout(canary(*steps, services=True, trafficRouting=routing, scaleDownDelaySeconds=2), replicas=4)
    declared = () if provider is None else (provider,)
    return (*declared, *STABLE_AND_CANARY, http_route(), app)


def provider_condition(stage: Stage, kind: str = "Ready") -> Manifest:
    """A condition of the TrafficProvider; empty when there is none yet."""
    status = (stage.cluster.get(TRAFFIC_PROVIDER, "", NAME) or {}).get("status") or {}
    return next((each for each in status.get("conditions") or () if each["type"] == kind), {})


def invalid(stage: Stage) -> str:
    """What the Rollout is told to be wrong with its spec; "" for nothing."""
    return str(stage.condition("InvalidSpec").get("message", ""))


def edit(stage: Stage, spec: dict[str, Any]) -> None:
    stage.merge(TRAFFIC_PROVIDER, NAME, {"spec": spec})


async def at(stage: Stage, step: int) -> None:
    """Waits until the update waits for a person at a step."""
    await stage.until(lambda: stage.status["phase"] == "Paused" and stage.status["currentStepIndex"] == step)


async def promoted(stage: Stage) -> None:
    """Somebody lets it pass."""
    stage.annotate("promote", f"{stage.status['currentRevision']}@{stage.status['currentStepIndex']}")


def test_a_canary_goes_through_a_declared_router_and_loses_nothing() -> None:
    """1 → 5 → 25 → 50 → 100 %, nobody to ask, so each share is waited for as long as the declaration says."""

    async def script(stage: Stage, users: Users) -> None:
        assert provider_condition(stage)["status"] == "True"
        stage.image("2")
        await stage.until(lambda: stage.status.get("weight") == 25)
        await stage.until(lambda: stage.status["currentStepIndex"] == 5)
        assert stage.status["traffic"]["verifiedBy"] == "SettleTime"
        await users.measure(stage, "at 25", "2", for_s=4.0)
        await stage.until_phase("Healthy", "2")

    done = play_routed(world(*WEIGHTS), script)

    assert_good(done)
    assert abs(done.users.shares["at 25"] - 0.25) < 0.03
    ((spec, *_),) = done.run.end["routes"].values()
    assert [each["weight"] for each in spec["rules"][-1]["backendRefs"]] == [100, 0]


def test_a_declared_router_goes_by_headers_too() -> None:
    """Beta users have the new revision alone while the others are led to it step by step, and the rule is gone in the end."""
    asked = "headers.map(h, {'type': 'Exact', 'name': h.name, 'value': h.value})"
    template = {"matches": {"cel": f"[{{'path': {{'type': 'PathPrefix', 'value': '/'}}, 'headers': {asked}}}]"}}
    copy = build.http_rule(build.backend("canary", 1), path="/")
    copy["matches"][0]["headers"] = [{"type": "Exact", "name": "x-beta", "value": "1"}]
    result = _tested(90, 10)
    result["spec"]["rules"].append(copy)
    test = {**DECLARATION["tests"][0], "headers": [{"name": "x-beta", "exact": "1"}], "result": result}
    provider = declared(header={"insert": "last", "template": template}, tests=[test])

    async def script(stage: Stage, users: Users) -> None:
        assert provider_condition(stage)["reason"] == "Tried"
        stage.image("2")
        await stage.until(lambda: stage.status["currentStepIndex"] == 2)
        await users.measure(stage, "at 10", "2", for_s=4.0)
        await stage.until_phase("Healthy", "2")

    steps = (BETA_ROUTE, weight(10), STAY, NO_BETA_ROUTE, weight(50), STAY)
    done = play_routed(world(*steps, provider=provider, managedRoutes=[{"name": "beta"}]), script)

    assert_good(done)
    assert done.users.beta_shares["at 10"] == 1
    assert abs(done.users.shares["at 10"] - 0.1) < 0.03
    ((spec, *_),) = done.run.end["routes"].values()
    assert len(spec["rules"]) == 1


def test_a_provider_that_is_spoilt_in_the_middle_holds_everything_where_it_is() -> None:
    """Whoever mends it finds the rollout where it was: nobody was sent anywhere meanwhile."""
    seen: list[Any] = []

    async def script(stage: Stage, _users: Users) -> None:
        stage.image("2")
        await at(stage, 1)
        edit(stage, {"service": {"cel": "item.named"}})
        await stage.until(lambda: bool(invalid(stage)))
        told, before = invalid(stage), stored_weights(stage)
        await promoted(stage)
        await asyncio.sleep(30)
        seen.extend((told, before, stored_weights(stage), provider_condition(stage, "Stalled")["status"]))
        edit(stage, {"service": {"cel": "item.name"}})
        await at(stage, 3)
        seen.extend((stored_weights(stage), invalid(stage), provider_condition(stage)["observedGeneration"]))
        await promoted(stage)
        await stage.until_phase("Healthy", "2")

    done = play_routed(world(weight(10), {"pause": {}}, weight(50), {"pause": {}}), script)

    told, before, meanwhile, stalled, after, invalid_after, generation = seen
    assert told.startswith(f"{PATH}: TrafficProvider {NAME} is not Ready: spec.tests[0].object: cannot be managed: ")
    assert (before, meanwhile, stalled) == ((90, 10), (90, 10), "True")
    assert (after, invalid_after, generation) == ((50, 50), "", 3)
    assert done.users.lost == 0
    assert done.run.unexpected == []


def test_a_provider_that_is_deleted_in_the_middle_leaves_the_traffic_as_it_is() -> None:
    """And what is waited for is told; when it is back the rollout goes on."""
    seen: list[Any] = []

    async def script(stage: Stage, _users: Users) -> None:
        stage.image("2")
        await at(stage, 1)
        stage.remove(TRAFFIC_PROVIDER, NAME)
        await stage.until(lambda: bool(invalid(stage)))
        seen.extend((invalid(stage), stored_weights(stage)))
        stage.cluster.apply(PROVIDER)
        await stage.until(lambda: not invalid(stage))
        await promoted(stage)
        await stage.until_phase("Healthy", "2")

    done = play_routed(world(weight(10), {"pause": {}}, weight(50)), script)

    told, weights = seen
    assert told.startswith(f"{PATH}: there is no provider of this name; there are ")
    assert "TrafficProvider" in told
    assert weights == (90, 10)
    assert done.users.lost == 0
    assert done.run.unexpected == []


def test_a_rollout_that_was_there_first_begins_when_its_provider_comes() -> None:
    """Objects of one `kubectl apply` come in any order."""
    seen: list[str] = []

    async def script(stage: Stage, _users: Users) -> None:
        await stage.update("2", "Healthy")

    async def later(stage: Stage) -> None:
        await stage.until(lambda: bool(invalid(stage)))
        seen.append(invalid(stage))
        stage.cluster.apply(PROVIDER)

    done = play_routed(world(weight(50), STAY, provider=None), script, alongside=later)

    assert len(seen) == 1
    assert done.users.lost == 0
    assert done.run.unexpected == []


def test_a_rollout_that_goes_while_its_provider_is_spoilt_is_given_back_once_it_is_mended() -> None:
    """Its route says 10 % for a Service whose pods are about to go: nobody else can mend that."""

    async def script(stage: Stage, _users: Users) -> None:
        stage.image("2")
        await at(stage, 1)
        edit(stage, {"service": {"cel": "item.named"}})
        await stage.until(lambda: bool(invalid(stage)))
        stage.delete()
        await asyncio.sleep(5)
        assert stored_weights(stage) == (90, 10)
        edit(stage, {"service": {"cel": "item.name"}})
        await stage.until(lambda: stored_weights(stage) == (100, 0))

    done = play_routed(world(weight(10), {"pause": {}}), script)

    ((_, labels, annotations),) = done.run.end["routes"].values()
    assert (labels, annotations) == ({}, {})
    assert done.run.unexpected == []


def updated_once(tape: FaultTape) -> Run:
    """The run; a request that is lost in it is unexpected, and so is a provider that is not ready at its end."""

    async def script(stage: Stage, _users: Users) -> None:
        await stage.update("2", "Healthy")
        assert provider_condition(stage)["status"] == "True"

    outcome = play_routed(world(weight(50), STAY), script, tape=tape, grace_s=4.0)
    return replace(outcome.run, unexpected=[*outcome.run.unexpected, *map(str, outcome.users.causes)])


@pytest.mark.long
def test_a_controller_that_dies_after_any_write_is_not_missed() -> None:
    """The next one believes what the provider's status says, and reads the declaration again: nothing else is remembered."""
    without = updated_once(FaultTape({}))
    assert without.faultable >= 10

    assert_ends_as_without(updated_once, without, {CrashAfter(): range(without.faultable)})
