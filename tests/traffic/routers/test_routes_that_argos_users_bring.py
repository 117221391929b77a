"""Promise: a VirtualService or an ApisixRoute that Argo Rollouts follows is followed here, or one line says what to change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.traffic import Split
from rollouts.errors import Unroutable
from rollouts.objects import Manifest
from rollouts.traffic import apisix
from rollouts.traffic.istio import codec as istio
from tests.traffic.situation import A_TENTH, TESTERS, Situation, destination

NOTHING = Split(Fraction(0))


def virtual_service(spec: Mapping[str, list[Manifest]], **settings: Any) -> Situation:
    """With these routes, as a spec with these settings names them."""
    return Situation.at(istio.PROVIDER, {"virtualService": {"name": "cart", **settings}}, dict(spec))


def managed(situation: Situation) -> list[tuple[str, int]]:
    """The list and the index of each route that gets a tenth."""
    before, after = (each.objects.user["spec"] for each in (situation, situation.managed(A_TENTH)))
    return [(kind, at) for kind in before for at, rule in enumerate(before[kind]) if after[kind][at] != rule]


PAIR = [destination("cart", 100), destination("cart-canary", 0)]
ALONE = [destination("cart")]
SNI = {"match": [{"port": 443, "sniHosts": ["cart.example.com"]}]}
OTHER_SNI = {"match": [{"port": 443, "sniHosts": ["pay.example.com"]}]}
HTTP, TLS, TCP = {"name": "primary", "route": PAIR}, {**SNI, "route": PAIR}, {"match": [{"port": 3306}], "route": PAIR}


@pytest.mark.parametrize("route", [PAIR, ALONE])
@pytest.mark.parametrize("named", [{}, {"tlsRoutes": [{"port": 443, "sniHosts": ["cart.example.com"]}]}])
def test_a_virtual_service_may_have_tls_routes_alone(route: list[Manifest], named: Manifest) -> None:
    """A mesh that passes TLS through has no http routes; a destination that is alone needs no weight."""
    start = virtual_service({"tls": [{**SNI, "route": route}]}, **named)

    assert start.read() == NOTHING
    assert start.managed(A_TENTH).objects.user["spec"]["tls"] == [
        {**SNI, "route": [destination("cart", 90), destination("cart-canary", 10)]}
    ]
    assert start.managed(A_TENTH).given_back().objects == start.objects


@pytest.mark.parametrize(
    ("spec", "named", "line"),
    [
        ({"tls": [TLS]}, {"routes": ["primary"]},
            "it has no http routes: remove `routes` from the spec; its other routes with both Services need no name"),
        ({"http": [HTTP]}, {"tlsRoutes": [{"port": 443}]},
            "it has no tls routes: remove `tlsRoutes` from the spec; its other routes with both Services need no name"),
        ({"http": [HTTP]}, {"routes": ["secondary"]},
            "it has no rule named http secondary; give a rule that name, or remove the name from the spec"),
    ],
)  # fmt: skip
def test_a_name_that_no_route_has_is_answered_by_what_to_do(
    spec: Mapping[str, list[Manifest]], named: Manifest, line: str
) -> None:
    """Argo Rollouts ignores names of a list that is not there. A route of tls cannot be given a name."""
    with pytest.raises(Unroutable, match=f"^{re.escape(line)}$"):
        virtual_service(spec, **named).read()


@pytest.mark.parametrize(
    "named",
    [
        {},
        {"routes": ["primary"]},
        {"tlsRoutes": [{"port": 443}]},
        {"routes": ["primary"], "tcpRoutes": [{"port": 3306}]},
    ],
)
def test_names_of_one_list_leave_out_nothing_of_another(named: Manifest) -> None:
    """As in Argo Rollouts. The clients of the tls route would all stay at a stable revision that gives up its pods."""
    route = virtual_service({"http": [HTTP], "tls": [TLS], "tcp": [TCP]}, **named)

    assert managed(route) == [("http", 0), ("tls", 0), ("tcp", 0)]


def test_a_list_without_names_has_the_routes_with_both_services() -> None:
    """In the list that is named, one with the stable Service alone is meant; in another it is not."""
    spec: dict[str, list[Manifest]] = {
        "http": [{"name": "primary", "route": ALONE}, HTTP | {"name": "b"}],
        "tls": [TLS, {**OTHER_SNI, "route": ALONE}],
    }

    assert managed(virtual_service(spec, routes=["primary"])) == [("http", 0), ("tls", 0)]


def test_a_list_without_names_does_not_stand_in_for_one_with_names() -> None:
    """The named route leads elsewhere, which is a mistake in the spec."""
    legacy = {"name": "primary", "route": [destination("legacy")]}
    situation = virtual_service({"http": [legacy], "tls": [{**SNI, "route": ALONE}]}, routes=["primary"])

    with pytest.raises(Unroutable, match="none of its named rules has Service cart as a backend"):
        situation.read()


def backend(name: str, weight: int | None = None) -> Manifest:
    return {"serviceName": name, "servicePort": 80, **({} if weight is None else {"weight": weight})}


def apisix_route(*backends: Manifest, **more: Any) -> Situation:
    rule = {"name": "r", "match": {"paths": ["/*"]}, "backends": list(backends), **more}
    return Situation.at(apisix.PROVIDER, {"route": {"name": "cart"}}, {"http": [rule]})


def weights(situation: Situation, *, at: int = 0) -> list[tuple[str, int | None]]:
    rule = situation.objects.user["spec"]["http"][at]
    return [(each["serviceName"], each.get("weight")) for each in rule["backends"]]


@pytest.mark.parametrize(
    ("percent", "pair"),
    [
        (0, [("cart", 1)]),
        (1, [("cart", 99), ("cart-canary", 1)]),
        (10, [("cart", 9), ("cart-canary", 1)]),
        (100, [("cart", 0), ("cart-canary", 1)]),
    ],
)
def test_a_backend_that_is_alone_with_weight_1_is_shared_exactly(percent: int, pair: list[tuple[str, int]]) -> None:
    """Its total is 1, of which no part is whole: the least multiple that can say it is written, and 1 comes back."""
    start = apisix_route(backend("cart", 1))
    done = start.managed(Split(Fraction(percent, 100)))

    assert weights(done) == pair
    assert done.read() == Split(Fraction(percent, 100))
    assert done.given_back().objects == start.objects


@pytest.mark.parametrize(
    ("stable", "canary", "share"),
    [(None, None, Fraction(1, 2)), (1, None, Fraction(100, 101)), (1, 0, Fraction(0)), (None, 0, Fraction(0))],
)
def test_a_weight_that_is_left_out_is_100_as_apisix_takes_it(
    stable: int | None, canary: int | None, share: Fraction
) -> None:
    """Argo's own example writes none: half of the requests are at the canary's Service until the first write, which says 0."""
    start = apisix_route(backend("cart", stable), backend("cart-canary", canary))

    assert start.read().share == share
    assert start.managed(NOTHING).read() == NOTHING
    assert weights(start.managed(NOTHING))[1] == ("cart-canary", 0)


def test_the_part_of_an_apisix_upstream_stays() -> None:
    """`upstreams` of a rule have weights in the same sum as its backends: one that is left out is 100, too."""
    legacy = [{"name": "legacy", "weight": 10}]

    with pytest.raises(Unroutable, match="other backends as well; multiply every weight of the rule by 10"):
        apisix_route(backend("cart", 1), upstreams=legacy).plan(A_TENTH)
    with pytest.raises(Unroutable, match="the rule has other backends"):
        apisix_route(backend("cart", 1), upstreams=[{"name": "legacy"}]).plan(A_TENTH)
    shared = apisix_route(backend("cart", 90), upstreams=legacy).managed(A_TENTH)
    assert weights(shared) == [("cart", 81), ("cart-canary", 9)]
    idle = apisix_route(backend("cart", 1), upstreams=[{"name": "legacy", "weight": 0}])
    assert weights(idle.managed(A_TENTH)) == [("cart", 9), ("cart-canary", 1)]


def test_the_requests_of_a_header_route_reach_the_canary_alone() -> None:
    """An upstream of the rule would get most of them: 100 when its weight is left out, to 1 of the canary's."""
    done = apisix_route(backend("cart", 1), upstreams=[{"name": "legacy"}]).managed(
        replace(NOTHING, matches=(TESTERS,))
    )

    copy, own = done.objects.user["spec"]["http"]
    assert (weights(done), "upstreams" in copy) == ([("cart-canary", 100)], False)
    assert own["upstreams"] == [{"name": "legacy"}]
