"""Promise: where nobody can be asked a route is given the operator's time, else its router's own, else the general one."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.controller.facts.settle_times import SettleTimes, parse_settle_times, settle_s
from rollouts.core.model.traffic import SETTLE_S, RouteSeen, VerifiedBy
from rollouts.errors import SettingsInvalid
from rollouts.traffic.codec import Target
from rollouts.traffic.registry import registry
from tests.controller.routes import MARKS, ROUTE, Planes, Reading, route, routed
from tests.controller.world import World

pytestmark = pytest.mark.virtual_time

ROUTERS = registry()
SETTINGS: dict[str, dict[str, Any]] = {
    "gatewayAPI": {"httpRoutes": [{"name": "cart"}]},
    "istio": {"virtualService": {"name": "cart"}},
    "nginx": {"stableIngress": "cart"},
    "traefik": {"weightedTraefikServiceName": "cart"},
    "contour": {"httpProxies": [{"name": "cart"}]},
    "alb": {"ingress": "cart", "servicePort": 80},
    "apisix": {"route": {"name": "cart"}},
    "gloo": {"routeTables": [{"name": "cart"}]},
    "skipper": {"ingress": "cart"},
}


def _target(router: str, **more: Any) -> Target:
    (target,) = ROUTERS[router].targets({**SETTINGS[router], **more}, namespace="shop")
    return target


def _given_s(router: str, declared: SettleTimes | None = None, *, gateways: tuple[str, ...] = (), **more: Any) -> float:
    return settle_s(declared or {}, router=router, target=_target(router, **more), gateways=gateways)


def test_each_router_has_a_figure_of_its_own() -> None:
    """Five seconds are long for an Envoy that is pushed to, and nothing for a load balancer of a cloud."""
    figures = {name: _given_s(name) for name in SETTINGS}

    assert figures == {
        "gatewayAPI": SETTLE_S,
        "istio": 15.0,
        "nginx": 10.0,
        "traefik": 4.0,
        "contour": SETTLE_S,
        "alb": 60.0,
        "apisix": SETTLE_S,
        "gloo": SETTLE_S,
        "skipper": 8.0,
    }
    assert _given_s("nginx", annotationPrefix="alb.ingress.kubernetes.io") == 60.0
    assert _given_s("nginx", annotationPrefix="higress.io/") == 15.0


def test_what_the_operator_declares_goes_first() -> None:
    """He knows how his own gateways are set up: for one of them, or for all of a router."""
    declared = parse_settle_times(["alb=120", "infra/slow=30", "gatewayAPI=2.5"])

    assert _given_s("alb", declared) == 120.0
    assert _given_s("gatewayAPI", declared, gateways=("infra/web",)) == 2.5
    assert _given_s("istio", declared, gateways=("infra/web",)) == 15.0


def test_of_several_gateways_the_slowest_counts() -> None:
    """A route of two gateways is in force when both do what it says."""
    declared = parse_settle_times(["infra/slow=30", "infra/quick=0.5"])

    assert _given_s("gatewayAPI", declared, gateways=("infra/quick", "infra/slow")) == 30.0
    assert _given_s("gatewayAPI", declared, gateways=("infra/quick", "infra/other")) == SETTLE_S
    assert _given_s("gatewayAPI", declared, gateways=("infra/quick",)) == 0.5


@pytest.mark.parametrize(
    "text", ["", "alb", "alb=", "alb=soon", "alb=-1", "alb=nan", "alb=inf", "alb=4000", "=5", "a/b/c=5", "/b=5", "a/=5"]
)
def test_a_flag_that_cannot_be_used_names_the_remedy(text: str) -> None:
    """At the start of the process, not in the middle of a rollout."""
    with pytest.raises(SettingsInvalid, match="--settle-time"):
        parse_settle_times([text])


def test_a_name_has_one_time() -> None:
    """Two flags for one router: the second would silently win."""
    with pytest.raises(SettingsInvalid, match="twice"):
        parse_settle_times(["alb=5", "alb=6"])


@pytest.mark.parametrize(
    ("by", "asked", "counted"),
    [(None, False, False), (VerifiedBy.CONFIG, True, False), (VerifiedBy.COUNTERS, True, True)],
)
async def test_a_route_is_seen_with_how_it_can_be_verified(
    by: VerifiedBy | None, asked: bool, counted: bool, world: World
) -> None:
    """What core decides by: it knows no gateway and no flag."""
    reading = Reading(world, planes=Planes(by))
    reading.reader.settle_times = parse_settle_times(["shop/public=7"])
    reading.world.rollouts.put("", routed())
    reading.shown(route(**MARKS))
    seen = reading.seen().snapshot.routes[ROUTE]
    assert isinstance(seen, RouteSeen)
    assert (seen.can_be_asked, seen.counted, seen.settle_s) == (asked, counted, 7.0)
