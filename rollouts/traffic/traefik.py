"""Traefik: weights of `spec.weighted.services` in the TraefikService that the user's IngressRoute or HTTPRoute points at.

Traefik writes no status, not even that an object is wrong. It applies a change within `providersThrottleDuration`, 2 s by
default (measured: 1.8 to 2.0 s when another change came before). Source: Traefik v3.7 CRDs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rollouts.core.model.traffic import Feature
from rollouts.objects import Kind, Manifest
from rollouts.traffic.codec import Target
from rollouts.traffic.rules.provider import Rules
from rollouts.traffic.rules.rule_paths import RulePath
from rollouts.traffic.rules.steering import Dialect, Side
from rollouts.traffic.settings import SettingsReader

KINDS = (Kind("traefik.io", "v1alpha1", "TraefikService", "traefikservices"),)
_SETTLE_S = 4.0  # twice the throttle: each replica has its own, and a change may just miss one


@dataclass(frozen=True, slots=True)
class _Weighted(Dialect):
    backends: ClassVar[str] = "services"
    path: ClassVar[RulePath] = ("spec", "weighted")

    def takes_requests(self, path: RulePath) -> bool:
        return False

    def side(self, backend: Manifest) -> Side | None:
        return Dialect.side(self, backend) if backend.get("kind", "Service") == "Service" else None


class _Traefik(Rules):
    name = "traefik"
    dialect = _Weighted
    supported_features = frozenset({Feature.EXPERIMENT})

    def targets(self, settings: Mapping[str, Any], *, namespace: str) -> tuple[Target, ...]:
        read = SettingsReader(settings)
        name = read.object_name("weightedTraefikServiceName", needed=True)
        target = Target(kinds=KINDS, namespace=namespace, name=name, settle_s=_SETTLE_S)
        read.done()
        return (target,)


PROVIDER = _Traefik()
