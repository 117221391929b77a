"""Promise: a route of another namespace is read and written only with its owner's leave, and told like one that is not there."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from rollouts.api.status.wire import status_from_wire
from rollouts.cluster.structs import RouteObject
from rollouts.controller.observe.observer import Unreadable
from rollouts.controller.workqueue.inbox import RouteAnswer
from rollouts.core.model.traffic import Route, RouteAbsent, RouteName, RouteSeen, RouteUnasked
from rollouts.sim.network.gateway_types import HTTP_ROUTE
from tests.controller.routes import MARKS, ROUTE, Reading, route, routed
from tests.controller.world import CART, World

pytestmark = pytest.mark.virtual_time

EDGE = RouteName("gatewayAPI", "HTTPRoute", "edge", "cart")
NAMING = {"gatewayAPI": {"httpRoutes": [{"name": "cart", "namespace": "edge"}]}}
LEAVE = {"rollouts.dev/allow-rollouts-from": "shop"}
MARK = {"rollouts.dev/managed-by": "shop/cart", "rollouts.dev/router": "gatewayAPI"}
RECORD = {"routesElsewhere": [{"router": "gatewayAPI", "kind": "HTTPRoute", "namespace": "edge", "name": "cart"}]}


def elsewhere(annotations: dict[str, str], *, weights: tuple[int, int] = (3, 1)) -> RouteObject:
    """A route of namespace edge whose backends are in namespace shop."""
    labels = MARKS["labels"] if "rollouts.dev/managed-by" in annotations else {}
    found = route(namespace="edge", annotations=annotations, labels=labels, weights=weights)
    spec = bytes(found.spec)
    for each in (b'"name":"cart"', b'"name":"cart-canary"'):
        spec = spec.replace(each, each + b',"namespace":"shop"')
    return RouteObject(metadata=found.metadata, spec=type(found.spec)(spec))


def seen(reading: Reading) -> dict[RouteName, Route]:
    """The routes in the snapshot of Rollout cart."""
    return dict(reading.seen().snapshot.routes)


def answered(world: World, annotations: dict[str, str] | None) -> Route:
    """What is told of a route that the spec names, and that the API server was asked for."""
    world.rollouts.put("", routed(trafficRouting=NAMING))
    user = None if annotations is None else elsewhere(annotations)
    world.inbox.put_route(CART, EDGE, RouteAnswer(asked_s=0.0, kind=HTTP_ROUTE, user=user))
    return seen(Reading(world))[EDGE]


async def test_with_its_owners_leave_it_is_read_as_any_other(world: World) -> None:
    """Shared gateways keep their routes in a namespace of their own."""
    found = answered(world, LEAVE)

    assert isinstance(found, RouteSeen)
    assert found.split is not None
    assert found.split.share == Fraction(1, 4)


async def test_without_leave_it_is_told_like_one_that_is_not_there(world: World) -> None:
    """Else a Rollout would tell its author what there is in namespaces that he may not read."""
    closed, absent = answered(world, {}), answered(world, None)

    assert closed == absent
    assert isinstance(closed, RouteAbsent)
    assert "kubectl annotate httproutes.gateway.networking.k8s.io -n edge cart" in closed.message
    assert "rollouts.dev/allow-rollouts-from=shop" in closed.message


async def test_leave_that_was_taken_back_in_an_update_is_told_as_such(world: World) -> None:
    """What it brings where cannot be known any more, so it may not be taken for a route that is not there: pods would go."""
    found = answered(world, MARK)

    assert isinstance(found, RouteSeen)
    assert found.split is None
    assert "its owner no longer allows this Rollout" in found.problem


@pytest.mark.parametrize(
    ("annotations", "record", "left"),
    [(MARK | LEAVE, RECORD, True), (MARK | LEAVE, {}, False), (MARK, {}, False), (LEAVE, {}, False)],
    ids=["on record", "leave and a mark", "a mark", "leave"],
)
async def test_a_mark_elsewhere_needs_the_record(annotations: Any, record: Any, left: bool, reading: Reading) -> None:
    """Its owner can write both the mark and the leave, and would hold up any Rollout that he likes."""
    reading.world.rollouts.put("", routed(status=record))
    reading.shown(elsewhere(annotations))
    reading.shown(route(**MARKS))
    found = seen(reading)

    assert (EDGE in found) is left
    if left:
        assert isinstance(found[EDGE], RouteSeen)
        assert not found[EDGE].named


async def test_a_route_on_record_that_nobody_watches_yet_is_to_be_asked_for(reading: Reading) -> None:
    """Just after a start: that it is not seen does not mean that it is gone."""
    reading.world.rollouts.put("", routed(status=RECORD))
    reading.shown(route(**MARKS))
    assert seen(reading)[EDGE] == RouteUnasked(EDGE, named=False)


@pytest.mark.parametrize("field", ["namespace", "name"])
async def test_a_record_that_names_no_object_counts_for_nothing(field: str, reading: Reading) -> None:
    """Status is written by us; whoever else may write it must not choose what is asked for."""
    (entry,) = RECORD["routesElsewhere"]
    status = {"routesElsewhere": [{**entry, field: "../../kube-system"}]}
    assert len(status_from_wire(status).elsewhere) == 1
    reading.world.rollouts.put("", routed(status=status))
    reading.shown(route(**MARKS))
    assert set(seen(reading)) == {ROUTE}


@pytest.mark.parametrize(
    ("router", "settings"),
    [
        ("gatewayAPI", {"httpRoutes": [{"name": "../../edge/httproutes/cart"}]}),
        ("gatewayAPI", {"httpRoutes": [{"name": "cart", "namespace": "edge/httproutes/cart#"}]}),
        ("istio", {"virtualService": {"name": "cart.edge/../x"}}),
        ("nginx", {"stableIngress": "cart%2F.."}),
        ("traefik", {"weightedTraefikServiceName": "Cart"}),
        ("contour", {"httpProxies": [{"name": "cart?force=true"}]}),
        ("apisix", {"route": {"name": ".."}}),
        ("gloo", {"routeTables": [{"name": "cart", "namespace": "."}]}),
        ("skipper", {"ingress": "cart/status"}),
        ("alb", {"ingress": "a" * 254, "servicePort": 80}),
    ],
)
async def test_a_name_that_is_none_is_refused_with_its_path(router: str, settings: Any, reading: Reading) -> None:
    """It would end in the path of a URL, with the rights of a controller that may change routes everywhere."""
    reading.world.rollouts.put("", routed(trafficRouting={router: settings}))
    observed = reading.observer.observe(CART)
    assert isinstance(observed, Unreadable)
    (problem,) = observed.problems
    assert problem.path.startswith(f"spec.strategy.canary.trafficRouting.{router}")
    assert "must be the name of" in problem.message
