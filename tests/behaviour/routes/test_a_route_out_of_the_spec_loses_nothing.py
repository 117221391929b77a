"""Promise: a route taken out of the spec in the middle of an update loses no request, whatever the strategy is afterwards.

Giving the route back sends all of its requests to the stable Service in one write, and proxies follow when they do; the witness
holds each write to the pods that are there, and every request is counted.
"""

from __future__ import annotations

import asyncio
from fractions import Fraction
from typing import Any

import pytest

from rollouts.core.model.frozen import replace
from rollouts.objects import Manifest
from rollouts.sim.faults import DropReply, Fault, FaultTape
from rollouts.sim.network.gateway import ENVOY, TRAEFIK, GatewaySettings
from rollouts.sim.network.gateway_types import HTTP_ROUTE
from tests import build
from tests.behaviour.branches import CRASHES, assert_ends_as_without, places
from tests.behaviour.routed import Outcome, Users, assert_good, http_route, play_routed, stored_share, weight, world
from tests.behaviour.scenarios import ACTIVE_AND_PREVIEW, MANUAL
from tests.behaviour.stage import KEY, Run, Stage

GATEWAYS = pytest.mark.parametrize("settings", [ENVOY, TRAEFIK], ids=["quick", "two seconds late"])
FAULTS: tuple[Fault, ...] = (*CRASHES, DropReply())
AT_THE_EDIT = 14
"""Writes before this one are of an update like any other, which has its own tests."""


def side_door() -> Manifest:
    """Another route between the same Services, by a path that nobody here takes."""
    spec = http_route()["spec"]
    rule = build.http_rule(*spec["rules"][0]["backendRefs"], path="/side")
    return build.manifest(HTTP_ROUTE, "side-door", KEY.namespace, spec={**spec, "rules": [rule]})


_NO_SERVICES = {"stableService": None, "canaryService": None}
_GREEN = {"autoPromotionEnabled": False, "maxUnavailable": 0, "scaleDownDelaySeconds": 2}
EDITS: dict[str, Manifest] = {
    "by pods": {"canary": {"trafficRouting": None, "dynamicStableScale": None, **_NO_SERVICES}},
    "blue-green": {
        "canary": None,
        "blueGreen": {"activeService": "stable", "previewService": "canary", "previewReplicaCount": 1, **_GREEN},
    },
    "blue-green with other Services": {
        "canary": None,
        "blueGreen": {"activeService": "active", "previewService": "preview", **_GREEN},
    },
    "another route": {
        "canary": {
            "dynamicStableScale": None,
            "trafficRouting": {"gatewayAPI": {"httpRoutes": [{"name": "side-door"}]}},
        }
    },
}


def marks(stage: Stage) -> Manifest:
    """What is ours of the route's metadata."""
    metadata = stage.find(HTTP_ROUTE)["metadata"]
    return {**(metadata.get("labels") or {}), **(metadata.get("annotations") or {})}


def play_edit(edit: Manifest, **options: Any) -> tuple[Outcome, list[str]]:
    """At 75 %, with one stable pod of four, the spec is edited; then the update is promoted in full."""
    told: list[str] = []

    async def script(stage: Stage, users: Users) -> None:
        await stage.update("2", "Paused")
        await stage.until(lambda: stage.sizes()["1"] == 1)
        await asyncio.sleep(10.0)  # its old pods are gone
        stage.edit({"spec": {"strategy": edit}})
        await stage.until(lambda: "given back" in (stage.status.get("waitingFor") or {}).get("message", ""))
        told.append(stage.status["waitingFor"]["message"])
        await stage.until(lambda: not marks(stage))
        assert stored_share(stage) == Fraction(0)
        await stage.until(lambda: not stage.status.get("givenBack"))
        await stage.order("promote", f"{stage.status['currentRevision']}@full", "Healthy", "2")

    app = world(weight(75), MANUAL, strategy={"dynamicStableScale": True})
    return play_routed((side_door(), *ACTIVE_AND_PREVIEW, *app), script, **options), told


@GATEWAYS
@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_a_route_is_given_back_in_the_middle_of_an_update(edit: Manifest, settings: GatewaySettings) -> None:
    """Stable's pods come first, the canary's go last, and status says what is waited for."""
    outcome, told = play_edit(edit, settings=settings)

    assert_good(outcome)
    assert "is given back" in told[0]


def made_blue_green(tape: FaultTape) -> Run:
    """The run; a request that is lost in it is unexpected."""
    outcome, _ = play_edit(EDITS["blue-green"], tape=tape, grace_s=4.0)
    return replace(outcome.run, unexpected=[*outcome.run.unexpected, *map(str, outcome.users.causes)])


@pytest.mark.long
def test_a_fault_of_any_one_write_ends_as_without() -> None:
    """What the canary may still get is remembered, or its pods would go under requests."""
    without, _ = play_edit(EDITS["blue-green"])

    assert_ends_as_without(made_blue_green, without.run, places(without.run, FAULTS, first=AT_THE_EDIT))
