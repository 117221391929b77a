"""What Envoys and Traefiks say of a route, in the shape that they have it; and the questions about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from rollouts.core.model.traffic import ALL_TO_STABLE, MatchRoute, RouteName, Split
from rollouts.ports import LiveQuestion
from tests.build import backend
from tests.traffic.situation import by_header

ROUTE = RouteName("gatewayAPI", "HTTPRoute", "shop", "cart")
BETA = MatchRoute("beta", by_header(value="always"))
_MIRROR = {"type": "RequestMirror", "requestMirror": {"backendRef": backend("cart-canary")}}
OBJECT: dict[str, Any] = {
    "kind": "HTTPRoute",
    "metadata": {"namespace": "shop", "name": "cart"},
    "spec": {"rules": [{"backendRefs": [backend("cart"), backend("cart-canary")], "filters": [_MIRROR]}]},
}


def question(split: Split = ALL_TO_STABLE, **changes: Any) -> LiveQuestion:
    """About HTTPRoute `cart` in namespace `shop`."""
    given: dict[str, Any] = {
        "route": ROUTE, "resource_version": "7", "split": split, "stable_service": "cart", "canary_service": "cart-canary",
        "gateways": ("infra/web",), "objects": (OBJECT,),
    }  # fmt: skip
    return LiveQuestion(**{**given, **changes})


def share(percent: int | str) -> Split:
    """So many percent for the canary."""
    return Split(Fraction(percent) / 100)


def contour_route(
    *clusters: tuple[str, int], headers: Sequence[Mapping[str, Any]] = (), **action: Any
) -> dict[str, Any]:
    """One entry as Contour writes it: `("cart", 90)` is a Service and its weight."""
    match: dict[str, Any] = {"path_separated_prefix": "/"}
    if headers:
        match["headers"] = list(headers)
    weighted = [
        {"name": f"shop/{name}/80/da39a3ee5e", **({"weight": weight} if weight else {})} for name, weight in clusters
    ]
    target = {"cluster": weighted[0]["name"]} if len(weighted) == 1 else {"weighted_clusters": {"clusters": weighted}}
    names = {"kind": "HTTPRoute", "namespace": "shop", "name": "cart"}
    origin = {f"io.projectcontour.{field}": name for field, name in names.items()}
    metadata = {"filter_metadata": {"envoy.access_loggers.file": origin}}
    return {"match": match, "route": {**target, **action}, "metadata": metadata}


def routes(*entries: Mapping[str, Any], config: str = "ingress_http") -> dict[str, Any]:
    kind = "type.googleapis.com/envoy.admin.v3.RoutesConfigDump.DynamicRouteConfig"
    hosts = {"name": config, "virtual_hosts": [{"name": "shop.example", "routes": list(entries)}]}
    return {"configs": [{"@type": kind, "version_info": "3", "route_config": hosts}]}


def endpoints(**assignments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    configs = [{"cluster_name": name, "endpoints": list(each)} for name, each in assignments.items()]
    return {"configs": [{"endpoint_config": each} for each in configs]}


def locality(region: str, weight: int | None, *addresses: str) -> dict[str, Any]:
    """Endpoints that share a weight."""
    hosts = [
        {"endpoint": {"address": {"socket_address": {"address": each, "port_value": 8080}}}, "load_balancing_weight": 1}
        for each in addresses
    ]
    found: dict[str, Any] = {"locality": {"region": region}, "lb_endpoints": hosts}
    return found if weight is None else {**found, "load_balancing_weight": weight}


NOTHING: dict[str, Any] = {"configs": []}


def traefik(*weights: tuple[str, int], rule: str = "PathPrefix(`/`)", **more: Any) -> dict[str, Any]:
    """Raw data with one router, as Traefik's Gateway provider names things."""
    router = "httproute-shop-cart-gw-infra-web-ep-web-0-1c0cf64bde51d9d0df06"
    services = [
        {"name": f"{router}-svc-shop-{name}-{index}", "weight": weight} for index, (name, weight) in enumerate(weights)
    ]
    return {
        "routers": {
            f"{router}@kubernetesgateway": {"rule": rule, "service": f"{router}-wrr", "status": "enabled"},
            "api@internal": {"rule": "PathPrefix(`/api`)", "service": "api@internal", "status": "enabled"},
            **more.get("routers", {}),
        },
        "services": {
            f"{router}-wrr@kubernetesgateway": {"weighted": {"services": services}, "status": "enabled"},
            **{
                f"{each['name']}@kubernetesgateway": {"loadBalancer": {"servers": [{"url": "http://10.0.0.1:8080"}]}}
                for each in services
            },
            **more.get("services", {}),
        },
    }
