"""Observe: the routes that a spec names, and those it no longer names, become core values by their router's codec."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest

from rollouts.cluster.decoding import decode_route
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
from tests import build
from tests.controller.routes import MARKS, ROUTE, Reading, route, routed
from tests.controller.world import CART, World, metadata, owned, rollout

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


def problems(reading: Reading, **routing: Any) -> list[tuple[str, str]]:
    """What is wrong with a spec with this routing."""
    reading.world.rollouts.put("", routed(trafficRouting=routing))
    seen = reading.observer.observe(CART)
    assert isinstance(seen, Unreadable), seen
    return [(each.path, each.message) for each in seen.problems]


async def test_a_router_that_nobody_knows_is_a_problem_of_the_spec(reading: Reading) -> None:
    """A router that is accepted and then ignored would leave all the traffic where it is, and the steps would pass."""
    ((path, message),) = problems(reading, plugins={"acme/router": {"a": 1}})

    assert path == "spec.strategy.canary.trafficRouting.plugins[acme/router]"
    assert "gatewayAPI" in message  # what there is


async def test_problems_of_a_routers_own_part_come_with_their_path_in_the_spec(reading: Reading) -> None:
    """The codec knows only its own part; the user looks at the whole."""
    told = problems(
        reading, gatewayAPI={"httpRoutes": [{"name": "a"}], "features": ["Telepathy"]}, plugins={"mine": {}}
    )

    assert [path for path, _ in told] == [
        "spec.strategy.canary.trafficRouting.gatewayAPI.features",
        "spec.strategy.canary.trafficRouting.plugins.mine",
    ]


async def test_a_route_that_is_named_twice_is_a_problem(reading: Reading) -> None:
    """Two plans for one object would undo each other."""
    told = problems(reading, gatewayAPI={"httpRoutes": [{"name": "a"}, {"name": "a", "rules": ["x"]}]})

    assert [path for path, _ in told] == ["spec.strategy.canary.trafficRouting.gatewayAPI"]


def _own(name: str = "a", **metadata: str) -> Manifest:
    return build.manifest(HTTP_ROUTE, name, metadata=metadata, spec={})


@pytest.mark.parametrize(
    ("own", "path", "message"),
    [
        ([_own("b")], "own[0]", "no router of trafficRouting names"),
        ([{**_own(), "apiVersion": "gateway.networking.k8s.io/v9"}], "own[0]", "no router of trafficRouting names"),
        ([_own(namespace="else")], "own[0]", "no router of trafficRouting names"),
        ([_own(), _own()], "own[1]", "a second time"),
        ([_own("there", namespace="infra")], "own[0].metadata.namespace", "must be the Rollout's namespace"),
    ],
)
async def test_a_route_that_is_to_be_made_is_one_that_a_router_names(
    own: list[object], path: str, message: str, reading: Reading
) -> None:
    """Else it would be made and never managed, or never go with its Rollout."""
    ((where, why),) = problems(
        reading, gatewayAPI={"httpRoutes": [{"name": "a"}, {"name": "there", "namespace": "infra"}]}, own=own
    )

    assert where == f"spec.strategy.canary.trafficRouting.{path}"
    assert message in why


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
    _put(reading)
    assert seen_route(reading) == RouteUnasked(ROUTE)


def _put(reading: Reading) -> None:
    reading.world.rollouts.put("", routed())


async def test_a_route_that_does_not_exist_is_a_value_with_its_reason(reading: Reading) -> None:
    """A missing CRD and a missing route ask for different remedies."""
    _put(reading)
    reading.world.inbox.put_route(CART, ROUTE, RouteAnswer(asked_s=0.0, message="no such kind"))
    assert seen_route(reading) == RouteAbsent(ROUTE, EPOCH_S, "no such kind")


async def test_a_route_is_read_from_the_answer_until_it_is_watched(reading: Reading) -> None:
    """Our label is not on it yet, so no watch shows it."""
    _put(reading)
    answer = RouteAnswer(asked_s=0.0, kind=HTTP_ROUTE, user=route(weights=(9, 1)))
    reading.world.inbox.put_route(CART, ROUTE, answer)
    seen = seen_route(reading)

    assert isinstance(seen, RouteSeen)
    assert (seen.split, seen.managed_by, seen.named) == (Split(Fraction(1, 10)), "", True)


async def test_what_the_watch_shows_wins_over_an_answer(reading: Reading) -> None:
    """An answer is of the moment when it was asked for."""
    _put(reading)
    answer = RouteAnswer(asked_s=0.0, kind=HTTP_ROUTE, user=route(weights=(1, 1)))
    reading.world.inbox.put_route(CART, ROUTE, answer)
    reading.shown(route(version=7, weights=(3, 1), **MARKS))
    seen = seen_route(reading)

    assert isinstance(seen, RouteSeen)
    assert (seen.split, seen.resource_version, seen.managed_by) == (Split(Fraction(1, 4)), "7", "cart")


async def test_a_route_that_its_codec_refuses_says_why(reading: Reading) -> None:
    """A user may have taken the Service out of the route; the remedy is theirs."""
    _put(reading)
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
async def test_a_route_tells_which_rollout_steers_it(
    text: str, allowed: str, managed_by: str, reading: Reading
) -> None:
    """A Rollout of the same name in another namespace is another Rollout, and one that the route's owner has to allow."""
    _put(reading)
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
    _put(reading)
    marks = {"rollouts.dev/managed-by": "cart", "rollouts.dev/router": "acme"}
    reading.shown(route("old", **MARKS | {"annotations": marks}))
    seen = seen_route(reading, RouteName("acme", "HTTPRoute", "shop", "old"))

    assert isinstance(seen, RouteSeen)
    assert seen.split is None
    assert "'acme'" in seen.problem


@pytest.mark.parametrize(
    ("marks", "usable"), [({}, False), (MARKS, False), (MARKS | {"ownerReferences": owned()}, True)]
)
async def test_an_object_that_only_has_the_name_of_ours_is_never_taken_over(
    marks: Any, usable: bool, reading: Reading
) -> None:
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
    assert ("is not the Rollout's; rename" not in seen.problem) is usable


async def test_what_was_answered_by_the_data_plane_and_the_probes_is_in_the_snapshot(reading: Reading) -> None:
    """A pass depends on what is there, not on what happened."""
    live = LiveSeen(at_s=1.0, resource_version="1", live=True, by=VerifiedBy.CONFIG)
    drained = DrainSeen(2.0, 3)
    _put(reading)
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
    _put(reading)
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
