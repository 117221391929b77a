"""Promise: what no object of a router could say is refused with the spec, at the step that asks for it, before anything moves.

One table says it: the features that a codec supports, by which the controller also goes before each write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rollouts.api.spec.parse import parse_spec
from rollouts.controller.observe.places import places_of
from rollouts.core.model.traffic import Feature
from rollouts.errors import SpecInvalid
from rollouts.traffic.demands import WORDS
from rollouts.traffic.registry import registry
from tests.api.specs import Spec, canary
from tests.traffic.cases.all_cases import CASES
from tests.traffic.cases.case import Case
from tests.traffic.situation import Situation

STEPS = "spec.strategy.canary.steps"
ROUTING = "spec.strategy.canary.trafficRouting"
GATEWAY = {"httpRoutes": [{"name": "cart"}]}
ALB = {"ingress": "cart", "servicePort": 80}
NGINX = {"stableIngress": "cart"}
PING_PONG = {"pingService": "a", "pongService": "b"}


def routed(*steps: Mapping[str, Any], routers: Mapping[str, Any], **fields: Any) -> Spec:
    """A canary with these routers and steps, and managed routes a and b."""
    routing = {"managedRoutes": [{"name": "a"}, {"name": "b"}], **routers}
    services = {} if "pingPong" in fields else {"stableService": "cart", "canaryService": "cart-canary"}
    return canary(**services, trafficRouting=routing, steps=[*steps, {"pause": {}}], **fields)


def problems(spec: Spec) -> dict[str, str]:
    """What the controller and `rollouts lint` refuse, by path."""
    try:
        places_of(parse_spec(spec), registry(), namespace="shop")
    except SpecInvalid as refused:
        return {problem.path: problem.message for problem in refused.problems}
    return {}


def by(name: str = "a", **match: Any) -> dict[str, Any]:
    """A step that routes by this condition, by default by a header."""
    condition = match or {"headerName": "x-test", "headerValue": {"exact": "1"}}
    return {"setHeaderRoute": {"name": name, "match": [condition]}}


COOKIES = [{"cookieName": name, "cookieValue": {"exact": "1"}} for name in ("a", "b")]
MIRROR = {"setMirrorRoute": {"name": "a", "match": [{"path": {"prefix": "/"}}]}}
COOKIE = by(cookieName="c", cookieValue={"exact": "1"})
TWO = {"headerName": "x-a", "headerValue": {"exact": "1"}}, {"headerName": "x-b", "headerValue": {"exact": "1"}}


@pytest.mark.parametrize(
    ("routers", "step", "words"),
    [
        ({"alb": ALB}, by(), "alb cannot route requests by a header"),
        ({"traefik": {"weightedTraefikServiceName": "cart"}}, by(), "traefik cannot"),
        ({"gloo": {"routeTables": [{"name": "cart"}]}}, by(), "gloo cannot"),
        ({"skipper": {"ingress": "cart"}}, by(), "skipper cannot"),
        ({"alb": ALB}, MIRROR, "alb cannot match paths or mirror requests"),
        ({"nginx": NGINX}, MIRROR, "nginx cannot match paths or mirror requests"),
        ({"nginx": NGINX}, COOKIE, "nginx cannot match cookies"),
        ({"nginx": NGINX}, {"setHeaderRoute": {"name": "a", "match": list(TWO)}}, "more than one condition"),
        ({"contour": {"httpProxies": [{"name": "cart"}]}}, by(method={"exact": "GET"}), "contour cannot match methods"),
        ({"apisix": {"route": {"name": "cart"}}}, by(path={"prefix": "/a"}), "apisix cannot match paths"),
        ({"apisix": {"route": {"name": "cart"}}}, MIRROR, "mirror"),
        ({"gatewayAPI": {"tcpRoutes": [{"name": "cart"}]}}, by(),
            "gatewayAPI cannot route requests by a header with TCPRoute cart"),
        ({"gatewayAPI": {"grpcRoutes": [{"name": "cart"}]}}, COOKIE, "with GRPCRoute cart"),
        ({"gatewayAPI": GATEWAY}, {"setHeaderRoute": {"name": "a", "match": COOKIES}}, "more than one cookie"),
        ({"istio": {"virtualService": {"name": "cart"}}},
            {"setMirrorRoute": {"name": "a", "match": [{"cookies": {"a": {"exact": "1"}, "b": {"exact": "1"}}}]}},
            "more than one cookie"),
        ({"gatewayAPI": GATEWAY, "alb": ALB}, by(), "alb cannot route requests by a header"),
    ],
)  # fmt: skip
def test_a_step_that_its_router_cannot_do_is_refused_at_its_path(
    routers: Mapping[str, Any], step: Mapping[str, Any], words: str
) -> None:
    """Else the update runs to that step, under traffic, and stands there with a route that cannot be used."""
    found = problems(routed({"setWeight": 5}, step, routers=routers))

    ((path, message),) = found.items()
    assert path == f"{STEPS}[1].{next(iter(step))}"
    assert words in message


def test_two_header_routes_at_once_are_refused_where_the_second_one_begins() -> None:
    """A canary Ingress has room for one; after the first was taken out there is room for another."""
    taken_out = {"setHeaderRoute": {"name": "a"}}

    assert problems(routed(by("a"), taken_out, by("b"), routers={"nginx": NGINX})) == {}
    ((path, message),) = problems(routed(by("a"), by("b"), taken_out, routers={"nginx": NGINX})).items()
    assert path == f"{STEPS}[1].setHeaderRoute"
    assert "more than one header route at a time" in message


def test_parts_of_a_percent_are_refused_where_the_router_counts_in_hundreds() -> None:
    """nginx itself has a total; those who speak its dialect do not."""
    elsewhere = {"nginx": {**NGINX, "annotationPrefix": "mse.ingress.kubernetes.io"}, "maxTrafficWeight": 1000}

    found = problems(routed({"setWeight": 10}, {"setWeight": 15}, routers=elsewhere))

    assert list(found) == [f"{STEPS}[1].setWeight"]
    assert "1.5 %" in found[f"{STEPS}[1].setWeight"]
    assert problems(routed({"setWeight": 15}, routers={"nginx": NGINX, "maxTrafficWeight": 1000})) == {}


def test_stickiness_is_refused_without_cookies() -> None:
    """It is a route by cookie, also where no step makes one."""
    found = problems(routed({"setWeight": 5}, routers={"alb": ALB, "stickiness": {"cookieName": "sid"}}))

    assert list(found) == [f"{ROUTING}.stickiness"]
    assert "alb cannot match cookies" in found[f"{ROUTING}.stickiness"]


@pytest.mark.parametrize(
    ("routers", "words"),
    [
        ({"nginx": NGINX}, "nginx cannot do this: its Ingress leads to one Service, whichever is stable"),
        ({"alb": ALB}, "needs trafficRouting.alb.rootService"),
        ({"alb": {**ALB, "rootService": "root"}}, ""),
        ({"gatewayAPI": GATEWAY}, ""),
        ({"istio": {"virtualService": {"name": "cart"}}}, ""),
    ],
)
def test_ping_pong_is_for_routers_that_lead_to_either_service(routers: Mapping[str, Any], words: str) -> None:
    """Argo Rollouts asks for the root Service too, and refuses pingPong with nginx."""
    found = problems(routed({"setWeight": 5}, routers=routers, pingPong=PING_PONG))

    assert list(found) == (["spec.strategy.canary.pingPong"] if words else [])
    assert words in found.get("spec.strategy.canary.pingPong", "")


def test_each_problem_is_told_once() -> None:
    """Three Ingresses and two steps with one mistake are one thing to mend for each step that makes it."""
    alb = {"ingresses": ["a", "b", "c"], "servicePort": 80}

    assert list(problems(routed(by("a"), by("a"), {"setWeight": 5}, routers={"alb": alb}))) == [
        f"{STEPS}[0].setHeaderRoute",
        f"{STEPS}[1].setHeaderRoute",
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_object_can_do_more_than_its_kind(case: Case) -> None:
    """Else a step that works in a cluster is refused in its file."""
    situation = Situation.of(case.provider, case.settings, case.example, case.context)

    assert case.provider.features(situation.objects, situation.target) <= case.provider.supported(situation.target)


def test_every_feature_has_words() -> None:
    """A feature without words could not be refused in a sentence."""
    assert set(WORDS) == set(Feature)


WEIGHTED = {"experiment": {"templates": [{"name": "a", "specRef": "canary", "weight": 5}], "duration": "5m"}}


@pytest.mark.parametrize(
    ("routers", "words"),
    [
        ({"alb": ALB}, "alb cannot send a share of the requests to an Experiment"),
        ({"nginx": NGINX}, "nginx cannot send a share"),
        ({"skipper": {"ingress": "cart"}}, "skipper cannot send a share"),
        ({"gatewayAPI": {"httpRoutes": [{"name": "cart", "namespace": "edge"}]}},
            "it cannot reach the Service of an Experiment"),
    ],
)  # fmt: skip
def test_weights_of_an_experiment_need_a_router_that_can_write_them(routers: dict[str, Any], words: str) -> None:
    """And a route beside the Rollout: the owner of another one lets it reach Services by name, not one that is made later."""
    found = problems(routed(WEIGHTED, routers=routers))

    assert words in found[f"{STEPS}[0].experiment"]
    assert "remove the weights of its templates" in found[f"{STEPS}[0].experiment"]
    assert problems(routed(WEIGHTED, routers={"gatewayAPI": GATEWAY})) == {}
