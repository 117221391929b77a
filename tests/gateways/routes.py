"""The routes that users write for two Services, of each kind, and how to move their weights by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import pytest

from tests.gateways.gateway import NAMESPACE, Gateway
from tests.gateways.traefik import ENTRY_POINT, INGRESS_CLASS
from tests.lab.control_plane import ControlPlane
from tests.node.workload import NAME

Manifest: TypeAlias = dict[str, Any]
Kind: TypeAlias = Literal["HTTPRoute", "TraefikService", "HTTPProxy", "Ingress"]

STABLE, CANARY = f"{NAME}-stable", f"{NAME}-canary"

_COLLECTIONS: Mapping[str, str] = {
    "HTTPRoute": "apis/gateway.networking.k8s.io/v1/namespaces/{}/httproutes",
    "TraefikService": "apis/traefik.io/v1alpha1/namespaces/{}/traefikservices",
    "HTTPProxy": "apis/projectcontour.io/v1/namespaces/{}/httpproxies",
    "Ingress": "apis/networking.k8s.io/v1/namespaces/{}/ingresses",
}
_BACKENDS: Mapping[str, str] = {
    "HTTPRoute": "/spec/rules/0/backendRefs",
    "TraefikService": "/spec/weighted/services",
    "HTTPProxy": "/spec/routes/0/services",
}


@dataclass(frozen=True)
class Route:
    """One user's route of some kind, named NAME, in a namespace, for a host."""

    kind: Kind
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
        return f"/{_COLLECTIONS[self.kind].format(self.namespace)}/{NAME}"

    @property
    def resource(self) -> str:
        """As the API server's audit log names its kind."""
        return self.path.split("/")[-2]

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
        backends = [{"name": STABLE, "port": 80, "weight": 100}, {"name": CANARY, "port": 80, "weight": 0}]
        match self.kind:
            case "HTTPRoute":
                return self._http_route(backends)
            case "TraefikService":
                return self._traefik_service(backends)
            case "HTTPProxy":
                return self._http_proxy(backends)
            case "Ingress":
                return self._ingress()

    def set_weights(self, plane: ControlPlane, stable: int, canary: int) -> Manifest:
        """One JSON Patch of the two weights; the object as it is then. An Ingress has none."""
        where = _BACKENDS[self.kind]
        change = [
            {"op": "replace", "path": f"{where}/{number}/weight", "value": weight}
            for number, weight in enumerate((stable, canary))
        ]
        answer = plane.api.patch(self.path, json=change, headers={"Content-Type": "application/json-patch+json"})
        answered: Manifest = answer.raise_for_status().json()
        return answered

    def read(self, plane: ControlPlane) -> Manifest:
        """The object with the weights."""
        found: Manifest = plane.api.get(self.path).raise_for_status().json()
        return found

    def _http_route(self, backends: list[Manifest]) -> list[Manifest]:
        parent = {"name": self.gateway.name, "namespace": NAMESPACE}
        spec = {"parentRefs": [parent], "hostnames": [self.host], "rules": [{"backendRefs": backends}]}
        return [_object("gateway.networking.k8s.io/v1", "HTTPRoute", spec)]

    def _traefik_service(self, backends: list[Manifest]) -> list[Manifest]:
        api = "traefik.io/v1alpha1"
        match = {
            "kind": "Rule",
            "match": f"Host(`{self.host}`)",
            "services": [{"name": NAME, "kind": "TraefikService"}],
        }
        return [
            _object(api, "TraefikService", {"weighted": {"services": backends}}),
            _object(api, "IngressRoute", {"entryPoints": [ENTRY_POINT], "routes": [match]}),
        ]

    def _ingress(self) -> list[Manifest]:
        backend = {"service": {"name": STABLE, "port": {"number": 80}}}
        rule = {"host": self.host, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
        return [_object("networking.k8s.io/v1", "Ingress", {"ingressClassName": INGRESS_CLASS, "rules": [rule]})]

    def _http_proxy(self, backends: list[Manifest]) -> list[Manifest]:
        spec = {"virtualhost": {"fqdn": self.host}, "routes": [{"services": backends}]}
        return [_object("projectcontour.io/v1", "HTTPProxy", spec)]


def through(gateway: str, kind: Kind) -> Any:
    """A value for the parameter `route` of a test."""
    return pytest.param((gateway, kind), id=f"{gateway}-{kind}")


def accepted(route: Manifest) -> bool:
    """Whether an HTTPRoute's status says that its only parent has taken its latest generation."""
    parents = route.get("status", {}).get("parents", [])
    return bool(parents) and all(
        each["status"] == "True" and each["observedGeneration"] == route["metadata"]["generation"]
        for parent in parents
        for each in parent["conditions"]
        if each["type"] in ("Accepted", "ResolvedRefs")
    )


def _object(api: str, kind: str, spec: Manifest) -> Manifest:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": NAME}, "spec": spec}
