"""Promise: a part that is refused stops nothing else: counts stay true, commands are put on record, an abort goes on.

Each case refuses one kind of write from the middle of an update on. While it lasts, no pod that may get requests goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import pytest
from msgspec import Struct

from rollouts.objects import POD, Manifest
from rollouts.ports import ApiServer, Request, Response, WatchStream
from rollouts.sim.network.gateway_types import HTTP_ROUTE
from rollouts.sim.storage.refusals import Refused
from tests.behaviour.routed import Users, http_route, patch, play_routed, stored_weights, weight, world
from tests.behaviour.stage import KEY, Stage

STEPS: tuple[Manifest, ...] = (weight(20), {"pause": {}}, weight(50), {"pause": {}})
REPLICAS = 5
FORBIDDEN = 403


class Refusal(Struct, frozen=True, kw_only=True):
    """What is refused, and what status says of it.

    Args:
        plural: of the objects whose changes are refused; "" for none.
        status: of the answer.
        reason: of the wait.
        route: as its user wrote it.
        aborts: an abort can move the traffic back all the same.
    """

    plural: str = ""
    status: int = FORBIDDEN
    reason: str = "ApiForbidden"
    route: Callable[[], Manifest] = http_route
    aborts: bool = False


def _third_backend() -> Manifest:
    """A rule whose total is fixed, because a third backend has a part of it: 5 can be shared by 20 %, and not by halves."""
    return http_route(stable=5, canary=0, other=45)


REFUSALS = {
    "a split that the route has no numbers for": Refusal(reason="RouteNotUsable", route=_third_backend, aborts=True),
    "the right to change routes": Refusal(plural="httproutes"),
    "a route, by an admission policy": Refusal(plural="httproutes", status=422, reason="ApiRefused"),
    "the right to change ReplicaSets": Refusal(plural="replicasets"),
}


class Refusing:
    """An API server that refuses some requests while `on`."""

    def __init__(self, api: ApiServer, refusal: Refusal) -> None:
        self._api = api
        self._refusal = refusal
        self.on = False

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        """Carries out the request, or refuses it."""
        refused = self._refusal
        theirs = bool(refused.plural) and f"/{refused.plural}/" in request.path
        if self.on and theirs and request.method == "PATCH":
            await asyncio.sleep(0.001)
            reason = "Forbidden" if refused.status == FORBIDDEN else "Invalid"
            said = Refused(refused.status, reason, f"{refused.plural} may not be changed", {"kind": refused.plural})
            return Response(said.code, msgspec.json.encode(said.status()))
        return await self._api.request(request, deadline_s=deadline_s)

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> WatchStream:
        """A watch, as always."""
        return await self._api.open_watch(request, deadline_s=deadline_s, silence_s=silence_s)

    async def aclose(self) -> None:
        """Leaves the server open."""


def _ready(stage: Stage) -> int:
    pods = [each for each in stage.cluster.list(POD, KEY.namespace) if "deletionTimestamp" not in each["metadata"]]
    conditions = [{one["type"]: one["status"] for one in each["status"].get("conditions", ())} for each in pods]
    return sum(each.get("Ready") == "True" for each in conditions)


def _outcomes(stage: Stage, verb: str) -> list[str]:
    return [each["outcome"] for each in stage.status.get("commands", ()) if each["verb"] == verb]


def _told(stage: Stage, refusal: Refusal) -> bool:
    stalled = [each["reason"] for each in stage.status["conditions"] if each["type"] == "Stalled"]
    return refusal.reason in stalled


@pytest.mark.parametrize("what", REFUSALS)
def test_counts_commands_and_an_abort_go_on(what: str) -> None:
    """The first promise holds meanwhile: the canary keeps its pods until the route is known to have left it."""
    refusal = REFUSALS[what]
    servers: list[Refusing] = []

    def between(api: ApiServer) -> ApiServer:
        servers.append(Refusing(api, refusal))
        return servers[-1]

    async def script(stage: Stage, _users: Users) -> None:
        stage.image("2")
        await stage.until(lambda: stage.status.get("currentStepIndex") == 1 and stage.status["phase"] == "Paused")
        servers[-1].on = True
        before = stored_weights(stage)
        stage.annotate("promote", f"{stage.status['currentRevision']}@1")
        await stage.until(lambda: bool(_outcomes(stage, "promote")))
        await stage.until(lambda: _told(stage, refusal))
        await asyncio.sleep(30)
        assert stage.status["readyReplicas"] == _ready(stage)
        assert stored_weights(stage) == before
        assert _told(stage, refusal)
        of_a_route = [each["reason"] for each in stage.status["conditions"] if each["type"] == "RouteRefused"]
        assert of_a_route == [refusal.reason] * (refusal.plural != "replicasets")

        stage.annotate("abort", "true")
        await stage.until(lambda: bool(_outcomes(stage, "abort")) or bool(stage.status.get("abort")))
        if refusal.aborts:
            await stage.until_phase("Aborted", "2")
        else:
            await asyncio.sleep(30)
            assert stage.available("2") > 0
        servers[-1].on = False
        patch(stage, HTTP_ROUTE, KEY.name, [{"op": "add", "path": "/metadata/labels/seen", "value": "again"}])
        await stage.until(lambda: stage.status["phase"] == "Aborted" and stored_weights(stage)[1] == 0)
        stage.image("1")
        await stage.until_phase("Healthy", "1")

    outcome = play_routed(world(*STEPS, route=refusal.route(), replicas=REPLICAS), script, between=between)

    assert outcome.run.violations == []
