"""Promise: a route of `trafficRouting.own` is made by us from its manifest, managed as any other, and goes with its Rollout.

So Git has no copy that a GitOps tool would put back at every sync. People change it where they change the rest: in the Rollout.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rollouts.manifests.ownership import MANAGED_BY
from rollouts.objects import ROLLOUT, Manifest
from rollouts.sim.network.gateway import ENVOY
from rollouts.sim.network.gateway_types import HTTP_ROUTE
from tests.behaviour.routed import (
    GRACE_S,
    LADDER,
    QUARTER,
    STAY_S,
    Users,
    assert_good,
    at_a_quarter,
    http_route,
    patch,
    play_routed,
    routed,
    stored_weights,
)
from tests.behaviour.scenarios import STABLE_AND_CANARY
from tests.behaviour.stage import KEY, Behind, Stage, play

NOT_FOUND, NO_ENDPOINT = 404, 503


def manifest(**metadata: Any) -> Manifest:
    found = http_route()
    return {**found, "metadata": {"name": KEY.name, **metadata}}


def world(*steps: Manifest, own: Manifest | None = None, **strategy: Any) -> tuple[Manifest, ...]:
    """Services and a Rollout that brings its route along."""
    made = routed(*steps, strategy=strategy)
    made["spec"]["strategy"]["canary"]["trafficRouting"]["own"] = [own or manifest()]
    return (*STABLE_AND_CANARY, made)


def test_a_whole_canary_goes_through_it() -> None:
    """Made before the first revision serves; 1 to 100 %, a way in by header and copies, as through a user's route."""

    async def script(stage: Stage, users: Users) -> None:
        made = stage.find(HTTP_ROUTE)["metadata"]
        (owner,) = made["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("Rollout", KEY.name, True)
        assert made["annotations"][MANAGED_BY] == KEY.name
        assert stored_weights(stage) == (100, 0)
        await stage.update("2", "Healthy")

    outcome = play_routed(world(*LADDER), script)

    assert_good(outcome)
    assert outcome.run.effects["POST httproutes"] == 1


def test_one_that_somebody_deletes_is_made_again_with_its_share() -> None:
    """Nobody has to come: in the middle of 25 % it is back with 25 %, never with the weights of its manifest."""

    async def script(stage: Stage, users: Users) -> None:
        await at_a_quarter(stage)
        stage.remove(HTTP_ROUTE, KEY.name)
        await stage.until(lambda: stage.cluster.get(HTTP_ROUTE, KEY.namespace, KEY.name) is not None, within_s=2.0)
        assert stored_weights(stage) == (75, 25)
        await stage.until(lambda: bool((stage.status.get("traffic") or {}).get("verifiedBy")))
        await users.measure(stage, "again", "2", for_s=STAY_S)
        await stage.until_phase("Healthy", "2")

    outcome = play_routed(world(*QUARTER), script, grace_s=GRACE_S)

    assert_good(outcome, lost=(NOT_FOUND, NO_ENDPOINT))
    assert outcome.users.shares["again"] == pytest.approx(0.25, abs=0.02)
    assert outcome.users.beta_shares["again"] == 1


def test_a_new_manifest_changes_it_and_the_share_stays() -> None:
    """A timeout and a label come, another label goes; the quarter stays a quarter, and no request is lost."""

    async def script(stage: Stage, users: Users) -> None:
        await at_a_quarter(stage)
        patch(stage, HTTP_ROUTE, KEY.name, [{"op": "add", "path": "/metadata/labels/theirs", "value": "yes"}])
        changed = manifest(labels={"team": "shop"})
        changed["spec"]["rules"][0]["timeouts"] = {"request": "10s"}
        routing = "/spec/strategy/canary/trafficRouting"
        patch(stage, ROLLOUT, KEY.name, [{"op": "replace", "path": f"{routing}/own/0", "value": changed}])
        await stage.until(lambda: "timeouts" in stage.find(HTTP_ROUTE)["spec"]["rules"][0])
        labels = stage.find(HTTP_ROUTE)["metadata"]["labels"]
        assert (labels.get("team"), labels.get("theirs"), labels.get("tier")) == ("shop", "yes", None)
        assert stored_weights(stage) == (75, 25)
        await stage.until(lambda: bool((stage.status.get("traffic") or {}).get("verifiedBy")))
        await users.measure(stage, "changed", "2", for_s=STAY_S)
        assert any("changed manifest" in text for text in stage.events("RouteMade"))
        await stage.until_phase("Healthy", "2")

    outcome = play_routed(world(*QUARTER, own=manifest(labels={"tier": "web"})), script, grace_s=GRACE_S)

    assert_good(outcome)
    assert outcome.users.beta_shares["changed"] == 1
    assert outcome.users.shares["changed"] == pytest.approx(0.25, abs=0.02)


def test_one_that_was_managed_as_the_users_becomes_ours_without_a_gap() -> None:
    """How a team takes a route out of Git: `own` first, and what is there is taken over as it stands."""

    async def script(stage: Stage, users: Users) -> None:
        routing = "/spec/strategy/canary/trafficRouting"
        patch(stage, ROLLOUT, KEY.name, [{"op": "add", "path": f"{routing}/own", "value": [manifest()]}])
        await stage.until(lambda: "ownerReferences" in stage.find(HTTP_ROUTE)["metadata"])
        assert stage.find(HTTP_ROUTE)["metadata"]["ownerReferences"][0]["name"] == KEY.name
        await stage.update("2", "Healthy")

    outcome = play_routed((*STABLE_AND_CANARY, http_route(), routed(*LADDER)), script)

    assert_good(outcome)
    assert outcome.run.effects["POST httproutes"] == 0


def test_one_that_somebody_else_made_is_left_alone() -> None:
    """An object of that name that no Rollout made or steers is a person's: told, with what to do, and not touched."""

    async def script(stage: Stage) -> None:
        await stage.until(lambda: stage.waits_for == "RouteNotUsable")
        message = stage.status["waitingFor"]["message"]
        assert "no Rollout created it; delete it, or remove it from trafficRouting.own" in message
        assert stage.find(HTTP_ROUTE)["metadata"].get("annotations") is None

    run = play((http_route(), *world(*QUARTER)), script, behind=Behind(settings=ENVOY))

    assert run.violations == []


def test_it_goes_with_its_rollout_and_nobody_writes_to_it_before() -> None:
    """The garbage collector's to take: no write of ours gives it back first."""

    async def script(stage: Stage, users: Users) -> None:
        users.stop()
        stage.remove(ROLLOUT, KEY.name)
        await asyncio.sleep(10.0)
        assert stage.cluster.get(HTTP_ROUTE, KEY.namespace, KEY.name) is None

    outcome = play_routed(world(*QUARTER), script)

    assert outcome.run.violations == []
    assert outcome.run.effects["PATCH httproutes"] == 0
