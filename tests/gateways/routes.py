"""The routes that users write for two Services, of each kind, and how to move their weights by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import pytest

from rollouts.objects import Kind
from rollouts.sim.network.gateway_types import HTTP_PROXY, HTTP_ROUTE, TRAEFIK_SERVICE
from tests import build
from tests.gateways.gateway import NAMESPACE, Gateway
from tests.gateways.traefik import ENTRY_POINT, INGRESS_CLASS
from tests.lab.control_plane import ControlPlane
from tests.node.workload import NAME, canary, service

Manifest: TypeAlias = dict[str, Any]
KindName: TypeAlias = Literal["HTTPRoute", "TraefikService", "HTTPProxy", "Ingress"]

STABLE, CANARY = f"{NAME}-stable", f"{NAME}-canary"

INGRESS_ROUTE = Kind("traefik.io", "v1alpha1", "IngressRoute", "ingressroutes")
_KINDS = {one.kind: one for one in (HTTP_ROUTE, TRAEFIK_SERVICE, HTTP_PROXY, build.INGRESS)}
_BACKENDS: Mapping[str, str] = {
    "HTTPRoute": "/spec/rules/0/backendRefs",
    "TraefikService": "/spec/weighted/services",
    "HTTPProxy": "/spec/routes/0/services",
}


@dataclass(frozen=True)
class Route:
    """One user's route of some kind, named NAME, in a namespace, for a host."""

    kind: KindName
    gateway: Gateway
    namespace: str

    @property
    def host(self) -> str:
        """That it is for; the node's file of hosts has it."""
        return f"{self.namespace}.gateways.test"

    @property
    def url(self) -> str:
        """That clients ask."""
        return f"http://{self.host}:{self.gateway.port}/"

    @property
    def path(self) -> str:
        """Of the object with the weights, on the API server."""
        return _KINDS[self.kind].path(self.namespace, NAME)

    @property
    def resource(self) -> str:
        """As the API server's audit log names its kind."""
        return _KINDS[self.kind].plural

    @property
    def features(self) -> frozenset[str]:
        """What can be asked for besides weights: header, mirror. A TraefikService knows neither headers nor us as its mirror."""
        match self.kind:
            case "TraefikService":
                return frozenset()
            case "Ingress":
                return frozenset({"header"})
            case "HTTPRoute" | "HTTPProxy":
                return self.gateway.features

    @property
    def router(self) -> Manifest:
        """What a Rollout's `trafficRouting` says to have it managed."""
        match self.kind:
            case "HTTPRoute":
                # Neither Envoy Gateway (as it runs here) nor Contour lists in its GatewayClass that it knows mirrors.
                known = {"features": ["HTTPRouteRequestMirror"]} if "mirror" in self.features else {}
                return {"gatewayAPI": {"httpRoutes": [{"name": NAME}], **known}}
            case "TraefikService":
                return {"traefik": {"weightedTraefikServiceName": NAME}}
            case "HTTPProxy":
                return {"contour": {"httpProxies": [{"name": NAME}]}}
            case "Ingress":
                return {"nginx": {"stableIngress": NAME}}

    def manifests(self) -> list[Manifest]:
        """What the user applies: everything to the stable Service."""
        backends = pair(100, 0)
        match self.kind:
            case "HTTPRoute":
                parents = [{"name": self.gateway.name, "namespace": NAMESPACE}]
                rules = [build.http_rule(*backends)]
                return [_route(HTTP_ROUTE, parentRefs=parents, hostnames=[self.host], rules=rules)]
            case "TraefikService":
                to = [{"name": NAME, "kind": "TraefikService"}]
                match = {"kind": "Rule", "match": f"Host(`{self.host}`)", "services": to}
                return [
                    _route(TRAEFIK_SERVICE, weighted={"services": backends}),
                    _route(INGRESS_ROUTE, entryPoints=[ENTRY_POINT], routes=[match]),
                ]
            case "HTTPProxy":
                return [_route(HTTP_PROXY, virtualhost={"fqdn": self.host}, routes=[{"services": backends}])]
            case "Ingress":
                backend = {"service": {"name": STABLE, "port": {"number": 80}}}
                paths = [{"path": "/", "pathType": "Prefix", "backend": backend}]
                rule = {"host": self.host, "http": {"paths": paths}}
                return [_route(build.INGRESS, ingressClassName=INGRESS_CLASS, rules=[rule])]

    def set_weights(self, plane: ControlPlane, stable: int, canary: int) -> Manifest:
        """One JSON Patch of the two weights; the object as it is then. An Ingress has none."""
        where = _BACKENDS[self.kind]
        change = [
            {"op": "replace", "path": f"{where}/{number}/weight", "value": weight}
            for number, weight in enumerate((stable, canary))
        ]
        return plane.patch(self.path, change, form="json")

    def read(self, plane: ControlPlane) -> Manifest:
        found: Manifest = plane.api.get(self.path).raise_for_status().json()
        return found


def pair(stable: int, canary: int) -> list[Manifest]:
    """The two Services with these weights, as a rule names them."""
    return [build.backend(STABLE, stable), build.backend(CANARY, canary)]


def version_behind(version: str, name: str) -> list[Manifest]:
    """Two pods of a version of the app, without a Rollout, behind a Service."""
    labels = {"app": NAME, "side": name}
    template = canary("dies", "off")["spec"]["template"]
    # What an answer takes the app: so the moment of a change can be told to a few milliseconds.
    template["metadata"] = {"labels": labels, "annotations": {"version": version, "work": "1ms"}}
    front = service(name)
    front["spec"]["selector"] = labels
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    return [build.manifest(build.DEPLOYMENT, name, spec=spec), front]


def through(gateway: str, kind: KindName) -> Any:
    """A value for the parameter `route` of a test."""
    return pytest.param((gateway, kind), id=f"{gateway}-{kind}")


WEIGHTED = (
    through("envoy-gateway", "HTTPRoute"),
    through("contour", "HTTPRoute"),
    through("contour", "HTTPProxy"),
    through("traefik", "HTTPRoute"),
    through("traefik", "TraefikService"),
)
"""Every route that has weights; the first is the one whose proxy is the quickest."""


def accepted(route: Manifest) -> bool:
    """Whether an HTTPRoute's status says that its only parent has taken its latest generation."""
    parents = route.get("status", {}).get("parents", [])
    return bool(parents) and all(
        each["status"] == "True" and each["observedGeneration"] == route["metadata"]["generation"]
        for parent in parents
        for each in parent["conditions"]
        if each["type"] in ("Accepted", "ResolvedRefs")
    )


def _route(kind: Kind, **spec: Any) -> Manifest:
    return build.manifest(kind, NAME, spec=spec)
