"""A Deployment behind a real gateway is updated in place under load: no request fails, and each pod starts once."""

from __future__ import annotations

import pytest

from tests.gateways.report import Case
from tests.gateways.routes import through
from tests.gateways.shifting import Shifting
from tests.node.in_place import ACTS, lost_pods, routed, until
from tests.node.traffic import traffic

RATE = 300  # requests a second


@pytest.mark.parametrize("route", [through("envoy-gateway", "HTTPRoute")], indirect=True)
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("strategy", ["canary", "blueGreen"])
def test_an_update_in_place_loses_no_request(shifting: Shifting, strategy: str, act: str, cases: list[Case]) -> None:
    """The route shares the requests out between two Services, or leads to the one that a blue-green switches."""
    stage, route = shifting.stage, shifting.route
    shape = next(each for each in routed(route.router) if strategy in each.strategy)
    stage.apply(*route.manifests(), *shape.manifests("dies", "auto"))
    until(stage, "Healthy", {"1": shape.replicas})

    name = f"load-{stage.namespace}"
    with traffic(shifting.node, route.url, rate=RATE, connections="kept", name=name) as running:
        course = ACTS[act](stage, shape)

    sent, failed = running.outcome.sent, running.outcome.failed
    of = {"case": f"{shape.name}: {act}", "gateway": route.gateway.name, "route": route.kind}
    cases.append(Case(**of, sent=sent, failed=sum(failed.values()), shares={}, lag_ms={}))
    assert failed == {}, running.outcome.failures
    assert course.at_gate
    assert lost_pods(course, shape, act) == set()
