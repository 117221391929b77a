"""A route's status says that a controller has read it. Whether its proxies do what it says is another question.

Each test waits for the status as a controller would that trusts it, and looks at what clients get from then on.
"""

from __future__ import annotations

import time

import pytest

from rollouts.sim.network.gateway_types import GATEWAY
from tests.gateways import contour, envoy_gateway
from tests.gateways.asking import asking
from tests.gateways.gateway import NAMESPACE
from tests.gateways.routes import Route, accepted, through
from tests.lab.control_plane import condition
from tests.node.real_node import RealNode

STATUS_WITHIN_S = 10


@pytest.mark.parametrize("route", [through("traefik", "HTTPRoute")], indirect=True)
def test_traefik_says_yes_while_it_still_sends_to_the_old_version(node: RealNode, two_versions: Route) -> None:
    """It takes changes in every two seconds: who scaled the old version down on its word would lose what still goes there."""
    route = two_versions
    with asking(route.url) as clients:
        clients.until_only("1")
        route.set_weights(node.plane, 0, 100)
        clients.until_only("2")
        route.set_weights(node.plane, 100, 0)  # the second change within its two seconds
        said_at = until_accepted(node, route)
        clients.until_only("1")
    fooled = [one for one in clients.since(said_at) if one.version == "2"]

    assert max(one.sent_at for one in fooled) - said_at > 0.5


@pytest.mark.parametrize("route", [through("contour", "HTTPRoute")], indirect=True)
def test_contour_says_programmed_while_nothing_listens(node: RealNode, two_versions: Route) -> None:
    """It speaks for itself and not for its Envoy, which may not be there at all."""
    route = two_versions
    with asking(route.url) as clients:
        clients.until_only("1")
        node.processes.end(contour.ENVOY, patience_s=5)
        route.set_weights(node.plane, 0, 100)
        said_at = until_accepted(node, route)
        gateway = node.plane.api.get(GATEWAY.path(NAMESPACE, contour.NAME)).raise_for_status().json()
        clients.until(lambda all_: sum(one.sent_at > said_at for one in all_) > 20, within_s=STATUS_WITHIN_S)
        refused = clients.since(said_at)
        contour.start_envoy(node)
        clients.until_only("2")

    assert condition(gateway, "Programmed")[0] == "True"
    assert {one.status for one in refused} == {0}


@pytest.mark.parametrize("route", [through("envoy-gateway", "HTTPRoute")], indirect=True)
def test_envoy_gateway_says_not_programmed_while_it_serves(node: RealNode, two_versions: Route) -> None:
    """The other way round: without an address for its Gateway it says no for ever, and who waited for a yes would stand still."""
    route = two_versions
    with asking(route.url) as clients:
        clients.until_only("1")
        route.set_weights(node.plane, 0, 100)
        clients.until_only("2")
    gateway = node.plane.api.get(GATEWAY.path(NAMESPACE, envoy_gateway.NAME)).raise_for_status().json()

    assert condition(gateway, "Programmed")[0] == "False"


def until_accepted(node: RealNode, route: Route) -> float:
    """When the status was seen to say yes to the route's latest generation, in seconds since 1970."""
    collection, _, name = route.path.rpartition("/")
    node.plane.until(collection, name, accepted, within_s=STATUS_WITHIN_S)
    return time.time()
