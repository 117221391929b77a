"""Promise: which Service a request goes to follows the Gateway API's rules of precedence and weight, told apart from ours."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import pytest

from rollouts.objects import Manifest
from rollouts.sim.network.route_table import RouteTable, WebRequest
from tests.build import backend
from tests.build import http_rule as rule
from tests.sim.manifests import http_route


def stored(manifest: Manifest, *, created: str = "2026-01-01T00:00:00Z") -> Manifest:
    """As an API server has it."""
    return {**manifest, "metadata": {**manifest["metadata"], "creationTimestamp": created, "uid": "u", "generation": 1}}


def table(*rules: Manifest) -> RouteTable:
    return RouteTable([stored(http_route(*rules))])


def match(path: str = "/", *, kind: str = "PathPrefix", **options: Any) -> list[Manifest]:
    """The matches of a rule: one."""
    return [{"path": {"type": kind, "value": path}, **options}]


def header(name: str, value: str, kind: str = "Exact") -> Manifest:
    return {"type": kind, "name": name, "value": value}


def service(routes: RouteTable, request: WebRequest) -> str:
    """Where a request goes; empty for nowhere."""
    found = routes.find(request)
    chosen = found.next_service() if found is not None else None
    return chosen[1] if chosen else ""


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (WebRequest("/"), "root"),
        (WebRequest("/shop"), "shop"),
        (WebRequest("/shop/cart"), "shop"),
        (WebRequest("/shopping"), "root"),
        (WebRequest("/shop/exact"), "exact"),
        (WebRequest("/shop", method="POST"), "post"),
        (WebRequest("/shop", method="POST", headers=(("x", "1"),)), "post"),
        (WebRequest("/shop", headers=(("x", "1"),)), "one header"),
        (WebRequest("/shop", headers=(("x", "1"), ("y", "abc"))), "two headers"),
        (WebRequest("/shop", headers=(("x", "1"), ("y", "abcd"))), "one header"),
        (WebRequest("/shop", query=(("q", "1"),)), "query"),
        (WebRequest("/shop/exact", headers=(("x", "1"),)), "exact"),
    ],
)
def test_path_goes_before_method_before_headers_before_query(request_: WebRequest, expected: str) -> None:
    """HTTPRouteRule's order; where rules stand in the list matters last, so they stand in the wrong order here."""
    routes = table(
        rule(backend("root"), matches=match()),
        rule(backend("shop"), matches=match("/shop")),
        rule(backend("query"), matches=match("/shop", queryParams=[header("q", "1")])),
        rule(backend("one header"), matches=match("/shop", headers=[header("X", "1")])),
        rule(
            backend("two headers"),
            matches=match("/shop", headers=[header("X", "1"), header("y", "[a-c]+", "RegularExpression")]),
        ),
        rule(backend("post"), matches=match("/shop", method="POST")),
        rule(backend("exact"), matches=match("/shop/exact", kind="Exact")),
    )

    assert service(routes, request_) == expected


def test_the_older_of_two_routes_wins_and_then_the_first_rule() -> None:
    """So that a second route of the same path takes nothing away from one that is served."""
    older = stored(http_route(rule(backend("old")), rule(backend("second")), name="z"))
    younger = stored(http_route(rule(backend("young")), name="a"), created="2026-01-02T00:00:00Z")

    assert service(RouteTable([younger, older]), WebRequest()) == "old"


@pytest.mark.parametrize(
    "only",
    [rule(backend("shop"), matches=match("/shop")), rule(backend("stable", 0), backend("canary", 0))],
    ids=["no rule of this path", "zero and zero"],
)
def test_some_requests_go_nowhere(only: Manifest) -> None:
    """404 is the gateway's own answer, 500 what the specification wants where all weights are 0: a route must never say so."""
    assert service(table(only), WebRequest("/")) == ""


@pytest.mark.parametrize(("weights", "expected"), [((95, 5), (95, 5)), ((999_999, 1), (100, 0)), ((3, 1), (75, 25))])
def test_weights_are_parts_of_their_sum_and_exact(weights: tuple[int, int], expected: tuple[int, int]) -> None:
    """Of 100 requests in a row, whatever the total is."""
    routes = table(rule(backend("stable", weights[0]), backend("canary", weights[1])))

    counts = Counter(service(routes, WebRequest()) for _ in range(100))

    assert (counts["stable"], counts["canary"]) == expected


def test_a_copy_goes_with_the_share_of_requests_that_was_asked_for() -> None:
    """Percent, fraction, and all of them when nothing is said."""
    for options, part in (({"percent": 25}, 25), ({"fraction": {"numerator": 1, "denominator": 2}}, 50), ({}, 100)):
        mirror = {"type": "RequestMirror", "requestMirror": {"backendRef": backend("canary"), **options}}
        routes = table(rule(backend("stable"), filters=[mirror]))
        found = routes.find(WebRequest())

        assert found is not None
        assert sum(len(found.next_copies()) for _ in range(100)) == part
        assert found.copies[0].part == Fraction(part, 100)


def test_grpc_calls_match_by_service_and_method() -> None:
    """A GRPCRoute has no paths; a match without a method takes every call."""
    grpc = stored(http_route(rule(backend("any")))) | {"kind": "GRPCRoute"}
    grpc["spec"]["rules"].append(
        rule(backend("one"), matches=[{"method": {"type": "Exact", "service": "shop.Cart", "method": "Add"}}])
    )
    routes = RouteTable([grpc])

    assert service(routes, WebRequest("/shop.Cart/Add", method="POST")) == "one"
    assert service(routes, WebRequest("/shop.Cart/Remove", method="POST")) == "any"
