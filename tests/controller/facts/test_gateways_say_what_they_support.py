"""A step that needs more than a share of the requests asks first what the class of the route's gateways supports."""

from __future__ import annotations

import json

import pytest

from rollouts.clock import SystemClock
from rollouts.cluster.client import Client
from rollouts.controller.facts.gateway_classes import GatewayClasses
from rollouts.core.model.traffic import Feature
from rollouts.ports import Response
from rollouts.traffic.gateway_api.features import features_of_class
from tests.cluster.stand_ins import Answers

GATEWAYS = "/apis/gateway.networking.k8s.io/v1/namespaces/edge/gateways"
CLASSES = "/apis/gateway.networking.k8s.io/v1/gatewayclasses"


def having(objects: dict[str, object]) -> Answers:
    """An API server with these objects."""
    return Answers({path: Response(200, json.dumps(body).encode()) for path, body in objects.items()})


async def asked(api: Answers, *gateways: str) -> GatewayClasses:
    """What is known once `gateways` have been asked."""
    classes = GatewayClasses(clock=SystemClock())
    assert classes.known(gateways) is None
    client = Client(api, clock=SystemClock(), may_write=lambda: False, request_deadline_s=5.0)
    await classes.ask(gateways, client=client)
    return classes


def gateway(class_name: str) -> dict[str, object]:
    return {"spec": {"gatewayClassName": class_name}}


@pytest.mark.parametrize(
    "published", [[{"name": "HTTPRouteRequestMirror"}, {"name": "Gateway"}], ["HTTPRouteRequestMirror", "Gateway"]]
)
async def test_the_class_of_the_gateway_names_what_it_supports(published: list[object]) -> None:
    """`supportedFeatures` are objects since Gateway API 1.2 and were words before; both are served by somebody."""
    features = {"status": {"supportedFeatures": published}}
    api = having({f"{GATEWAYS}/public": gateway("traefik"), f"{CLASSES}/traefik": features})

    known = (await asked(api, "edge/public")).known(["edge/public"])

    assert known == frozenset({"HTTPRouteRequestMirror", "Gateway"})
    assert Feature.MIRROR in features_of_class(known)
    assert Feature.MIRROR_PERCENT not in features_of_class(known)


async def test_of_several_gateways_only_what_all_support_counts() -> None:
    """A route with two parents is told the same for both."""
    mirrors = {"status": {"supportedFeatures": [{"name": "HTTPRouteRequestMirror"}]}}
    gateways = {f"{GATEWAYS}/a": gateway("one"), f"{GATEWAYS}/b": gateway("two")}
    api = having({**gateways, f"{CLASSES}/one": mirrors, f"{CLASSES}/two": {}})

    classes = await asked(api, "edge/a", "edge/b")

    assert classes.known(["edge/a", "edge/b"]) == frozenset()
    assert classes.known(["edge/a"]) == frozenset({"HTTPRouteRequestMirror"})


async def test_what_cannot_be_read_supports_nothing_beyond_the_core() -> None:
    """A Gateway that is not there, or a class that may not be read: the safe answer, which names no extended feature."""
    classes = await asked(having({}), "edge/public")

    assert classes.known(["edge/public"]) == frozenset()
    assert features_of_class(frozenset()) >= {Feature.HEADER, Feature.PATH}
    assert Feature.MIRROR not in features_of_class(frozenset())
