"""Istio's part of the spec, as in Argo Rollouts: the VirtualServices, and the DestinationRule of their subsets.

istiod waits until changes pause for 0.1 s, but for at most 10 s (`PILOT_DEBOUNCE_MAX`, its default in `pilot/pkg/features`). Then
it pushes to every proxy, to a limited number at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

from msgspec import Struct

from rollouts.objects import Kind, Manifest
from rollouts.traffic.codec import Target
from rollouts.traffic.istio.subsets import RULE_KINDS
from rollouts.traffic.settings import SettingsReader


class HttpRule(Struct, frozen=True):
    """Names the rule of that name in the list `http`."""

    name: str
    of: ClassVar[str] = "http"
    field: ClassVar[str] = "routes"
    """The field of the spec that names it."""

    def __str__(self) -> str:
        return f"http {self.name}"

    def means(self, rule: Manifest, *, of: str) -> bool:
        """Whether this names a rule of the list `of`."""
        return of == "http" and bool(rule.get("name") == self.name)


class StreamRule(Struct, frozen=True):
    """Names each rule of the list `tls` or `tcp` whose matches for that port have all these hosts.

    Args:
        port: 0 for any.
    """

    of: str
    port: int
    sni_hosts: tuple[str, ...]

    @property
    def field(self) -> str:
        """The field of the spec that names it."""
        return f"{self.of}Routes"

    def __str__(self) -> str:
        return " ".join(filter(None, (self.of, str(self.port or ""), ",".join(self.sni_hosts))))

    def means(self, rule: Manifest, *, of: str) -> bool:
        """Whether this names a rule of the list `of`. Matches are alternatives, and an empty list matches everything."""
        if of != self.of:
            return False
        there = [each for each in rule.get("match") or [{}] if self.port in (0, each.get("port"))]
        return bool(there) and set(self.sni_hosts) <= {name for each in there for name in each.get("sniHosts") or ()}


RuleName: TypeAlias = HttpRule | StreamRule
"""As in Argo Rollouts: http routes by name, tls and tcp routes by their matches."""

SERVICE_KINDS = tuple(
    Kind("networking.istio.io", version, "VirtualService", "virtualservices")
    for version in ("v1", "v1beta1", "v1alpha3")
)
_SETTLE_S = 15.0  # PILOT_DEBOUNCE_MAX, and half as much for the push


def targets_of(settings: Mapping[str, Any], *, namespace: str) -> tuple[Target, ...]:
    """The places that the settings name. Raises: SpecInvalid, with every problem at once."""
    read = SettingsReader(settings)
    one = read.part("virtualService")
    services = [each for each in (one, *read.parts("virtualServices")) if each is not None]
    found = [_target(each, namespace) for each in services]
    if (rule := read.part("destinationRule")) is not None:
        found.append(_rule_target(rule, namespace))
    if not services:
        read.refuse("virtualService", "is required")
    read.done()
    return tuple(found)


def _rule_target(read: SettingsReader, namespace: str) -> Target:
    """The DestinationRule, in the Rollout's namespace, where the pods of its host are."""
    name = read.object_name("name", needed=True)
    stable, canary = (read.text(field, needed=True) for field in ("stableSubsetName", "canarySubsetName"))
    if stable and stable == canary:
        read.refuse("canarySubsetName", "must differ from stableSubsetName")
    if read.texts("additionalSubsetNames"):
        read.refuse("additionalSubsetNames", "are for experiments, which do not exist here; remove the field")
    read.done()
    return Target(kinds=RULE_KINDS, namespace=namespace, name=name, subsets=(stable, canary))


def _target(read: SettingsReader, namespace: str) -> Target:
    """One VirtualService; `name` may be `name.namespace`, as in Argo Rollouts."""
    name, _, elsewhere = read.object_name("name", needed=True).partition(".")
    named: list[RuleName] = [HttpRule(each) for each in read.texts("routes")]
    for kind, field in (("tls", "tlsRoutes"), ("tcp", "tcpRoutes")):
        for route in read.parts(field):
            named.append(StreamRule(kind, route.number("port"), route.texts("sniHosts")))
            route.done()
    read.done()
    options = {"rules": tuple(named)}
    return Target(kinds=SERVICE_KINDS, namespace=elsewhere or namespace, name=name, options=options, settle_s=_SETTLE_S)
