"""What data planes are asked. The answers are core's: `core.traffic.LiveSeen`, `core.snapshot.DrainSeen`."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from rollouts.core.model.drain import DrainProbe, EnvoyProbe
from rollouts.core.model.traffic import RouteName, Split
from rollouts.objects import Manifest

ASKED_KINDS = frozenset({"HTTPRoute", "GRPCRoute", "HTTPProxy", "TraefikService"})
"""Routes that a data plane's configuration can be read about. About others (TCP and TLS routes are in an Envoy's listeners,
subsets of Istio in no Service's name) none is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveQuestion:
    """Does every proxy do what the route, in that version, says?

    Args:
        stable_service, canary_service: names of Services.
        namespace: theirs, the Rollout's; "" for the route's own.
        gateways: whose data planes do it, as the codec names them (`traffic.codec.Provider.gateways`).
        objects: the route as it was read in that version, and what we own beside it (`traffic.codec.Objects`); without the
            route an Envoy Gateway cannot be understood, as its Envoys number a rule's backends and do not name them.
        since_s: when the routes were seen to say it, seconds since 1970: only counters of requests look at it.
        before: the canary's share until then; None when it is not known.
    """

    route: RouteName
    resource_version: str
    split: Split
    stable_service: str
    canary_service: str
    namespace: str = ""
    gateways: tuple[str, ...] = ()
    objects: tuple[Manifest, ...] = field(default=(), hash=False)
    since_s: float = 0.0
    before: Fraction | None = None

    @property
    def pair(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """Namespace and name of the stable and of the canary Service."""
        namespace = self.namespace or self.route.namespace
        return (namespace, self.stable_service), (namespace, self.canary_service)

    @property
    def names(self) -> frozenset[str]:
        """Of the objects that make the route, in its namespace."""
        own = {str(each.get("metadata", {}).get("name", "")) for each in self.objects}
        return frozenset({self.route.name, *own} - {""})


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainQuestion:
    """What is still in flight at the pods of a revision that its Service left?

    Args:
        probes: `spec.drain.probes`, at least one.
        service: the one that left the revision.
        addresses: the IP addresses of the revision's pods; empty when they are not known, and then no Envoy can tell.
        others: those of the Rollout's other pods, by which the clusters are known that the revision was in.
        gateways: whose data planes may hold its requests; () for every Envoy that is configured.
    """

    namespace: str
    rollout: str
    revision: str
    service: str
    probes: tuple[DrainProbe, ...]
    addresses: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    gateways: tuple[str, ...] = ()

    @property
    def needs_addresses(self) -> bool:
        """Some probe finds the revision by the addresses of its pods; the others find it by name."""
        return any(isinstance(each, EnvoyProbe) for each in self.probes)
