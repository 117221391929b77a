"""Promise: routers, weights and the routes of steps reach the core as they were meant, exact to the last part."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from rollouts.api.spec.parse import parse_spec
from rollouts.api.spec.routing import router_path
from rollouts.core.model.rollout import Router, TrafficRouting
from rollouts.core.model.service_ref import SubsetName
from rollouts.core.model.steps import SetHeaderRoute, SetMirrorRoute, SetWeight, Step
from rollouts.core.model.traffic import MatchKind, MirrorRoute, NamedMatch, RequestMatch, Sticky, TextMatch
from tests.api.routing_specs import GATEWAY, SUBSETS, route_step, routed
from tests.api.specs import Spec, canary
from tests.api.test_a_good_spec_becomes_core_values import parsed_canary


def _routing(spec: Spec) -> TrafficRouting:
    routing = parsed_canary(spec).traffic_routing
    assert routing is not None
    return routing


def _step(spec: Spec) -> Step:
    (step,) = parsed_canary(spec).steps
    return step


def test_each_router_keeps_its_own_part() -> None:
    """What it means is for its codec to say; a null is what was left out."""
    nginx = {"stableIngress": "cart", "annotationPrefix": None}

    routers = _routing(routed(nginx=nginx, gatewayAPI=GATEWAY, plugins={"mine": {"b": 1, "a": [None]}})).routers

    assert routers == (
        Router("gatewayAPI", {"httpRoutes": [{"name": "cart"}]}),
        Router("nginx", {"stableIngress": "cart"}),
        Router("mine", {"a": [None], "b": 1}),
    )


def test_managed_routes_keep_their_order() -> None:
    """The first one that matches a request wins."""
    spec = routed(gatewayAPI=GATEWAY, managedRoutes=[{"name": "b"}, {"name": "a"}])

    assert _routing(spec).managed_routes == ("b", "a")


def test_nobody_moves_the_traffic_with_an_empty_routing() -> None:
    """Somebody outside of the Rollout does; the Services are theirs too."""
    assert _routing(canary(trafficRouting={})).routers == ()


def test_weights_are_parts_of_their_total() -> None:
    """One part in a thousand is a tenth of a percent, not the 0.1 that binary numbers come near to."""
    steps = [{"setWeight": parts} for parts in (0, 1, 10, 333, 1000)]

    found = parsed_canary(routed(steps, gatewayAPI=GATEWAY, maxTrafficWeight=1000)).steps

    assert found == tuple(SetWeight(weight) for weight in (0, Fraction(1, 10), 1, Fraction(333, 10), 100))
    kinds = [type(step.weight_percent) for step in found if isinstance(step, SetWeight)]
    assert kinds == [int, Fraction, int, Fraction, int]


def test_the_steps_mean_the_same_in_whatever_parts_they_are_counted() -> None:
    """To write 100 for 10 % of a total of 1000 must not begin the steps anew."""
    in_percent = parse_spec(routed([{"setWeight": 10}]))
    in_parts = parse_spec(routed([{"setWeight": 100}], gatewayAPI=GATEWAY, maxTrafficWeight=1000))
    finer = parse_spec(routed([{"setWeight": 101}], gatewayAPI=GATEWAY, maxTrafficWeight=1000))

    assert in_percent.strategy_hash == in_parts.strategy_hash != finer.strategy_hash


def _named(name: str, value: str, kind: MatchKind = MatchKind.EXACT) -> NamedMatch:
    return NamedMatch(name, TextMatch(kind, value))


def _path(value: str, kind: MatchKind = MatchKind.EXACT) -> TextMatch:
    return TextMatch(kind, value)


PREFIX, REGEX, GET = MatchKind.PREFIX, MatchKind.REGEX, TextMatch(MatchKind.EXACT, "GET")
HEADER_ROUTES = {
    "by headers, whose names are told apart by no letter's case": (
        [{"headerName": "X-User", "headerValue": {"exact": "ann"}}, {"headerName": "agent", "headerValue": {"prefix": "curl"}}],
        RequestMatch(headers=(_named("x-user", "ann"), _named("agent", "curl", PREFIX)))),
    "by cookie, query, path and method, as they are written": (
        [{"cookieName": "Beta", "cookieValue": {"exact": "1"}}, {"queryParamName": "V", "queryParamValue": {"prefix": "2"}},
            {"path": {"prefix": "/cart"}}, {"method": {"exact": "GET"}}],
        RequestMatch(method=GET, path=_path("/cart", PREFIX), cookies=(_named("Beta", "1"),), query=(_named("V", "2", PREFIX),))),
}  # fmt: skip


@pytest.mark.parametrize(("matches", "match"), HEADER_ROUTES.values(), ids=HEADER_ROUTES)
def test_a_header_route_matches_all_of_its_conditions(matches: list[Any], match: RequestMatch) -> None:
    """A/B: each entry is one condition, and all must hold."""
    step = _step(route_step(setHeaderRoute={"name": "beta", "match": matches}))

    assert step == SetHeaderRoute("beta", match)


MIRRORS: dict[str, tuple[dict[str, Any], MirrorRoute]] = {
    "by cookie and query": (
        {"match": [{"cookies": {"beta": {"exact": "1"}}, "queryParams": {"v": {"regex": "2|3"}}}]},
        MirrorRoute("beta", (RequestMatch(cookies=(_named("beta", "1"),), query=(_named("v", "2|3", REGEX),)),))),
    "what matches any of its entries": (
        {"match": [{"method": {"exact": "GET"}, "path": {"prefix": "/api"},
            "headers": {"X-B": {"regex": "b"}, "X-A": {"exact": ""}}}, {"path": {"exact": "/"}}]},
        MirrorRoute("beta", (RequestMatch(method=GET, path=_path("/api", PREFIX),
            headers=(_named("x-a", ""), _named("x-b", "b", REGEX))), RequestMatch(path=_path("/"))))),
    "everything, by an entry without conditions": (
        {"match": [{"path": {"exact": "/"}}, {}], "percentage": 35}, MirrorRoute("beta", (), 35)),
}  # fmt: skip


@pytest.mark.parametrize(("written", "mirror"), MIRRORS.values(), ids=MIRRORS)
def test_a_mirror_route_copies_what_matches_any_of_its_entries(written: dict[str, Any], mirror: MirrorRoute) -> None:
    """All of an entry's conditions must hold; without a percentage every such request is copied."""
    assert _step(route_step(setMirrorRoute={"name": "beta", **written})) == SetMirrorRoute("beta", mirror)


def test_clients_are_told_apart_by_the_cookie_that_is_named() -> None:
    """Most session ids end in hexadecimal digits."""
    by_default = _routing(routed(gatewayAPI=GATEWAY, stickiness={"cookieName": "sid"}))
    in_words = _routing(routed(gatewayAPI=GATEWAY, stickiness={"cookieName": "sid", "digits": "01"}))

    assert (by_default.sticky, in_words.sticky) == (Sticky("sid", "0123456789abcdef"), Sticky("sid", "01"))
    assert _routing(routed()).sticky is None
    assert [each.name for each in by_default.routers] == ["gatewayAPI"]


def test_subsets_take_the_place_of_the_two_services() -> None:
    """Core knows them as Services that are named after the rule."""
    strategy = parsed_canary(canary(trafficRouting={"istio": SUBSETS}))

    subsets = tuple(SubsetName("cart-rule", each) for each in ("stable", "canary"))
    assert (strategy.stable_service, strategy.canary_service) == subsets


@pytest.mark.parametrize("without", [{}, {"match": None}, {"match": []}])
def test_a_route_step_without_a_match_ends_the_route(without: dict[str, Any]) -> None:
    """As in Argo Rollouts, whose manifests say it so."""
    assert _step(route_step(setHeaderRoute={"name": "beta"} | without)) == SetHeaderRoute("beta", None)
    assert _step(route_step(setMirrorRoute={"name": "beta"} | without)) == SetMirrorRoute("beta", None)


def test_another_route_is_another_plan() -> None:
    """Steps that send other requests to the canary begin anew; a plain weight's hash is what it always was."""
    values = ({"exact": "a"}, {"prefix": "a"}, {"exact": "b"})
    mirrors: list[dict[str, Any]] = [
        {"match": [{}], "percentage": 1},
        {"match": [{}], "percentage": 2},
        {"match": [{"path": {"exact": "/"}}], "percentage": 1},
    ]
    steps = [
        *({"setHeaderRoute": {"name": "beta", "match": [{"headerName": "a", "headerValue": each}]}} for each in values),
        *({"setMirrorRoute": {"name": "beta", **each}} for each in mirrors),
    ]

    assert len({parse_spec(route_step(**each)).strategy_hash for each in steps}) == len(steps)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("gatewayAPI", "spec.strategy.canary.trafficRouting.gatewayAPI"),
        ("mine", "spec.strategy.canary.trafficRouting.plugins.mine"),
        ("a/b", "spec.strategy.canary.trafficRouting.plugins[a/b]"),
    ],
)
def test_a_problem_of_a_router_has_its_place_in_the_spec(name: str, path: str) -> None:
    """Codecs know only their own part."""
    assert router_path(name) == path
