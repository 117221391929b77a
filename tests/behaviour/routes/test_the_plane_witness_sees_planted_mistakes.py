"""Promise: what holds routed canaries to the data plane would see it if a controller did what it must not.

One write of the real controller is changed on its way to the API server, as a bug of the controller's would; the rule that it
breaks must be told by its number. Without a change nothing is told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
import pytest

from rollouts.core.model.frozen import replace
from rollouts.ports import ApiServer, Request, Response
from tests.behaviour.plane_witness import is_aborted
from tests.behaviour.routed import BETA_ROUTE, Users, play_routed, rules_broken, weight, world
from tests.behaviour.scenarios import MANUAL
from tests.behaviour.stage import Stage
from tests.cluster.stand_ins import PassesOn

Change: TypeAlias = Callable[[Any], Any]
"""Of a request's body; None for one that stays as it is."""


class Mutant(PassesOn):
    """An API server to which one request goes otherwise than it was meant: the first one that can be changed.

    Args:
        resource: plural of what is patched.
        is_on: it waits for this.
    """

    def __init__(self, api: ApiServer, resource: str, change: Change, is_on: Callable[[], bool]) -> None:
        super().__init__(api)
        self.resource, self.change, self.is_on = resource, change, is_on
        self.done = False

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        if not self.done and request.method == "PATCH" and f"/{self.resource}/" in request.path and self.is_on():
            body = self.change(msgspec.json.decode(request.body))
            if body is not None:
                self.done = True
                request = replace(request, body=msgspec.json.encode(body))
        return await super().request(request, deadline_s=deadline_s)


def weights(stable: int, canary: int) -> Change:
    def change(operations: Any) -> Any:
        wanted = {"/backendRefs/0/weight": stable, "/backendRefs/1/weight": canary}
        found = [each for each in operations if each["op"] == "replace" and each["path"][-21:] in wanted]
        return (
            [{**each, "value": wanted[each["path"][-21:]]} if each in found else each for each in operations]
            if found
            else None
        )

    return change


def added(path: str, value: Any) -> Change:
    return lambda operations: [*operations, {"op": "add", "path": path, "value": value}]


def header_rules_stay(operations: Any) -> Any:
    """Only the weights go back."""
    kept = [each for each in operations if each["path"].endswith("/weight") or each["path"].startswith("/metadata")]
    return kept if len(kept) < len(operations) else None


def no_pods(patch: Any) -> Any:
    return {**patch, "spec": {"replicas": 0}} if (patch.get("spec") or {}).get("replicas", 0) > 1 else None


MISTAKES: dict[str, tuple[str, str, Change]] = {
    "all of the traffic to one pod": ("S1", "httproutes", weights(0, 100)),
    "pods go while requests come": ("S2", "replicasets", no_pods),
    "nobody is served": ("S6", "httproutes", weights(0, 0)),
    "another field of the route": ("S20", "httproutes", added("/spec/hostnames", ["x.io"])),
    "another's annotation": ("S6", "httproutes", added("/metadata/annotations/x.io~1a", "1")),
    "another's rule": ("S6", "httproutes", added("/spec/rules/0", {"backendRefs": [{"name": "other", "port": 80}]})),
}
AFTER_AN_ABORT: dict[str, Change] = {"a share": weights(60, 40), "a header route": header_rules_stay}


def broken(resource: str, change: Change, *, aborted: bool) -> set[str]:
    """Rules that are broken when one write is changed: during the steps, or after an abort."""
    stages: list[Stage] = []

    async def script(stage: Stage, users: Users) -> None:
        stages.append(stage)
        stage.image("2")
        if aborted:
            await stage.until_phase("Paused", "2")
            await stage.order("abort", "true", "Aborted", "2")
        await stage.until(lambda: bool(stage.witness.violations))

    def is_on() -> bool:
        return bool(stages) and (not aborted or is_aborted(stages[0].status))

    def between(api: ApiServer) -> ApiServer:
        return Mutant(api, resource, change, is_on)

    steps = (BETA_ROUTE, weight(25), weight(50), MANUAL)
    return rules_broken(play_routed(world(*steps), script, between=between).run)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_by_its_number(name: str) -> None:
    """One bad write among good ones, put right by the next pass: what is stored in between is what counts."""
    rule, resource, change = MISTAKES[name]

    assert rule in broken(resource, change, aborted=False)


@pytest.mark.parametrize("name", AFTER_AN_ABORT)
def test_what_an_abort_leaves_is_told(name: str) -> None:
    """S5: the first write after it has to take everything away that brings requests there."""
    assert "S5" in broken("httproutes", AFTER_AN_ABORT[name], aborted=True)
