"""Promise: whatever people or GitOps tools do to the route and the Services under an update, what is theirs stays and it goes on.

A route that says something else than it should is set again and told in an Event; one that is gone is waited for. What their own
act costs them is theirs; by ours not one request is lost (F46, F47, F49 of the project's catalogue of faults).
"""

from __future__ import annotations

import asyncio

import pytest

from rollouts.manifests.ownership import REVISION
from rollouts.objects import EVENT, SERVICE, Manifest
from rollouts.sim.network.gateway import ENVOY, TRAEFIK, GatewaySettings
from rollouts.sim.network.gateway_clients import GatewayClients
from rollouts.sim.network.gateway_types import HTTP_ROUTE
from rollouts.sim.storage.history import CommittedWrite
from tests import build
from tests.behaviour.routed import (
    GRACE_S,
    LADDER,
    QUARTER,
    STAY,
    STAY_S,
    Users,
    apply_as_gitops,
    assert_good,
    at_a_quarter,
    http_route,
    patch,
    play_routed,
    routed,
    set_weights,
    stored_share,
    stored_weights,
    weight,
    world,
)
from tests.behaviour.scenarios import service
from tests.behaviour.stage import KEY, Behind, Stage, play

NOT_FOUND, NO_SERVICE, NO_ENDPOINT = 404, 500, 503


def events(stage: Stage, reason: str) -> int:
    found = [each for each in stage.cluster.list(EVENT, KEY.namespace) if each["reason"] == reason]
    return sum((each.get("series") or {}).get("count", 1) for each in found)


GATEWAYS = pytest.mark.parametrize("settings", [ENVOY, TRAEFIK], ids=["quick", "two seconds late"])


@GATEWAYS
def test_weights_that_somebody_edits_are_set_again_and_told(settings: GatewaySettings) -> None:
    """F47: 50:50 by hand, during a step that says 25 %: back within a second, as an Event says, and the share holds."""

    async def script(stage: Stage, users: Users) -> None:
        await at_a_quarter(stage)
        set_weights(stage, stable=50, canary=50)
        await stage.until(lambda: stored_weights(stage) == (75, 25), within_s=1.0)
        await stage.until(lambda: bool((stage.status.get("traffic") or {}).get("verifiedBy")))
        await users.measure(stage, "again", "2", for_s=STAY_S)
        assert events(stage, "RouteDrifted") == 1
        await stage.until_phase("Healthy", "2")

    outcome = play_routed(world(*QUARTER), script, settings=settings, grace_s=GRACE_S)

    assert_good(outcome)
    assert outcome.users.shares["again"] == pytest.approx(0.25, abs=0.02)


def test_an_edit_while_nothing_goes_on_is_set_back_too() -> None:
    """The split is ours for as long as the spec names the route: 100 % stable, whoever says otherwise."""

    async def script(stage: Stage, users: Users) -> None:
        set_weights(stage, stable=10, canary=90)
        await stage.until(lambda: stored_share(stage) == 0, within_s=1.0)
        await users.measure(stage, "idle", "1", for_s=3.0)

    assert_good(play_routed(world(*QUARTER), script, grace_s=GRACE_S))


def test_what_people_add_to_the_route_stays() -> None:
    """F47: a rule, a header of a match, a timeout, a third backend with a tenth of the requests: theirs, before and after."""
    maintenance = build.http_rule(build.backend("archive", 1), path="/old")

    async def script(stage: Stage, users: Users) -> None:
        await at_a_quarter(stage)
        rules = stage.find(HTTP_ROUTE)["spec"]["rules"]
        shared = next(index for index, rule in enumerate(rules) if len(rule["backendRefs"]) > 1)
        theirs_now = {
            f"/spec/rules/{shared}/timeouts": {"request": "10s"},
            "/spec/rules/0": maintenance,
            "/metadata/annotations/team.io~1note": "ours",
        }
        operations = [{"op": "add", "path": path, "value": value} for path, value in theirs_now.items()]
        patch(stage, HTTP_ROUTE, KEY.name, operations)
        await users.measure(stage, "edited", "2", for_s=STAY_S)
        await stage.until_phase("Healthy", "2")
        end = stage.find(HTTP_ROUTE)
        assert end["metadata"]["annotations"]["team.io/note"] == "ours"
        theirs, split = end["spec"]["rules"]
        assert theirs["matches"] == maintenance["matches"]
        assert split["timeouts"] == {"request": "10s"}
        assert users.shares["edited"] == pytest.approx(0.25, abs=0.02)

    assert_good(play_routed(world(*QUARTER), script, grace_s=GRACE_S))


def test_a_third_backend_keeps_its_part() -> None:
    """S6: a tenth for somebody else's Service is a tenth at every step, though nobody serves it; ours is split over the rest."""

    async def script(stage: Stage, users: Users) -> None:
        stage.image("2")
        await stage.until(lambda: stage.status.get("currentStepIndex") == 1)
        await users.measure(stage, "a third", "2", for_s=STAY_S - 1.0)
        assert users.all_shares["a third"] == pytest.approx(0.45, abs=0.02)
        await stage.until_phase("Healthy", "2")

    route = http_route(stable=900, canary=0, other=100)
    others = build.service("other", KEY.namespace)
    outcome = play_routed((others, *world(weight(50), STAY, weight(100), route=route)), script)

    assert_good(outcome, lost=(NO_ENDPOINT,))
    assert outcome.users.lost == pytest.approx(outcome.users.sent / 10, rel=0.05)


def test_a_route_that_is_deleted_is_waited_for_and_taken_up_again() -> None:
    """F47: who deletes it takes the app off the network; when it comes back as Git has it, the step goes on."""

    async def script(stage: Stage, users: Users) -> None:
        await at_a_quarter(stage)
        stage.remove(HTTP_ROUTE, KEY.name)
        await asyncio.sleep(5.0)
        assert stage.waits_for == "RouteNotFound"
        stage.cluster.apply(http_route())
        await stage.until(lambda: stored_weights(stage) == (75, 25))
        await stage.until(lambda: bool((stage.status.get("traffic") or {}).get("verifiedBy")))
        await users.measure(stage, "back", "2", for_s=STAY_S)
        await stage.until_phase("Healthy", "2")

    outcome = play_routed(world(*QUARTER), script, grace_s=GRACE_S)

    assert_good(outcome, lost=(NOT_FOUND,))
    assert outcome.users.shares["back"] == pytest.approx(0.25, abs=0.02)


def test_a_route_that_is_missing_does_not_hold_an_abort() -> None:
    """S5 needs no route: the Rollout is aborted, and the route that comes back is what stable has."""

    async def script(stage: Stage, users: Users) -> None:
        await at_a_quarter(stage)
        stage.remove(HTTP_ROUTE, KEY.name)
        await stage.order("abort", "true", "Aborted", "2")
        stage.cluster.apply(http_route())
        await stage.until(lambda: stored_share(stage) == 0)
        await asyncio.sleep(2.0)
        await users.measure(stage, "aborted", "2", for_s=3.0)

    outcome = play_routed(world(*QUARTER), script, grace_s=GRACE_S)

    assert outcome.run.violations == []
    # While the route is not there, and until the proxies have what belongs to the one that people made anew.
    assert set(outcome.users.causes) <= {NOT_FOUND, NO_ENDPOINT}
    assert outcome.users.shares["aborted"] == 0


def test_a_route_made_again_by_hand_finds_the_pods_that_it_sends_requests_to() -> None:
    """While it is missing, the aborted revision keeps its pods past their delay: what was live last may come back."""
    kept: list[int] = []

    async def script(stage: Stage, users: Users) -> None:
        await at_a_quarter(stage)
        stage.remove(HTTP_ROUTE, KEY.name)
        stage.annotate("abort", "true")
        await asyncio.sleep(60.0)
        kept.append(stage.available("2"))
        stage.cluster.apply(http_route(stable=50, canary=50))
        await stage.until(lambda: stage.sizes()["2"] == 0)
        kept.append(int(stored_share(stage)))

    outcome = play_routed(world(*QUARTER), script, grace_s=GRACE_S)

    assert outcome.run.violations == []
    assert set(outcome.users.causes) <= {NOT_FOUND, NO_ENDPOINT}
    assert kept == [1, 0]


@GATEWAYS
def test_gitops_that_reverts_every_three_seconds_does_not_stop_it(settings: GatewaySettings) -> None:
    """F49: 100:0 comes back by force every 3 s, all the way. The update gets to its end, and no write answers to nothing."""
    reverts: list[float] = []

    async def reverting(stage: Stage) -> None:
        while True:
            await asyncio.sleep(3.0)
            apply_as_gitops(stage, http_route())
            reverts.append(asyncio.get_running_loop().time())

    async def script(stage: Stage, users: Users) -> None:
        await stage.update("2", "Healthy")

    outcome = play_routed(world(*LADDER), script, settings=settings, alongside=reverting, grace_s=GRACE_S)

    assert_good(outcome)
    assert outcome.run.effects["PATCH httproutes"] <= len(reverts) + 2 * len(LADDER)


@pytest.mark.parametrize("name", ["canary", "stable"])
def test_a_service_that_is_deleted_is_waited_for(name: str) -> None:
    """F46: its share of the requests has nowhere to go until it is there again; no other request is lost, then or later."""

    async def script(stage: Stage, users: Users) -> None:
        await at_a_quarter(stage)
        stage.remove(SERVICE, name)
        await asyncio.sleep(3.0)
        stage.cluster.apply(service(name))
        await stage.until_phase("Healthy", "2")

    assert_good(play_routed(world(*QUARTER), script, grace_s=GRACE_S), lost=(NO_SERVICE, NO_ENDPOINT))


@pytest.mark.parametrize("name", ["canary", "stable"])
def test_a_selector_that_gitops_reverts_is_set_again(name: str) -> None:
    """F46, F49: without our key the Service selects both revisions for a moment; no request is lost by it."""
    flaps: list[str] = []

    def note(change: CommittedWrite) -> None:
        if change.new.key[1] == name:
            flaps.append(str(change.new.manifest["spec"]["selector"]))

    async def reverting(stage: Stage) -> None:
        stage.cluster.api.history.listen(SERVICE, note)
        while True:
            await asyncio.sleep(3.0)
            stage.cluster.apply(service(name), manager="gitops")

    async def script(stage: Stage, users: Users) -> None:
        await stage.update("2", "Healthy")

    manifests = world(weight(25), STAY, weight(100))
    outcome = play_routed(manifests, script, alongside=reverting, grace_s=GRACE_S)

    assert outcome.users.causes == {}
    assert outcome.run.end["status"]["phase"] == "Healthy"
    assert len(flaps) > 3, "nothing was reverted"


def test_the_steps_of_an_update_leave_the_users_route_as_it_was() -> None:
    """When all is done the route says what the user wrote, byte for byte, but for our label and what names us."""
    after: list[Manifest] = []
    marks: list[list[Manifest]] = []

    async def script(stage: Stage, users: Users) -> None:
        await stage.update("2", "Healthy")
        after.append(stage.find(HTTP_ROUTE)["spec"])
        stage.delete()
        await stage.until(lambda: not stage.sizes())
        await asyncio.sleep(5.0)
        metadata = stage.find(HTTP_ROUTE)["metadata"]
        marks.append([metadata.get("labels") or {}, metadata.get("annotations") or {}])

    outcome = play_routed(world(*LADDER, route=http_route(stable=3, canary=0)), script)

    assert outcome.run.violations == []
    stored = (build.backend(name, share, group="", kind="Service") for name, share in (("stable", 3), ("canary", 0)))
    assert after[0]["rules"] == [build.http_rule(*stored, path="/")]
    assert marks == [[{}, {}]], "a Rollout that is gone leaves no mark"


@pytest.mark.parametrize("narrow", [False, True])
def test_a_route_that_is_in_use_is_taken_over_without_a_loss(*, narrow: bool) -> None:
    """Pods of a Deployment serve users through it when a Rollout comes to name it: they do until the Rollout's own are ready.

    Also where the canary Service selects the Rollout's pods only (`narrow`).
    """
    labels = {"app": "web", REVISION: "before"}
    pods = build.pod_template("web", image="web:0", metadata={"labels": labels})
    marks, selector = {"labels": labels, "annotations": {"a": "b"}}, {"matchLabels": labels}
    old = build.replica_set("old", KEY.namespace, replicas=2, metadata=marks, selector=selector, template=pods)
    services = [service("stable"), service("canary")]
    new = routed(weight(50), STAY)
    if narrow:
        services[1]["spec"]["selector"]["by"] = new["spec"]["template"]["metadata"]["labels"]["by"] = "rollout"
    clients: list[GatewayClients] = []

    async def script(stage: Stage) -> None:
        await asyncio.sleep(5.0)
        clients.append(stage.cluster.gateway_clients(stage.gateway, rate_per_s=50.0))
        await asyncio.sleep(2.0)
        stage.cluster.apply(new)
        await stage.until_phase("Healthy", "1")
        await asyncio.sleep(20.0)
        clients[0].stop()

    run = play((*services, http_route(), old), script, behind=Behind(settings=ENVOY))

    assert run.unexpected == []
    assert dict(clients[0].causes) == {}
    assert clients[0].tally.sent["before"] > 100
