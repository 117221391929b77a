"""Render: what is decided about a route becomes one guarded patch of it, our marks included, or none at all."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import msgspec
import pytest

from rollouts.cluster.decoding import decode_route
from rollouts.controller.act.calls import Apply, AskDataPlanes, CreateRoute, Delete, Patch, ReadRoute
from rollouts.controller.act.render import render
from rollouts.controller.observe.observer import Seen
from rollouts.controller.observe.places import Place
from rollouts.controller.observe.routes import RouteRead
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AskDrained, AskLive, AskRoute, Intent, MakeRoute, ReleaseRoute, SetTraffic
from rollouts.core.model.status import Cutover
from rollouts.core.model.traffic import (
    ALL_TO_STABLE,
    IDLE_HEADER,
    MatchKind,
    MatchRoute,
    NamedMatch,
    RequestMatch,
    RouteName,
    Split,
    TextMatch,
)
from rollouts.errors import ApiConflict, Unroutable
from rollouts.objects import Manifest
from rollouts.ports import JSON_PATCH, DrainQuestion
from rollouts.sim.network.gateway_types import HTTP_ROUTE
from rollouts.sim.storage.patches import json_patch
from rollouts.traffic.codec import ApplyOwned, Context, DeleteOwned, Destination, Objects, Op, PatchUser, Target
from tests.controller.routes import BETA, MARKS, PACE, ROUTE, Reading, route_manifest, routed
from tests.controller.world import World, rollout

pytestmark = pytest.mark.virtual_time

HALF = Split(Fraction(1, 2))
GUARD = {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}


def seen_with(world: World, manifest: Manifest, *, spec_names_it: bool = True) -> Seen:
    """What is observed while the watch shows this route."""
    reading = Reading(world)
    version = int(manifest["metadata"]["resourceVersion"])
    world.rollouts.put("", (routed if spec_names_it else rollout)(version=version, generation=version))
    reading.shown(decode_route(msgspec.json.encode(manifest)))
    return reading.seen()


def set_traffic(split: Split, *, version: str = "7") -> SetTraffic:
    """The decision."""
    return SetTraffic(route=ROUTE, uid="cart-uid", resource_version=version, split=split)


def patched(before: Manifest, calls: tuple[Any, ...]) -> Manifest:
    """The object after the one patch that there is."""
    (call,) = calls
    assert isinstance(call, Patch)
    assert (call.kind, call.namespace, call.name) == (HTTP_ROUTE, "shop", before["metadata"]["name"])
    assert (call.content_type, call.route) == (JSON_PATCH, ROUTE)
    after: Manifest = json_patch(before, list(call.body))
    return after


def without_ledger(manifest: Manifest) -> Manifest:
    """The object without the codec's note, which is its own affair."""
    metadata = manifest["metadata"]
    annotations = {name: text for name, text in metadata["annotations"].items() if name != "rollouts.dev/route"}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


@pytest.mark.parametrize(
    "users",
    [
        {},
        {"labels": {"team": "shop"}},
        {"annotations": {"note": "x/y~z"}},
        {"labels": {}, "annotations": {}},
        {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}},
    ],
)
async def test_the_first_write_brings_the_weights_and_our_marks_together(users: Manifest, world: World) -> None:
    """Two writes would leave a moment in which somebody's route is changed and nobody knows by whom."""
    before = route_manifest(version=7, **users)
    seen = seen_with(world, before)

    calls = render(seen.snapshot, set_traffic(HALF), seen.routes)

    after = without_ledger(patched(before, calls))
    assert isinstance(calls[0], Patch)
    assert next(iter(calls[0].body)) == GUARD
    assert [each["weight"] for each in after["spec"]["rules"][0]["backendRefs"]] == [1, 1]
    assert after["metadata"]["labels"] == {**users.get("labels", {}), **MARKS["labels"]}
    assert after["metadata"]["annotations"] == {**users.get("annotations", {}), **MARKS["annotations"]}


async def test_a_weight_change_is_one_write_and_touches_no_mark(world: World) -> None:
    """The cluster is asked for nothing it need not do."""
    before = route_manifest(version=7, **MARKS)
    seen = seen_with(world, before)

    (call,) = render(seen.snapshot, set_traffic(HALF), seen.routes)

    assert isinstance(call, Patch)
    operations: Any = call.body
    assert not [each for each in operations if each["path"].endswith(("managed", "managed-by", "router"))]


async def test_what_is_so_already_is_not_written(world: World) -> None:
    """A patch that changes nothing costs the API server as much as one that does."""
    seen = seen_with(world, route_manifest(version=7, **MARKS))

    assert render(seen.snapshot, set_traffic(ALL_TO_STABLE), seen.routes) == ()


async def test_a_route_that_says_the_right_thing_is_still_marked_as_ours(world: World) -> None:
    """Unmarked it would not be watched, and another Rollout could take it."""
    before = route_manifest(version=7)
    seen = seen_with(world, before)

    after = patched(before, render(seen.snapshot, set_traffic(ALL_TO_STABLE), seen.routes))

    assert after == {**before, "metadata": {**before["metadata"], **MARKS}}


async def test_a_rule_of_ours_gets_its_requests_once_every_proxy_follows(world: World) -> None:
    """The decision says whether they do; until then the rule stays as it is."""
    staff = MatchRoute("staff", RequestMatch(headers=(NamedMatch("x-staff", TextMatch(MatchKind.EXACT, "yes")),)))
    before = route_manifest(version=7, **MARKS)
    split = Split(Fraction(0), (staff,))
    seen = seen_with(world, before)
    idle = patched(before, render(seen.snapshot, set_traffic(split), seen.routes))
    idle = {**idle, "metadata": {**idle["metadata"], "resourceVersion": "8"}}
    seen = seen_with(world, idle)
    again = set_traffic(split, version="8")

    assert IDLE_HEADER in str(idle["spec"])
    assert render(seen.snapshot, replace(again, settled=False), seen.routes) == ()
    used = patched(idle, render(seen.snapshot, replace(again, settled=True), seen.routes))
    assert IDLE_HEADER not in str(used["spec"])
    assert "x-staff" in str(used["spec"])


async def test_a_released_route_is_as_its_user_wrote_it(world: World) -> None:
    """Weights, managed rules, the codec's note and our marks: nothing of ours stays, and nothing of theirs goes."""
    users = route_manifest(version=7, labels={"team": "shop"}, annotations={"note": "x"}, weights=(3, 0))
    seen = seen_with(world, users)
    managed = patched(users, render(seen.snapshot, set_traffic(HALF), seen.routes))
    managed["metadata"] = managed["metadata"] | {"resourceVersion": "8"}

    left = seen_with(world, managed, spec_names_it=False)
    release = ReleaseRoute(route=ROUTE, uid="cart-uid", resource_version="8")
    calls = render(left.snapshot, release, left.routes)

    assert calls[0].leaves_watch  # type: ignore[union-attr]
    assert patched(managed, calls) == {**users, "metadata": users["metadata"] | {"resourceVersion": "8"}}


@pytest.mark.parametrize(
    ("intent", "read", "words"),
    [
        (set_traffic(HALF, version="6"), True, ""),
        (set_traffic(HALF, version="8"), True, ""),
        (set_traffic(HALF), False, ""),
        (MakeRoute(route=ROUTE, split=HALF), True, r"trafficRouting\.own has no manifest"),
        (replace(set_traffic(HALF), rewrite=True), True, r"trafficRouting\.own has no manifest"),
    ],
    ids=["for an older version", "for a newer one", "not read", "made of no manifest", "made again of none"],
)
async def test_a_plan_for_another_view_is_a_conflict(intent: Intent, read: bool, words: str, world: World) -> None:
    """What another wrote since must be looked at first, and the spec may have lost its manifest."""
    seen = seen_with(world, route_manifest(version=7))

    with pytest.raises(ApiConflict, match=words or None):
        render(seen.snapshot, intent, seen.routes if read else {})


async def test_a_route_without_its_codec_is_left_alone(world: World) -> None:
    """Only the codec knows what of it is ours."""
    marks = {**MARKS, "annotations": {"rollouts.dev/managed-by": "cart", "rollouts.dev/router": "acme"}}
    seen = seen_with(world, route_manifest(version=7, **marks), spec_names_it=False)
    release = ReleaseRoute(route=RouteName("acme", "HTTPRoute", "shop", "cart"), uid="cart-uid", resource_version="7")

    with pytest.raises(Unroutable, match="acme"):
        render(seen.snapshot, release, seen.routes)


async def test_questions_carry_what_their_answer_needs(world: World) -> None:
    """They are asked on the side, when nobody has the snapshot at hand any more."""
    seen = seen_with(world, route_manifest(version=7, **MARKS))
    cutovers = tuple(Cutover(service=each, from_revision="v1", to_revision="v2") for each in ("cart-canary", "cart"))
    snapshot = replace(seen.snapshot, status=replace(seen.snapshot.status, cutovers=cutovers))

    (read,) = render(snapshot, AskRoute(ROUTE), seen.routes)
    asks = AskLive(route=ROUTE, resource_version="7", split=HALF, pace=PACE, since_s=5.0, before=Fraction(1, 5))
    (live,) = render(snapshot, asks, seen.routes)
    (drained,) = render(snapshot, AskDrained("v1"), seen.routes)

    assert read == ReadRoute(route=ROUTE, kinds=(HTTP_ROUTE, BETA))
    assert isinstance(live, AskDataPlanes)
    assert (live.question.stable_service, live.question.canary_service) == ("cart", "cart-canary")
    assert (live.question.gateways, live.question.names) == (("shop/public",), frozenset({"cart"}))
    assert (live.question.since_s, live.question.before, live.pace) == (5.0, Fraction(1, 5), PACE)
    assert isinstance(drained, DrainQuestion)
    assert (drained.rollout, drained.revision, drained.service) == ("cart", "v1", "cart")
    assert drained.gateways == ("shop/public",)


@dataclass(frozen=True)
class Owning:
    """A codec that keeps its weights in an object of its own beside the user's."""

    ops: tuple[Op, ...]

    def plan(self, *_: Any) -> tuple[Op, ...]:
        """What it was told."""
        return self.ops

    release = plan


def owning(seen: Seen, *ops: Op, owned: Manifest | None = None) -> dict[RouteName, RouteRead]:
    """The same route, read by such a codec."""
    read = seen.routes[ROUTE]
    assert read.objects is not None
    target = Target(kinds=(HTTP_ROUTE,), namespace="shop", name="cart", owned_name="cart-weights")
    place: Any = Place(ROUTE, Owning(ops), target)  # type: ignore[arg-type]
    context = Context(rollout="cart", namespace="shop", stable=Destination("cart"), canary=Destination("cart-canary"))
    objects = Objects(read.objects.user, owned)
    return {ROUTE: replace(read, place=place, context=context, owned_kind=HTTP_ROUTE, objects=objects)}


OWNING_MARKS = {**MARKS, "annotations": MARKS["annotations"] | {"rollouts.dev/beside": "cart-weights"}}
OWNED_SEEN = {"metadata": {"name": "cart-weights", "uid": "u", "resourceVersion": "5"}}
OWNED = {"metadata": {"name": "cart-weights"}, "spec": {"weights": [1, 1]}}


async def test_an_object_of_ours_goes_with_the_rollout_and_is_watched(world: World) -> None:
    """Deleting the Rollout must leave nothing behind, and a change by anybody must wake us."""
    seen = seen_with(world, route_manifest(version=7, **OWNING_MARKS))

    (call,) = render(seen.snapshot, set_traffic(HALF), owning(seen, ApplyOwned(OWNED)))

    assert isinstance(call, Apply)
    assert call.manifest["apiVersion"] == HTTP_ROUTE.api_version
    metadata = call.manifest["metadata"]
    assert (metadata["namespace"], metadata["ownerReferences"][0]["uid"]) == ("shop", "cart-uid")
    assert (metadata["labels"], metadata["annotations"]) == (MARKS["labels"], MARKS["annotations"])
    assert "resourceVersion" not in metadata


async def test_an_object_of_ours_is_changed_only_as_it_was_read(world: World) -> None:
    """Another one may have its name by now; where it is gone the view is old."""
    seen = seen_with(world, route_manifest(version=7, **OWNING_MARKS))

    (call,) = render(seen.snapshot, set_traffic(HALF), owning(seen, ApplyOwned(OWNED), owned=OWNED_SEEN))

    assert isinstance(call, Apply)
    assert (call.manifest["metadata"]["uid"], call.manifest["metadata"]["resourceVersion"]) == ("u", "5")
    with pytest.raises(ApiConflict):
        render(seen.snapshot, set_traffic(HALF), owning(seen, DeleteOwned()))


async def test_the_users_object_is_marked_though_only_ours_changes(world: World) -> None:
    """And the codec's order holds: what is pointed at is there first."""
    seen = seen_with(world, route_manifest(version=7))

    calls = render(seen.snapshot, set_traffic(HALF), owning(seen, ApplyOwned(OWNED)))

    assert [type(call) for call in calls] == [Apply, Patch]
    assert isinstance(calls[1], Patch)
    after = json_patch(route_manifest(version=7), list(calls[1].body))
    assert after["metadata"]["annotations"] == OWNING_MARKS["annotations"]


async def test_what_we_own_is_found_though_the_spec_no_longer_names_its_route(world: World) -> None:
    """The marks tell its name: a canary Ingress that is left behind would go on taking its part of the requests."""
    seen = seen_with(world, route_manifest(version=7, **OWNING_MARKS), spec_names_it=False)

    assert seen.routes[ROUTE].place.target.owned_name == "cart-weights"


async def test_on_release_ours_goes_after_the_users_object_no_longer_points_at_it(world: World) -> None:
    """A route that points at nothing answers 500; so each is a pass of its own, and our marks bring the second one about."""
    seen = seen_with(world, route_manifest(version=7, **OWNING_MARKS))
    removal = {"op": "remove", "path": "/spec/rules"}
    release = ReleaseRoute(route=ROUTE, uid="cart-uid", resource_version="7")

    (first,) = render(seen.snapshot, release, owning(seen, DeleteOwned(), PatchUser((removal,)), owned=OWNED_SEEN))
    second = render(seen.snapshot, release, owning(seen, DeleteOwned(), owned=OWNED_SEEN))

    assert isinstance(first, Patch)
    assert (list(first.body), first.leaves_watch) == ([GUARD, removal], False)
    assert [type(call) for call in second] == [Delete, Patch]
    assert second[0] == Delete(
        kind=HTTP_ROUTE, name="cart-weights", uid="u", resource_version="5", namespace="shop", route=ROUTE
    )
    assert isinstance(second[1], Patch)
    assert second[1].leaves_watch
    after = json_patch(route_manifest(version=7, **OWNING_MARKS), list(second[1].body))
    assert (after["metadata"]["labels"], after["metadata"]["annotations"]) == ({}, {})


def of_ours(world: World, *, changed: Manifest, **metadata: Any) -> tuple[Manifest, Seen]:
    """A route that was made from a manifest, at 50 %, and what is observed once the manifest has changed."""
    made = {
        **route_manifest(version=7, **MARKS),
        "metadata": {**route_manifest(version=7, **MARKS)["metadata"], **metadata},
    }
    half = patched(made, render((seen := seen_with(world, made)).snapshot, set_traffic(HALF), seen.routes))
    half["metadata"] = {**half["metadata"], "resourceVersion": "8"}
    seen = seen_with(world, half)
    read = seen.routes[ROUTE]
    return half, replace(seen, routes={ROUTE: replace(read, place=replace(read.place, own=changed))})


async def test_a_route_of_ours_is_made_with_its_share(world: World) -> None:
    """Marked and owned from its first version on. No API server has looked at its manifest before."""
    manifest = route_manifest(labels={"tier": "web"})
    _, seen = of_ours(world, changed=manifest)
    _, unreadable = of_ours(world, changed={**manifest, "spec": {"rules": [3]}})

    (made,) = render(seen.snapshot, MakeRoute(route=ROUTE, split=HALF), seen.routes)

    assert isinstance(made, CreateRoute)
    assert (made.kind, made.name, made.route) == (HTTP_ROUTE, "cart", ROUTE)
    assert made.manifest["metadata"]["labels"] == {"tier": "web", **MARKS["labels"]}
    assert [owner["name"] for owner in made.manifest["metadata"]["ownerReferences"]] == ["cart"]
    assert [each["weight"] for each in made.manifest["spec"]["rules"][0]["backendRefs"]] == [1, 1]
    with pytest.raises(Unroutable, match=r"cannot read its manifest in trafficRouting\.own"):
        render(unreadable.snapshot, MakeRoute(route=ROUTE, split=HALF), unreadable.routes)


async def test_a_route_of_ours_is_written_again_with_its_share(world: World) -> None:
    """In one patch of the version that was seen: what the manifest has now, the share, our marks, and an owner."""
    manifest = route_manifest(labels={"tier": "web"})
    manifest["spec"]["rules"][0]["timeouts"] = {"request": "10s"}
    before, seen = of_ours(world, changed=manifest, uid="cart-uid")

    calls = render(seen.snapshot, replace(set_traffic(HALF, version="8"), rewrite=True), seen.routes)

    after = patched(before, calls)
    assert isinstance(calls[0], Patch) and calls[0].strict
    assert next(iter(calls[0].body)) == {**GUARD, "value": "8"}
    (rule,) = after["spec"]["rules"]
    assert rule["timeouts"] == {"request": "10s"}
    assert [each["weight"] for each in rule["backendRefs"]] == [1, 1]
    assert after["metadata"]["labels"] == {"tier": "web", **MARKS["labels"]}
    assert {**after["metadata"]["annotations"], **MARKS["annotations"]} == after["metadata"]["annotations"]
    assert [owner["name"] for owner in after["metadata"]["ownerReferences"]] == ["cart"]
