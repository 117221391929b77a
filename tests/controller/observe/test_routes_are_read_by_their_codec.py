"""Observe: the routes that a spec names, and those it no longer names, become core values by their router's codec."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest

from rollouts.cluster.decoding import decode_route
from rollouts.cluster.structs import RolloutObject, RouteObject
from rollouts.controller.observe.observer import Seen, Unreadable
from rollouts.controller.workqueue.inbox import RouteAnswer
from rollouts.core.model.snapshot import DrainSeen
from rollouts.core.model.traffic import (
    LiveSeen,
    Route,
    RouteAbsent,
    RouteName,
    RouteSeen,
    RouteUnasked,
    Split,
    VerifiedBy,
)
from rollouts.objects import Kind, Manifest
from rollouts.sim.clock import EPOCH_S
from rollouts.sim.network.gateway_types import HTTP_ROUTE
from rollouts.traffic.nginx.settings import INGRESS_KINDS
from rollouts.traffic.registry import registry
from tests import build
from tests.controller.routes import MARKS, ROUTE, Reading, route, route_manifest, routed
from tests.controller.world import CART, World, metadata, owned, rollout
from tests.traffic.situation import Situation

pytestmark = pytest.mark.virtual_time


def seen_route(reading: Reading, name: RouteName = ROUTE) -> Route:
    """What is seen of one route."""
    return reading.seen().snapshot.routes[name]


@pytest.mark.parametrize("levels", [70, 500, 1_100, 9_000])
async def test_a_route_that_is_nested_too_deeply_is_told_and_not_read(levels: int, reading: Reading) -> None:
    """Codecs are recursive; the pass of its Rollout says what to mend, and no other pass notices."""
    deep = b'{"rules":%b}' % (b"[" * levels + b"]" * levels)
    data = b'{"metadata":%b,"spec":%b}' % (msgspec.json.encode(metadata("cart", **MARKS)), deep)
    reading.world.rollouts.put("", routed())
    reading.shown(decode_route(data))
    seen = seen_route(reading)

    assert isinstance(seen, RouteAbsent)
    assert "nested more than 64 levels deep; reduce the nesting" in seen.message


def _own(name: str = "a", **metadata: str) -> Manifest:
    return build.manifest(HTTP_ROUTE, name, metadata=metadata, spec={})


def _names(*own: Manifest) -> dict[str, Any]:
    names = [{"name": "a"}, {"name": "there", "namespace": "infra"}]
    return {"gatewayAPI": {"httpRoutes": names}, "own": list(own)}


UNFIT = {"httpRoutes": [{"name": "a"}], "features": ["Telepathy"]}
NO_ROUTER = "no router of trafficRouting names gateway.networking.k8s.io/"


@pytest.mark.parametrize(
    ("routing", "told"),
    [
        ({"plugins": {"acme/router": {"a": 1}}}, {".plugins[acme/router]": "gatewayAPI"}),
        ({"gatewayAPI": UNFIT, "plugins": {"mine": {}}}, {".gatewayAPI.features": "", ".plugins.mine": ""}),
        ({"gatewayAPI": {"httpRoutes": [{"name": "a"}, {"name": "a", "rules": ["x"]}]}}, {".gatewayAPI": ""}),
        (_names(_own("b")), {".own[0]": f"{NO_ROUTER}v1 HTTPRoute b; name it there"}),
        (_names({**_own(), "apiVersion": "gateway.networking.k8s.io/v9"}), {".own[0]": NO_ROUTER}),
        (_names(_own(namespace="else")), {".own[0]": NO_ROUTER}),
        (_names(_own(), _own()), {".own[1]": "a second time"}),
        (_names(_own("there", namespace="infra")), {".own[0].metadata.namespace": "must be the Rollout's namespace"}),
    ],
    ids=["no such router", "its own part", "named twice", "unnamed", "version", "namespace", "twice", "elsewhere"],
)
async def test_what_is_wrong_with_the_routing_is_told_with_its_path(
    routing: dict[str, Any], told: dict[str, str], reading: Reading
) -> None:
    """A router that is ignored would leave all traffic where it is, and a route that none names would never be managed."""
    reading.world.rollouts.put("", routed(trafficRouting=routing))
    seen = reading.observer.observe(CART)
    assert isinstance(seen, Unreadable), seen
    problems = {each.path.removeprefix("spec.strategy.canary.trafficRouting"): each.message for each in seen.problems}

    assert (list(problems), len(seen.problems)) == (list(told), len(told))
    assert [words in problems[path] for path, words in told.items()] == [True] * len(told)


@pytest.mark.parametrize(
    ("spec", "why"),
    [({}, "none of its rules has Service cart as a backend"), ({"rules": ["x"]}, "the provider cannot read it")],
)
async def test_a_manifest_that_cannot_be_managed_is_not_made(spec: object, why: str, world: World) -> None:
    """The route would be there, and the first step would stand. No API server has seen the manifest, so it may say anything."""
    own = {**_own(ROUTE.name), "spec": spec}
    routing = {"gatewayAPI": {"httpRoutes": [{"name": ROUTE.name}]}, "own": [own]}
    world.rollouts.put("", routed(trafficRouting=routing))
    world.inbox.put_route(CART, ROUTE, RouteAnswer(asked_s=0.0))
    seen = seen_route(Reading(world, found=False))

    assert isinstance(seen, RouteAbsent)
    assert not seen.ours
    assert why in seen.message


async def test_a_route_that_is_not_watched_is_known_only_by_asking(world: World) -> None:
    """Not to be in a filtered watch is not to be absent."""
    reading = Reading(world, found=False)
    reading.world.rollouts.put("", routed())
    assert seen_route(reading) == RouteUnasked(ROUTE)


async def test_a_route_that_does_not_exist_is_a_value_with_its_reason(reading: Reading) -> None:
    """A missing CRD and a missing route ask for different remedies."""
    reading.world.rollouts.put("", routed())
    reading.world.inbox.put_route(CART, ROUTE, RouteAnswer(asked_s=0.0, message="no such kind"))
    assert seen_route(reading) == RouteAbsent(ROUTE, EPOCH_S, "no such kind")


async def test_a_route_is_read_from_the_answer_until_it_is_watched(reading: Reading) -> None:
    """Our label is not on it yet, so no watch shows it."""
    reading.world.rollouts.put("", routed())
    answer = RouteAnswer(asked_s=0.0, kind=HTTP_ROUTE, user=route(weights=(9, 1)))
    reading.world.inbox.put_route(CART, ROUTE, answer)
    seen = seen_route(reading)

    assert isinstance(seen, RouteSeen)
    assert (seen.split, seen.managed_by, seen.named) == (Split(Fraction(1, 10)), "", True)


async def test_what_the_watch_shows_wins_over_an_answer(reading: Reading) -> None:
    """An answer is of the moment when it was asked for."""
    reading.world.rollouts.put("", routed())
    answer = RouteAnswer(asked_s=0.0, kind=HTTP_ROUTE, user=route(weights=(1, 1)))
    reading.world.inbox.put_route(CART, ROUTE, answer)
    reading.shown(route(version=7, weights=(3, 1), **MARKS))
    seen = seen_route(reading)

    assert isinstance(seen, RouteSeen)
    assert (seen.split, seen.resource_version, seen.managed_by) == (Split(Fraction(1, 4)), "7", "cart")


async def test_a_route_that_its_codec_refuses_says_why(reading: Reading) -> None:
    """A user may have taken the Service out of the route; the remedy is theirs."""
    reading.world.rollouts.put("", routed())
    manifest = route(**MARKS)
    reading.world.rollouts.put(
        "", routed(trafficRouting={"gatewayAPI": {"httpRoutes": [{"name": "cart", "rules": ["none"]}]}}, version=2)
    )
    reading.shown(manifest)
    seen = seen_route(reading)

    assert isinstance(seen, RouteSeen)
    assert seen.split is None
    assert "none" in seen.problem


@pytest.mark.parametrize(
    ("text", "allowed", "managed_by"),
    [
        ("cart", "", "cart"),
        ("shop/cart", "", "cart"),
        ("web", "", "web"),
        ("other/cart", "other", "other/cart"),
        ("other/cart", "edge, other", "other/cart"),
        ("other/cart", "", ""),
        ("other/cart", "others", ""),
        ("other/cart", "*", ""),
        ("../cart", "..", ""),
        ("other/../cart", "other", ""),
    ],
)
async def test_a_route_tells_which_rollout_has_it(text: str, allowed: str, managed_by: str, reading: Reading) -> None:
    """A Rollout of the same name in another namespace is another Rollout, and one that the route's owner has to allow."""
    reading.world.rollouts.put("", routed())
    allows = {"rollouts.dev/allow-rollouts-from": allowed}
    reading.shown(route(**MARKS | {"annotations": {"rollouts.dev/managed-by": text, **allows}}))
    seen = seen_route(reading)

    assert isinstance(seen, RouteSeen)
    assert seen.managed_by == managed_by


async def test_a_route_that_the_spec_no_longer_names_is_seen_until_it_is_given_back(reading: Reading) -> None:
    """Left alone it would keep sending requests to one revision's Service."""
    name = RouteName("gatewayAPI", "HTTPRoute", "shop", "old")
    reading.world.rollouts.put("", rollout())
    reading.shown(route("old", **MARKS))
    seen = seen_route(reading, name)

    assert isinstance(seen, RouteSeen)
    assert (seen.named, seen.managed_by) == (False, "cart")


async def test_a_route_of_a_router_that_is_gone_cannot_be_read(reading: Reading) -> None:
    """The package that knew it was taken out of the image: nobody may guess what is ours in it."""
    reading.world.rollouts.put("", routed())
    marks = {"rollouts.dev/managed-by": "cart", "rollouts.dev/router": "acme"}
    reading.shown(route("old", **MARKS | {"annotations": marks}))
    seen = seen_route(reading, RouteName("acme", "HTTPRoute", "shop", "old"))

    assert isinstance(seen, RouteSeen)
    assert seen.split is None
    assert "'acme'" in seen.problem


@pytest.mark.parametrize(("marks", "fit"), [({}, False), (MARKS, False), (MARKS | {"ownerReferences": owned()}, True)])
async def test_what_only_has_the_name_of_ours_is_never_taken_over(marks: Any, fit: bool, reading: Reading) -> None:
    """Somebody else's canary Ingress holds somebody else's rules."""
    ingress = Kind("networking.k8s.io", "v1", "Ingress", "ingresses")
    name = RouteName("nginx", "Ingress", "shop", "cart")
    http = {
        "paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "cart", "port": {"number": 80}}}}]
    }
    reading.world.rollouts.put("", routed(trafficRouting={"nginx": {"stableIngress": "cart"}}))
    user = decode_route(msgspec.json.encode({"metadata": metadata("cart"), "spec": {"rules": [{"http": http}]}}))
    owned = decode_route(msgspec.json.encode({"metadata": metadata("cart-canary", **marks), "spec": {}}))
    answer = RouteAnswer(asked_s=0.0, kind=ingress, user=user, owned_kind=ingress, owned=owned)
    reading.world.inbox.put_route(CART, name, answer)
    seen = seen_route(reading, name)

    assert isinstance(seen, RouteSeen)
    assert ("is not the Rollout's; rename" not in seen.problem) is fit


async def test_what_was_answered_by_the_data_plane_and_the_probes_is_in_the_snapshot(reading: Reading) -> None:
    """A pass depends on what is there, not on what happened."""
    live = LiveSeen(at_s=1.0, resource_version="1", live=True, by=VerifiedBy.CONFIG)
    drained = DrainSeen(2.0, 3)
    reading.world.rollouts.put("", routed())
    reading.shown(route(**MARKS))
    reading.world.inbox.put_live(CART, ROUTE, live)
    reading.world.inbox.put_drained(CART, "v1", drained)
    seen = reading.seen()

    assert seen.snapshot.drains == {"v1": drained}
    (found,) = seen.snapshot.routes.values()
    assert isinstance(found, RouteSeen)
    assert found.live == live


async def test_a_version_of_a_route_is_decoded_once(reading: Reading) -> None:
    """Most passes follow from something else; a route with its status is several KB of JSON."""
    reading.world.rollouts.put("", routed())
    reading.shown(route(**MARKS))
    first, second = reading.seen().routes[ROUTE].objects, reading.seen().routes[ROUTE].objects
    assert first is not None and second is not None
    assert first.user is second.user
    reading.shown(route(version=2, **MARKS))
    third = reading.seen().routes[ROUTE].objects
    assert third is not None and third.user is not first.user


def _split_of(seen: Seen) -> Split:
    found = seen.snapshot.routes[ROUTE]
    assert isinstance(found, RouteSeen) and found.split is not None
    return found.split


async def test_what_a_version_of_a_route_says_is_read_once(reading: Reading) -> None:
    """A codec works for longer than the rest of a pass; another version, and other roles of the Services, are read again."""
    reading.world.rollouts.put("", routed())
    reading.shown(route(weights=(3, 1), **MARKS))
    first = _split_of(reading.seen())
    assert _split_of(reading.seen()) is first
    assert first.share == Fraction(1, 4)
    reading.shown(route(version=2, weights=(1, 1), **MARKS))
    assert _split_of(reading.seen()).share == Fraction(1, 2)
    reading.shown(route(version=3, weights=(3, 1), **MARKS))
    reading.world.rollouts.put("", routed(stable="cart-canary", canary="cart", version=2, generation=2))
    assert _split_of(reading.seen()).share == Fraction(3, 4)


async def test_what_stands_beside_a_route_is_read_again_when_it_alone_changes(world: World) -> None:
    """The weight of a canary Ingress is not in the user's own."""
    reading = Reading(world, found=False)
    world.rollouts.put("", routed(trafficRouting={"nginx": {"stableIngress": "cart"}}))
    path = {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "cart", "port": {"number": 80}}}}
    user = build.manifest(
        INGRESS_KINDS[0], "cart", metadata=metadata("cart"), spec={"rules": [{"http": {"paths": [path]}}]}
    )
    start = Situation.of(registry()["nginx"], {"stableIngress": "cart"}, user)
    (ingress,) = start.target.kinds
    table = world.store.add(ingress, RouteObject)
    world.kinds.learn((ingress,), ingress)

    found = []
    for version, percent in enumerate((25, 50), start=1):
        objects = start.managed(Split(Fraction(percent, 100))).objects
        assert objects.owned is not None
        if version == 1:
            table.put("", decode_route(msgspec.json.encode(objects.user)))
        ours = {**MARKS, "annotations": MARKS["annotations"] | objects.owned["metadata"]["annotations"]}
        made = metadata(objects.owned["metadata"]["name"], version=version, ownerReferences=owned(), **ours)
        table.put("", decode_route(msgspec.json.encode({**objects.owned, "metadata": made})))
        seen = seen_route(reading, RouteName("nginx", "Ingress", "shop", "cart"))
        assert isinstance(seen, RouteSeen) and seen.split is not None, seen
        found.append(seen.split.share)

    assert found == [Fraction(1, 4), Fraction(1, 2)]


def _from_own(spec: Manifest, version: int = 1) -> RolloutObject:
    """A Rollout whose route `cart` is made from a manifest."""
    own = [_own("cart") | {"spec": spec}]
    return routed(
        trafficRouting={"gatewayAPI": {"httpRoutes": [{"name": "cart"}]}, "own": own},
        version=version,
        generation=version,
    )


async def test_a_route_of_ours_that_is_missing_can_be_made_if_its_codec_can_read_its_manifest(reading: Reading) -> None:
    """No API server has looked at it, so anything may be in it."""
    reading.world.inbox.put_route(CART, ROUTE, RouteAnswer(asked_s=0.0, kind=HTTP_ROUTE))
    reading.world.rollouts.put("", _from_own(route_manifest()["spec"]))
    seen = seen_route(reading)
    assert isinstance(seen, RouteAbsent) and (seen.ours, seen.message) == (True, "")

    unfit: tuple[tuple[Manifest, str], ...] = (
        ({"rules": [3]}, "the provider cannot read it ("),
        ({"rules": []}, "none of its rules"),
    )
    for version, (spec, why) in enumerate(unfit, 2):
        reading.world.rollouts.put("", _from_own(spec, version))
        seen = seen_route(reading)
        told = f"{ROUTE} cannot be created from its manifest in trafficRouting.own: {why}"
        assert isinstance(seen, RouteAbsent) and not seen.ours
        assert seen.message.startswith(told), seen.message


async def test_a_route_that_its_user_made_is_not_taken_for_one_of_ours(reading: Reading) -> None:
    """It would be deleted together with the Rollout."""
    reading.world.rollouts.put("", _from_own({**route_manifest()["spec"], "hostnames": ["a.example"]}))
    reading.shown(route())
    seen = seen_route(reading)

    assert isinstance(seen, RouteSeen)
    assert seen.problem == "it exists, and no Rollout created it; delete it, or remove it from trafficRouting.own"
