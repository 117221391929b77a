"""Promise: the chart's templates find the canary's series, and no others, where a real Prometheus scrapes a real gateway."""

from __future__ import annotations

import pytest

from tests.gateways.asking import asking
from tests.gateways.gateway import scraping
from tests.gateways.routes import CANARY, Route, through
from tests.lab.loopback import wait_for
from tests.lab.prometheus_server import Prometheus
from tests.node.real_node import RealNode
from tests.node.workload import NAME
from tests.packaging.built_in_templates import query_of

WINDOW = "10s"  # Prometheus scrapes every two seconds here

A_FILTER = {
    "type": "ResponseHeaderModifier",
    "responseHeaderModifier": {"set": [{"name": "served-by", "value": "canary"}]},
}


@pytest.mark.parametrize(
    "route",
    [through("envoy-gateway", "HTTPRoute"), through("contour", "HTTPRoute"), through("traefik", "HTTPRoute")],
    indirect=True,
)
def test_templates_measure_what_the_canary_answers(node: RealNode, two_versions: Route) -> None:
    """Nothing while it has no request, though the stable revision has hundreds; its success rate and its latency with half."""
    route = two_versions
    if route.gateway.name == "envoy-gateway":
        # A filter of its own gives it an Envoy cluster of its own.
        change = [{"op": "add", "path": "/spec/rules/0/backendRefs/1/filters", "value": [A_FILTER]}]
        node.plane.patch(route.path, change, form="json")
    with asking(route.url) as clients, scraping(node, route.gateway) as server:
        clients.until_only("1")
        queries = {what: _query(what, route) for what in ("success-rate", "latency")}
        before = len(clients.answers)
        clients.until(lambda all_: len(all_) > before + 500, within_s=30)
        assert {what: _numbers(server, query) for what, query in queries.items()} == {"success-rate": [], "latency": []}

        route.set_weights(node.plane, 50, 50)
        wait_for(
            lambda: all(_numbers(server, query) for query in queries.values()), "the canary's series", node.processes
        )

        assert _numbers(server, queries["success-rate"]) == [1.0]
        (latency_ms,) = _numbers(server, queries["latency"])
        assert 0.5 < latency_ms < 500


def _query(what: str, route: Route) -> str:
    return query_of(
        f"rollouts-{what}-{route.gateway.name}",
        {"namespace": route.namespace, "canary-service": CANARY, "route": NAME, "window": WINDOW},
    )


def _numbers(server: Prometheus, query: str) -> list[float]:
    """The values of the query that are numbers."""
    return [float(each["value"][1]) for each in server.query(query) if each["value"][1] != "NaN"]
