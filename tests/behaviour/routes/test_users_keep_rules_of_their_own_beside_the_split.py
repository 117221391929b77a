"""Promise: what users route themselves, beside the rule with the split, holds up no update, changes no verdict and loses nothing.

A rule for testers leads to the canary Service alone, also while no update is under way. So that Service always selects pods that
serve: those of the stable revision before and after an update, and again from an abort on, before the canary's pods go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from rollouts.objects import Manifest
from rollouts.sim.network.gateway_types import HTTP_ROUTE
from rollouts.sim.network.route_table import WebRequest
from tests import build
from tests.behaviour.routed import QUARTER, Users, assert_good, at_a_quarter, http_route, play_routed, world
from tests.behaviour.stage import Stage

TESTER = {"name": "x-tester", "value": "1"}
TESTERS = WebRequest(headers=(("x-tester", "1"),))
REDIRECT = {"type": "RequestRedirect", "requestRedirect": {"hostname": "new.example.com"}}
MIRROR = {"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "canary", "port": 80}}}


RULES: Mapping[str, Manifest] = {
    "canary alone": build.http_rule(build.backend("canary"), matches=[{"headers": [TESTER]}]),
    "stable alone": build.http_rule(build.backend("stable"), matches=[{"headers": [TESTER]}]),
    "redirect": {"matches": [{"path": {"type": "PathPrefix", "value": "/old"}}], "filters": [REDIRECT]},
    "another Service": build.http_rule(build.backend("other"), path="/other"),
    "a mirror": build.http_rule(build.backend("stable"), path="/copied", filters=[MIRROR]),
}
AT_REST = ("canary alone", "stable alone")
"""Kinds whose requests reach pods of the Rollout."""


def _kept(stage: Stage, kind: str) -> bool:
    wanted = _with_defaults(RULES[kind])
    return any(each.get("matches") == wanted for each in stage.find(HTTP_ROUTE)["spec"]["rules"])


def _with_defaults(rule: Manifest) -> list[Manifest]:
    """The matches as the API server stores them."""
    found = [{"path": {"type": "PathPrefix", "value": "/"}, **each} for each in rule["matches"]]
    for each in found:
        if "headers" in each:
            each["headers"] = [{"type": "Exact", **header} for header in each["headers"]]
    return found


@pytest.mark.parametrize("ends", ["promoted", "aborted"])
@pytest.mark.parametrize("kind", RULES)
def test_an_update_beside_a_rule_of_the_users(kind: str, ends: str) -> None:
    """With data planes that are asked: the first revision becomes Healthy, steps are reached, an abort comes to rest."""
    lost: dict[int, int] = {}

    async def script(stage: Stage, users: Users) -> None:
        testers = stage.cluster.gateway_clients(stage.gateway, rate_per_s=11.3, request=TESTERS, duration_s=0.02)
        await at_a_quarter(stage)
        assert stage.status["traffic"]["verifiedBy"] == "Config"
        if ends == "aborted":
            await stage.order("abort", "true", "Aborted", "2")
            await asyncio.sleep(30)
            stage.image("1")
        await stage.until_phase("Healthy", "1" if ends == "aborted" else "2")
        await asyncio.sleep(20)
        testers.stop()
        assert _kept(stage, kind)
        if kind in AT_REST:
            lost.update(testers.causes)

    outcome = play_routed(world(*QUARTER, route=http_route(more=(RULES[kind],))), script)

    assert_good(outcome)
    assert lost == {}
