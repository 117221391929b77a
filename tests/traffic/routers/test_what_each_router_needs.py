"""Promise: each router's own rules are kept: how it names Services, what it has words for, what its status is worth.

A VirtualService or an ApisixRoute that Argo Rollouts follows is followed here, or one line says what to change.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.traffic import Answer, MirrorRoute, Split
from rollouts.errors import Unroutable
from rollouts.objects import Manifest
from rollouts.traffic import apisix, gloo, skipper, traefik
from rollouts.traffic.contour import codec as contour
from rollouts.traffic.istio import codec as istio
from tests.traffic.situation import A_TENTH, TESTERS, Situation, by_path, destination

PAIR = [destination("cart", 100), destination("cart-canary", 0)]
BY_HEADER = Split(Fraction(0), (TESTERS,))


def virtual_service(*http: Manifest, spec: Mapping[str, Any] | None = None, **settings: Any) -> Situation:
    """With these routes, as a spec with these settings names them."""
    spec = spec or {"http": list(http)}
    return Situation.at(istio.PROVIDER, {"virtualService": {"name": "cart", **settings}}, dict(spec))


def http_of(situation: Situation) -> list[Manifest]:
    found: list[Manifest] = situation.objects.user["spec"]["http"]
    return found


def managed(situation: Situation) -> list[tuple[str, int]]:
    """The list and the index of each route that gets a tenth."""
    before, after = (each.objects.user["spec"] for each in (situation, situation.managed(A_TENTH)))
    return [(kind, at) for kind in before for at, rule in enumerate(before[kind]) if after[kind][at] != rule]


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("cart", True), ("cart.shop", True), ("cart.shop.svc", True), ("cart.shop.svc.cluster.local", True),
        ("cart.old", False), ("cart.example.com", False), ("cart.shop.example.com", False),
    ],
)  # fmt: skip
def test_istio_hosts_are_compared_whole(host: str, ours: bool) -> None:
    """The first part of a host alone would take somebody else's Service, or a host outside, for ours."""
    situation = virtual_service({"route": [destination(host, 100)]})

    if ours:
        hosts = [each["destination"]["host"] for each in http_of(situation.managed(A_TENTH))[0]["route"]]
        assert hosts == [host, host.replace("cart", "cart-canary")]
    else:
        with pytest.raises(Unroutable):
            situation.read()


def test_istio_destinations_of_others_stay() -> None:
    """Argo Rollouts deletes what it does not know from the route."""
    others = destination("legacy", 20)
    done = virtual_service({"route": [destination("cart", 80), others, destination("cart-canary", 0)]}).managed(A_TENTH)

    assert http_of(done)[0]["route"] == [destination("cart", 72), others, destination("cart-canary", 8)]


def test_istio_routes_are_chosen_by_name_port_and_server_name() -> None:
    """As in Argo Rollouts: `routes`, `tlsRoutes`, `tcpRoutes`."""
    spec = {
        "http": [{"name": "a", "route": PAIR}, {"name": "b", "route": PAIR}],
        "tls": [
            {"match": [{"port": 443, "sniHosts": ["x", "y"]}], "route": PAIR},
            {"match": [{"port": 444}], "route": PAIR},
        ],
        "tcp": [{"match": [{"port": 3306}], "route": PAIR}],
    }
    named = {"routes": ["b"], "tlsRoutes": [{"sniHosts": ["x"]}], "tcpRoutes": [{"port": 3306}]}

    assert managed(virtual_service(spec=spec, **named)) == [("http", 1), ("tls", 0), ("tcp", 0)]


@pytest.mark.parametrize(
    ("named", "taken"),
    [
        ({"sniHosts": ["x", "y"]}, True),
        ({"port": 443, "sniHosts": ["y", "x"]}, True),
        ({"port": 443}, True),
        ({"port": 444, "sniHosts": ["x", "y"]}, False),
        ({"sniHosts": ["x", "z"]}, False),
    ],
)
def test_istio_server_names_of_a_route_are_those_of_all_its_matches(named: Manifest, taken: bool) -> None:
    """Several matches of a rule are alternatives, so its names may be spread over them; Argo Rollouts collects them too."""
    matches = [{"port": 443, "sniHosts": ["x"]}, {"port": 443, "sniHosts": ["y"]}]
    situation = virtual_service(spec={"tls": [{"match": matches, "route": PAIR}]}, tlsRoutes=[named])

    if taken:
        assert situation.managed(A_TENTH).read() == A_TENTH
    else:
        with pytest.raises(Unroutable, match="no rule named tls"):
            situation.read()


def test_an_istio_tcp_route_without_matches_takes_every_port() -> None:
    """`tcpRoutes: [{}]` names it: Istio needs no match in a TCP route that stands alone."""
    situation = virtual_service(spec={"tcp": [{"route": PAIR}]}, tcpRoutes=[{}])

    assert situation.managed(A_TENTH).read() == A_TENTH


def test_istio_tries_routes_in_order_so_a_copy_goes_right_before_its_own() -> None:
    """At the front of the list it would take requests from a route that the user put first."""
    admin = {"match": [{"uri": {"prefix": "/admin"}}], "route": [destination("admin", 100)]}
    rest = {"match": [{"uri": {"prefix": "/"}}], "route": PAIR}

    done = http_of(virtual_service(admin, rest).managed(BY_HEADER))

    assert [done[0], done[2]] == [admin, rest]
    assert done[1] == {
        "name": "testers",
        "match": [{"uri": {"prefix": "/"}, "headers": {"x-canary": {"exact": "1"}}}],
        "route": [destination("cart-canary", 100)],
    }


def test_istio_mirrors_beside_a_mirror_of_the_users() -> None:
    """`mirrors` holds several; a route with the older `mirror` has no room for ours."""
    want = Split(Fraction(0), (), (MirrorRoute("copies", (), 25),))
    audit = {"destination": {"host": "audit"}}

    done = http_of(virtual_service({"mirrors": [audit], "route": PAIR}).managed(want))

    assert done[0]["mirrors"] == [audit, {"destination": {"host": "cart-canary"}, "percentage": {"value": 25.0}}]
    with pytest.raises(Unroutable, match="write it as mirrors"):
        virtual_service({"mirror": {"host": "audit"}, "route": PAIR}).plan(want)


def test_a_name_with_a_namespace_is_an_object_elsewhere() -> None:
    """`name.namespace`, as Argo Rollouts has it."""
    (target,) = istio.PROVIDER.targets({"virtualService": {"name": "cart.edge"}}, namespace="shop")

    assert (target.namespace, target.name) == ("edge", "cart")


BY_TESTERS = {"header": {"name": "x-canary", "exact": "1"}}
SERVICES = {"name": "cart", "weight": 100}, {"name": "cart-canary", "weight": 0}


def proxy(*services: Manifest, more: Sequence[Manifest] = (), status: Manifest | None = None) -> Situation:
    spec = {"routes": [{"conditions": [{"prefix": "/"}, *more], "services": list(services)}]}
    return Situation.at(contour.PROVIDER, {"httpProxies": [{"name": "cart"}]}, spec, status)


def test_contour_shares_a_pair_without_weights_evenly_so_it_is_refused() -> None:
    """Half of the requests would go to the canary Service while we believe that none does."""
    with pytest.raises(Unroutable, match="weights of both Services are 0"):
        proxy({"name": "cart"}, {"name": "cart-canary"}).read()


def test_contour_mirrors_all_of_a_route_in_the_route_itself() -> None:
    """Of two routes with the same conditions Contour takes one: a copy would be without effect, or take the user's place."""
    start = proxy(*SERVICES)
    everything = MirrorRoute("copies", (by_path("/"),), 100)

    managed = start.managed(Split(Fraction(0), (), (everything,)))

    (route,) = managed.objects.user["spec"]["routes"]
    assert route["services"][2] == {"name": "cart-canary", "mirror": True}
    assert managed.read() == Split(Fraction(0), (), (everything,))
    assert managed.managed(Split(Fraction(0))).objects == start.objects


def test_contour_mirrors_some_of_a_route_in_a_copy() -> None:
    """Its conditions say which; the weight of a mirror is its percentage."""
    start = proxy(*SERVICES)
    some = Split(Fraction(0), (), (MirrorRoute("copies", (TESTERS.match,), 25),))

    copy, own = start.managed(some).objects.user["spec"]["routes"]

    assert copy["conditions"] == [{"prefix": "/"}, BY_TESTERS]
    assert copy["services"][2] == {"name": "cart-canary", "mirror": True, "weight": 25}
    assert own == start.objects.user["spec"]["routes"][0]


def test_contour_takes_a_mirror_of_the_users_for_neither_a_backend_nor_one_of_ours() -> None:
    """Its weight is one of copies. It would be taken away at the end; so it must go before a step mirrors."""
    start = proxy({"name": "cart", "weight": 80}, {"name": "cart-canary", "mirror": True, "weight": 20})

    assert start.read() == Split(Fraction(0))
    with pytest.raises(Unroutable, match="remove that mirror"):
        start.plan(Split(Fraction(0), (), (MirrorRoute("copies"),)))
    assert start.managed(A_TENTH).given_back().objects == start.objects


def test_contour_routes_with_the_same_conditions_are_refused() -> None:
    """A header route for requests that a route is for already: one of the two would be without effect."""
    with pytest.raises(Unroutable, match="same conditions"):
        proxy({"name": "cart", "weight": 1}, more=[BY_TESTERS]).plan(BY_HEADER)


def backend(name: str, weight: int | None = None) -> Manifest:
    return {"serviceName": name, "servicePort": 80, **({} if weight is None else {"weight": weight})}


def apisix_route(*backends: Manifest, status: Manifest | None = None, **more: Any) -> Situation:
    rule = {"name": "r", "match": {"paths": ["/*"]}, "backends": list(backends), **more}
    return Situation.at(apisix.PROVIDER, {"route": {"name": "cart"}}, {"http": [rule]}, status)


@pytest.mark.parametrize(
    ("generation", "status", "answer"), [(3, "True", Answer.UNKNOWN), (4, "True", Answer.YES), (4, "False", Answer.NO)]
)
@pytest.mark.parametrize(
    ("kind", "make"), [("Valid", partial(proxy, {"name": "cart"})), ("ResourcesAvailable", apisix_route)]
)
def test_contour_and_apisix_accept_a_generation(
    kind: str, make: Any, generation: int, status: str, answer: Answer
) -> None:
    """As their controllers write it; an answer about the last one is none, and nor is a status without conditions."""
    condition = {"type": kind, "status": status, "observedGeneration": generation}
    undated = {name: value for name, value in condition.items() if name != "observedGeneration"}
    for conditions, told in (([condition], answer), ([], Answer.UNKNOWN), ([undated], Answer.UNKNOWN)):
        found = make(status={"conditions": conditions})
        assert found.provider.accepted(found.objects, found.target).answer is told


def test_apisix_copies_have_a_higher_priority_and_names_of_their_own() -> None:
    """Names of rules are unique, and of two rules that match the one with the higher priority is taken."""
    copy, _ = http_of(apisix_route(backend("cart"), priority=3).managed(BY_HEADER))

    assert (copy["name"], copy["priority"]) == ("r-testers", 4)
    assert copy["match"]["exprs"] == [{"subject": {"scope": "Header", "name": "x-canary"}, "op": "Equal", "value": "1"}]


def test_gloo_tells_what_it_rejected() -> None:
    """By the name of whoever reported it."""
    statuses = {"statuses": {"gloo-system": {"state": 2, "reason": "no such upstream"}}}
    situation = Situation.at(gloo.PROVIDER, {"routeTables": [{"name": "cart"}]}, {"routes": []}, statuses)

    assert gloo.PROVIDER.accepted(situation.objects, situation.target).message == "Gloo says: no such upstream"


def test_a_traefik_service_of_the_same_name_is_another_thing() -> None:
    """`kind: TraefikService` beside a Service named alike."""
    other = {"name": "cart", "kind": "TraefikService", "weight": 1}
    spec = {"weighted": {"services": [other, {"name": "cart", "weight": 3}]}}
    situation = Situation.at(traefik.PROVIDER, {"weightedTraefikServiceName": "cart"}, spec)

    with pytest.raises(Unroutable, match="the rule has other backends"):
        situation.plan(A_TENTH)
    assert situation.managed(Split(Fraction(1, 3))).objects.user["spec"]["weighted"]["services"][0] == other


@pytest.mark.parametrize(
    ("services", "text", "words"),
    [
        (["cart"], "{}", "Service cart-canary"),
        (["cart", "cart-canary"], "nonsense", "correct it"),
        (["cart", "cart-canary"], '{"cart": 0.5}', "multiply"),
    ],
)
def test_skipper_needs_both_services_as_backends_and_weights_that_can_be_read(
    services: list[str], text: str, words: str
) -> None:
    """A weight for a backend that is not there would be no weight."""
    paths = [{"path": "/", "backend": {"service": {"name": name, "port": {"number": 80}}}} for name in services]
    metadata = {"name": "cart", "namespace": "shop", "annotations": {skipper.WEIGHTS: text}}
    user = {"metadata": metadata, "spec": {"rules": [{"host": "a", "http": {"paths": paths}}]}}

    with pytest.raises(Unroutable, match=words):
        Situation.of(skipper.PROVIDER, {"ingress": "cart"}, user).read()


NOTHING = Split(Fraction(0))


ALONE = [destination("cart")]
SNI = {"match": [{"port": 443, "sniHosts": ["cart.example.com"]}]}
OTHER_SNI = {"match": [{"port": 443, "sniHosts": ["pay.example.com"]}]}
HTTP, TLS, TCP = {"name": "primary", "route": PAIR}, {**SNI, "route": PAIR}, {"match": [{"port": 3306}], "route": PAIR}


@pytest.mark.parametrize("route", [PAIR, ALONE])
@pytest.mark.parametrize("named", [{}, {"tlsRoutes": [{"port": 443, "sniHosts": ["cart.example.com"]}]}])
def test_a_virtual_service_may_have_tls_routes_alone(route: list[Manifest], named: Manifest) -> None:
    """A mesh that passes TLS through has no http routes; a destination that is alone needs no weight."""
    start = virtual_service(spec={"tls": [{**SNI, "route": route}]}, **named)

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
        virtual_service(spec=spec, **named).read()


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
    route = virtual_service(spec={"http": [HTTP], "tls": [TLS], "tcp": [TCP]}, **named)

    assert managed(route) == [("http", 0), ("tls", 0), ("tcp", 0)]


def test_a_list_without_names_has_the_routes_with_both_services() -> None:
    """In the list that is named, one with the stable Service alone is meant; in another it is not."""
    spec: dict[str, list[Manifest]] = {
        "http": [{"name": "primary", "route": ALONE}, HTTP | {"name": "b"}],
        "tls": [TLS, {**OTHER_SNI, "route": ALONE}],
    }

    assert managed(virtual_service(spec=spec, routes=["primary"])) == [("http", 0), ("tls", 0)]


def test_a_list_without_names_does_not_stand_in_for_one_with_names() -> None:
    """The named route leads elsewhere, which is a mistake in the spec."""
    legacy = {"name": "primary", "route": [destination("legacy")]}
    situation = virtual_service(spec={"http": [legacy], "tls": [{**SNI, "route": ALONE}]}, routes=["primary"])

    with pytest.raises(Unroutable, match="none of its named rules has Service cart as a backend"):
        situation.read()


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
