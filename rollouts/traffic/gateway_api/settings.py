"""Gateway API's part of the spec: the routes, the rules in them, and features that their classes do not list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rollouts.objects import Kind
from rollouts.traffic.codec import Target
from rollouts.traffic.gateway_api.features import CLASS_FEATURES
from rollouts.traffic.gateway_api.parents import GROUP
from rollouts.traffic.settings import SettingsReader


def _kinds(kind: str, plural: str, *versions: str) -> tuple[Kind, ...]:
    return tuple(Kind(GROUP, version, kind, plural) for version in versions)


ROUTE_KINDS: Mapping[str, tuple[Kind, ...]] = {
    "httpRoutes": _kinds("HTTPRoute", "httproutes", "v1", "v1beta1"),
    "grpcRoutes": _kinds("GRPCRoute", "grpcroutes", "v1", "v1alpha2"),
    "tlsRoutes": _kinds("TLSRoute", "tlsroutes", "v1", "v1alpha3", "v1alpha2"),
    "tcpRoutes": _kinds("TCPRoute", "tcproutes", "v1", "v1alpha2"),
}
"""Fields of the settings, and the kinds of routes that they name, in every version that can be read, the preferred one first."""


def targets_of(settings: Mapping[str, Any], *, namespace: str) -> tuple[Target, ...]:
    """The routes that the settings name. Raises: SpecInvalid, with every problem at once."""
    read = SettingsReader(settings)
    found: list[Target] = []
    for field in ("httpRoutes", "grpcRoutes", "tcpRoutes", "tlsRoutes"):
        old = field.removesuffix("s")
        if name := read.text(old):
            read.refuse(old, f"is written {field}: [{{name: {name}}}] here")
    features = read.texts("features")
    for feature in features:
        if feature not in CLASS_FEATURES:
            read.refuse("features", f"must be of {', '.join(CLASS_FEATURES)}, not {feature}")
    for field, kinds in ROUTE_KINDS.items():
        for route in read.parts(field):
            options = {"rules": route.texts("rules"), "features": features}
            where = route.object_name("namespace", default=namespace)
            found.append(
                Target(kinds=kinds, namespace=where, name=route.object_name("name", needed=True), options=options)
            )
            route.done()
    if not found and not read.problems:
        read.refuse("", "must name a route; write httpRoutes: [{name: …}]")
    read.done()
    return tuple(found)
