"""Promise: each router's own rules are kept: how it names Services, what it has words for, what its status is worth."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from rollouts.core.model.traffic import Answer, MatchRoute, MirrorRoute, RequestMatch, Split
from rollouts.errors import Unroutable
from rollouts.objects import Manifest
from rollouts.traffic import apisix, gloo, skipper, traefik
from rollouts.traffic.alb import codec as alb
from rollouts.traffic.alb.rules import USE_ANNOTATION
from rollouts.traffic.codec import Provider
from rollouts.traffic.contour import codec as contour
from rollouts.traffic.istio import codec as istio
from rollouts.traffic.nginx import codec as nginx
from tests.traffic.situation import A_TENTH, TESTERS, Situation, by_path, destination


def virtual_service(*http: Manifest, **settings: Any) -> Situation:
    return Situation.at(istio.PROVIDER, {"virtualService": {"name": "cart", **settings}}, {"http": list(http)})


def http_of(situation: Situation) -> list[Manifest]:
    found: list[Manifest] = situation.objects.user["spec"]["http"]
    return found


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
    pair = [destination("cart", 100), destination("cart-canary", 0)]
    spec = {
        "http": [{"name": "a", "route": pair}, {"name": "b", "route": pair}],
        "tls": [
            {"match": [{"port": 443, "sniHosts": ["x", "y"]}], "route": pair},
            {"match": [{"port": 444}], "route": pair},
        ],
        "tcp": [{"match": [{"port": 3306}], "route": pair}],
    }
    named = {"name": "cart", "routes": ["b"], "tlsRoutes": [{"sniHosts": ["x"]}], "tcpRoutes": [{"port": 3306}]}

    user = Situation.at(istio.PROVIDER, {"virtualService": named}, spec).managed(A_TENTH).objects.user

    changed = [(kind, index) for kind in spec for index, rule in enumerate(user["spec"][kind]) if rule["route"] != pair]
    assert changed == [("http", 1), ("tls", 0), ("tcp", 0)]


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
    spec = {"tls": [{"match": matches, "route": [destination("cart", 100), destination("cart-canary", 0)]}]}
    situation = Situation.at(istio.PROVIDER, {"virtualService": {"name": "cart", "tlsRoutes": [named]}}, spec)

    if taken:
        assert situation.managed(A_TENTH).read() == A_TENTH
    else:
        with pytest.raises(Unroutable, match="no rule named tls"):
            situation.read()


def test_an_istio_tcp_route_without_matches_takes_every_port() -> None:
    """`tcpRoutes: [{}]` names it: Istio needs no match in a TCP route that stands alone."""
    spec = {"tcp": [{"route": [destination("cart", 100), destination("cart-canary", 0)]}]}

    situation = Situation.at(istio.PROVIDER, {"virtualService": {"name": "cart", "tcpRoutes": [{}]}}, spec)

    assert situation.managed(A_TENTH).read() == A_TENTH


def test_istio_tries_routes_in_order_so_a_copy_goes_right_before_its_own() -> None:
    """At the front of the list it would take requests from a route that the user put first."""
    admin = {"match": [{"uri": {"prefix": "/admin"}}], "route": [destination("admin", 100)]}
    rest = {"match": [{"uri": {"prefix": "/"}}], "route": [destination("cart", 100), destination("cart-canary", 0)]}

    done = http_of(virtual_service(admin, rest).managed(Split(Fraction(0), (TESTERS,))))

    assert [done[0], done[2]] == [admin, rest]
    assert done[1] == {
        "name": "testers",
        "match": [{"uri": {"prefix": "/"}, "headers": {"x-canary": {"exact": "1"}}}],
        "route": [destination("cart-canary", 100)],
    }


def test_istio_mirrors_beside_a_mirror_of_the_users() -> None:
    """`mirrors` holds several; a route with the older `mirror` has no room for ours."""
    pair = [destination("cart", 100), destination("cart-canary", 0)]
    want = Split(Fraction(0), (), (MirrorRoute("copies", (), 25),))
    audit = {"destination": {"host": "audit"}}

    done = http_of(virtual_service({"mirrors": [audit], "route": pair}).managed(want))

    assert done[0]["mirrors"] == [audit, {"destination": {"host": "cart-canary"}, "percentage": {"value": 25.0}}]
    with pytest.raises(Unroutable, match="write it as mirrors"):
        virtual_service({"mirror": {"host": "audit"}, "route": pair}).plan(want)


def test_a_name_with_a_namespace_is_an_object_elsewhere() -> None:
    """`name.namespace`, as Argo Rollouts has it."""
    (target,) = istio.PROVIDER.targets({"virtualService": {"name": "cart.edge"}}, namespace="shop")

    assert (target.namespace, target.name) == ("edge", "cart")


def proxy(*services: Manifest, status: Manifest | None = None) -> Situation:
    spec = {"routes": [{"conditions": [{"prefix": "/"}], "services": list(services)}]}
    return Situation.at(contour.PROVIDER, {"httpProxies": [{"name": "cart"}]}, spec, status)


def test_contour_shares_a_pair_without_weights_evenly_so_it_is_refused() -> None:
    """Half of the requests would go to the canary Service while we believe that none does."""
    with pytest.raises(Unroutable, match="weights of both Services are 0"):
        proxy({"name": "cart"}, {"name": "cart-canary"}).read()


def test_contour_mirrors_are_not_backends() -> None:
    """A service with `mirror: true` gets copies, whatever its weight says."""
    start = proxy({"name": "cart", "weight": 1}, {"name": "cart-canary", "mirror": True})

    assert start.read() == Split(Fraction(0))


def test_contour_mirrors_all_of_a_route_in_the_route_itself() -> None:
    """Of two routes with the same conditions Contour takes one: a copy would be without effect, or take the user's place."""
    start = proxy({"name": "cart", "weight": 100}, {"name": "cart-canary", "weight": 0})
    everything = MirrorRoute("copies", (by_path("/"),), 100)

    managed = start.managed(Split(Fraction(0), (), (everything,)))

    (route,) = managed.objects.user["spec"]["routes"]
    assert route["services"][2] == {"name": "cart-canary", "mirror": True}
    assert managed.read() == Split(Fraction(0), (), (everything,))
    assert managed.managed(Split(Fraction(0))).objects == start.objects


def test_contour_mirrors_some_of_a_route_in_a_copy() -> None:
    """Its conditions say which; the weight of a mirror is its percentage."""
    start = proxy({"name": "cart", "weight": 100}, {"name": "cart-canary", "weight": 0})

    copy, own = start.managed(Split(Fraction(0), (), (MirrorRoute("copies", (TESTERS.match,), 25),))).objects.user[
        "spec"
    ]["routes"]

    assert copy["conditions"] == [{"prefix": "/"}, {"header": {"name": "x-canary", "exact": "1"}}]
    assert copy["services"][2] == {"name": "cart-canary", "mirror": True, "weight": 25}
    assert own == start.objects.user["spec"]["routes"][0]


def test_contour_does_not_mistake_a_mirror_of_the_users_for_ours() -> None:
    """It would be taken away at the end; so it must go before a step mirrors, and stays as long as none does."""
    start = proxy({"name": "cart", "weight": 1}, {"name": "cart-canary", "mirror": True})

    with pytest.raises(Unroutable, match="remove that mirror"):
        start.plan(Split(Fraction(0), (), (MirrorRoute("copies"),)))
    assert start.managed(A_TENTH).given_back().objects == start.objects


def test_contour_routes_with_the_same_conditions_are_refused() -> None:
    """A header route for requests that a route is for already: one of the two would be without effect."""
    conditions = [{"prefix": "/"}, {"header": {"name": "x-canary", "exact": "1"}}]
    spec = {"routes": [{"conditions": conditions, "services": [{"name": "cart", "weight": 1}]}]}

    with pytest.raises(Unroutable, match="same conditions"):
        Situation.at(contour.PROVIDER, {"httpProxies": [{"name": "cart"}]}, spec).plan(Split(Fraction(0), (TESTERS,)))


@pytest.mark.parametrize(
    ("conditions", "answer"),
    [
        ([], Answer.UNKNOWN),
        ([{"type": "Valid", "status": "True", "observedGeneration": 3}], Answer.UNKNOWN),
        ([{"type": "Valid", "status": "True", "observedGeneration": 4}], Answer.YES),
        ([{"type": "Valid", "status": "False", "observedGeneration": 4, "message": "no such Service"}], Answer.NO),
    ],
)
def test_contour_accepts_a_generation(conditions: list[Manifest], answer: Answer) -> None:
    """An answer about the last one is none."""
    situation = proxy({"name": "cart"}, status={"conditions": conditions})

    assert contour.PROVIDER.accepted(situation.objects, situation.target).answer is answer


@pytest.mark.parametrize(
    ("generation", "status", "answer"), [(3, "True", Answer.UNKNOWN), (4, "True", Answer.YES), (4, "False", Answer.NO)]
)
def test_apisix_accepts_a_generation(generation: int, status: str, answer: Answer) -> None:
    """As its controller writes it."""
    condition = {"type": "ResourcesAvailable", "status": status, "observedGeneration": generation}
    situation = Situation.at(apisix.PROVIDER, {"route": {"name": "cart"}}, {"http": []}, {"conditions": [condition]})

    assert apisix.PROVIDER.accepted(situation.objects, situation.target).answer is answer


def test_apisix_copies_have_a_higher_priority_and_names_of_their_own() -> None:
    """Names of rules are unique, and of two rules that match the one with the higher priority is taken."""
    backends = [{"serviceName": "cart", "servicePort": 80}]
    spec = {"http": [{"name": "r", "priority": 3, "match": {"paths": ["/*"]}, "backends": backends}]}

    copy, _ = http_of(
        Situation.at(apisix.PROVIDER, {"route": {"name": "cart"}}, spec).managed(Split(Fraction(0), (TESTERS,)))
    )

    assert (copy["name"], copy["priority"]) == ("r-testers", 4)
    assert copy["match"]["exprs"] == [{"subject": {"scope": "Header", "name": "x-canary"}, "op": "Equal", "value": "1"}]


def test_gloo_tells_what_it_rejected() -> None:
    """By the name of whoever reported it."""
    statuses = {"statuses": {"gloo-system": {"state": 2, "reason": "no such upstream"}}}
    situation = Situation.at(gloo.PROVIDER, {"routeTables": [{"name": "cart"}]}, {"routes": []}, statuses)

    assert gloo.PROVIDER.accepted(situation.objects, situation.target).message == "Gloo says: no such upstream"


def test_a_traefik_service_of_the_same_name_is_another_thing() -> None:
    """`kind: TraefikService` beside a Service named alike."""
    services = [{"name": "cart", "kind": "TraefikService", "weight": 1}, {"name": "cart", "weight": 3}]
    situation = Situation.at(
        traefik.PROVIDER, {"weightedTraefikServiceName": "cart"}, {"weighted": {"services": services}}
    )

    with pytest.raises(Unroutable, match="the rule has other backends"):
        situation.plan(A_TENTH)
    assert situation.managed(Split(Fraction(1, 3))).objects.user["spec"]["weighted"]["services"][0] == services[0]


def test_a_router_without_managed_routes_says_so() -> None:
    """Rather than do nothing: the step would be believed done."""
    services = [{"name": "cart", "weight": 100}]
    situation = Situation.at(
        traefik.PROVIDER, {"weightedTraefikServiceName": "cart"}, {"weighted": {"services": services}}
    )

    with pytest.raises(Unroutable, match="for requests that testers matches"):
        situation.plan(Split(Fraction(0), (TESTERS,)))


def ingress(
    *services: str, provider: Provider = nginx.PROVIDER, annotations: Mapping[str, str] = {}, **settings: Any
) -> Situation:
    port = {"name": USE_ANNOTATION} if provider is alb.PROVIDER else {"number": 80}
    paths = [
        {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": name, "port": port}}} for name in services
    ]
    user: Manifest = {
        "metadata": {
            "name": "cart",
            "namespace": "shop",
            **({"annotations": dict(annotations)} if annotations else {}),
        },
        "spec": {"ingressClassName": "web", "rules": [{"host": "a", "http": {"paths": paths}}]},
    }
    where = {"stableIngress": "cart"} if provider is nginx.PROVIDER else {"ingress": "cart"}
    return Situation.of(provider, {**where, **settings}, user)


def test_the_canary_ingress_leads_the_same_paths_to_the_canary() -> None:
    """And no annotation of the user's is copied: the controller inherits them, and copies would grow old."""
    done = ingress("cart", "legacy", annotations={"nginx.ingress.kubernetes.io/rewrite-target": "/"}).managed(A_TENTH)

    owned = done.objects.owned
    assert owned is not None
    assert owned["metadata"]["annotations"] == {
        "nginx.ingress.kubernetes.io/canary": "true",
        "nginx.ingress.kubernetes.io/canary-weight": "10",
    }
    (path,) = owned["spec"]["rules"][0]["http"]["paths"]
    assert path["backend"]["service"] == {"name": "cart-canary", "port": {"number": 80}}
    assert owned["spec"]["ingressClassName"] == "web"


def test_parts_of_a_percent_need_a_dialect_that_counts_in_totals() -> None:
    """Elsewhere 0.1 % would be read as nothing, or refused by somebody who tells nobody."""
    split = Split(Fraction(1, 1000))

    owned = ingress("cart").managed(split).objects.owned
    assert owned is not None
    assert owned["metadata"]["annotations"]["nginx.ingress.kubernetes.io/canary-weight-total"] == "1000"
    with pytest.raises(Unroutable, match="whole percentages only"):
        ingress("cart", annotationPrefix="mse.ingress.kubernetes.io").plan(split)


def test_a_canary_ingress_that_somebody_changed_is_written_again() -> None:
    """By hand or by another controller: what it says then is not what was wanted."""
    managed = ingress("cart").managed(A_TENTH)
    owned = managed.objects.owned
    assert owned is not None
    owned["metadata"]["annotations"]["nginx.ingress.kubernetes.io/canary-by-cookie"] = "me"

    assert not managed.read().whole
    assert managed.managed(A_TENTH).read() == A_TENTH


def test_what_a_canary_ingress_has_no_words_for_is_refused() -> None:
    """One header in one route is all."""
    two = MatchRoute("two", RequestMatch(headers=TESTERS.match.headers * 2))

    for split in (
        Split(Fraction(0), (two,)),
        Split(Fraction(0), (TESTERS, TESTERS)),
        Split(Fraction(0), (), (MirrorRoute("m"),)),
    ):
        with pytest.raises(Unroutable):
            ingress("cart").plan(split)


ACTION = "alb.ingress.kubernetes.io/actions.cart"


def test_alb_target_groups_of_others_stay() -> None:
    """Also in the text that comes back when all is given back: the user's own, to the letter."""
    groups = [{"serviceName": "cart", "servicePort": 80, "weight": 90}, {"targetGroupARN": "arn:other", "weight": 10}]
    text = json.dumps({"type": "forward", "forwardConfig": {"targetGroups": groups}}, indent=2)
    start = ingress("cart", provider=alb.PROVIDER, annotations={ACTION: text}, servicePort=80)

    managed = start.managed(A_TENTH)

    found = json.loads(managed.objects.user["metadata"]["annotations"][ACTION])["forwardConfig"]["targetGroups"]
    assert [each["weight"] for each in found] == [81, 10, 9]
    assert found[1] == groups[1]
    assert managed.given_back().objects == start.objects


def test_alb_needs_its_action_before_any_weight() -> None:
    """`use-annotation` without an annotation is an error page: so the action is written at weight 0 too."""
    start = ingress(
        "cart", provider=alb.PROVIDER, servicePort=80, stickinessConfig={"enabled": True, "durationSeconds": 60}
    )

    assert not start.read().whole
    config = json.loads(start.managed(Split(Fraction(0))).objects.user["metadata"]["annotations"][ACTION])[
        "forwardConfig"
    ]
    assert [each["weight"] for each in config["targetGroups"]] == [100, 0]
    assert config["targetGroupStickinessConfig"] == {"enabled": True, "durationSeconds": 60}


@pytest.mark.parametrize("text", ["no json", "[]", '{"forwardConfig": {}}', '{"forwardConfig": {"targetGroups": []}}'])
def test_an_action_that_cannot_be_read_is_refused(text: str) -> None:
    """Writing over it would lose what its user meant."""
    with pytest.raises(Unroutable, match="action"):
        ingress("cart", provider=alb.PROVIDER, annotations={ACTION: text}, servicePort=80).read()


def test_skipper_needs_both_services_as_backends() -> None:
    """A weight for a backend that is not there would be no weight."""
    with pytest.raises(Unroutable, match="Service cart-canary"):
        ingress("cart", provider=skipper.PROVIDER).read()
    for text in ("nonsense", '{"cart": 0.5}'):
        with pytest.raises(Unroutable, match=r"correct it|multiply"):
            ingress("cart", "cart-canary", provider=skipper.PROVIDER, annotations={skipper.WEIGHTS: text}).read()
