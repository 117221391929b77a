"""Every traffic provider by name: those of this project, those of other packages, and names that are refused.

A package adds one with an entry point in the group `rollouts.traffic`: `myrouter = "mypackage.myrouter:PROVIDER"`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import entry_points
from types import MappingProxyType

from rollouts.core.model.grammar import is_object_name
from rollouts.traffic import apisix, gloo, skipper, traefik
from rollouts.traffic.alb import codec as alb
from rollouts.traffic.codec import Provider
from rollouts.traffic.contour import codec as contour
from rollouts.traffic.gateway_api import codec as gateway_api
from rollouts.traffic.istio import codec as istio
from rollouts.traffic.nginx import codec as nginx

GROUP = "rollouts.traffic"

_BUILT_IN: tuple[Provider, ...] = (
    gateway_api.PROVIDER,
    istio.PROVIDER,
    nginx.PROVIDER,
    traefik.PROVIDER,
    contour.PROVIDER,
    alb.PROVIDER,
    apisix.PROVIDER,
    gloo.PROVIDER,
    skipper.PROVIDER,
)

REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "ambassador": "Mappings of Ambassador and Emissary are not supported; write an HTTPRoute, and name it in gatewayAPI",
        "appMesh": "AWS ended App Mesh; VPC Lattice takes HTTPRoutes: use gatewayAPI",
        "kuma": "TrafficRoute is Kuma's old API; Kuma takes HTTPRoutes too: use gatewayAPI",
        "knative": "a Knative Service creates its own pods, so nothing is left for a Rollout; use its own traffic block",
        "smi": "the CNCF archived SMI; meshes take HTTPRoutes: use gatewayAPI, or declare TrafficSplits in a TrafficProvider",
        "argoproj-labs/gatewayAPI": "no plugin is needed here: write trafficRouting.gatewayAPI.httpRoutes: [{name: …}]",
        "argoproj-labs/contour": "no plugin is needed here: write trafficRouting.contour.httpProxies: [{name: …}]",
    }
)
"""Names that a spec written for another tool may have, and what to write instead."""


def registry(more: Iterable[Provider] = ()) -> Mapping[str, Provider]:
    """Providers by the name that a spec uses. A built-in one keeps its name, so that a manifest means the same everywhere."""
    return MappingProxyType({provider.name: provider for provider in (*more, *_BUILT_IN)})


def unknown(name: str, known: Mapping[str, Provider]) -> str:
    """The message about a name that is not in the registry."""
    if refused := REFUSED.get(name):
        return refused
    other = f"; for another router write a TrafficProvider {name}" if is_object_name(name) else ""
    return f"there is no provider of this name; there are {', '.join(sorted(known))}{other}"


@cache
def installed() -> tuple[Provider, ...]:
    """The providers of other packages. Reads the installed packages' metadata once in a process.

    Raises: what importing the package raises.
    """
    return tuple(each.load() for each in entry_points(group=GROUP))
