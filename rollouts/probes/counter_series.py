"""Which series of Prometheus count the requests that a route sends to the stable and to the canary Service.

* `contour`: `envoy_cluster_upstream_rq_total` of the Envoys; Contour calls a cluster's statistics `NAMESPACE_SERVICE_PORT`. Envoy
  Gateway has both Services in one cluster, so its counters cannot distinguish them: ask its Envoys' configuration instead.
* `istio`: `istio_requests_total` as the calling side reports it, so that requests count even if no pod has answered.
* `nginx`: `nginx_ingress_controller_requests` of the user's Ingress. `service` is the stable one for every request; `canary` is
  the upstream to which a canary Ingress sent it.
* `traefik`: `traefik_service_requests_total`; a service there is named after the Kubernetes Service (`traefik.py`).

When the target has a label of the same name, Prometheus renames the metric's own to `exported_…` (`honor_labels: false`).

Source: Contour v1.33.8 `internal/envoy` (AltStatName); Istio, "Istio Standard Metrics"; ingress-nginx, `monitor.lua` and
`balancer.lua`; Traefik v3.7, "Metrics".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import assert_never

from rollouts.ports import LiveQuestion
from rollouts.probes.traefik import side_of_service

_NAME = re.compile(
    r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
)  # a Kubernetes name: nothing that PromQL or a pattern could misread
_GATEWAY_ROUTES = frozenset({"HTTPRoute", "GRPCRoute"})


class Counters(StrEnum):
    """The products whose counters can be read."""

    CONTOUR = "contour"
    ISTIO = "istio"
    NGINX = "nginx"
    TRAEFIK = "traefik"


class SentTo(StrEnum):
    """The Service that a request went to."""

    STABLE = "stable"
    CANARY = "canary"
    UNKNOWN = "untold"  # perhaps the canary: an unknown destination is not zero requests


KINDS: Mapping[Counters, frozenset[str]] = MappingProxyType(
    {
        Counters.CONTOUR: _GATEWAY_ROUTES | {"HTTPProxy"},
        Counters.ISTIO: _GATEWAY_ROUTES | {"VirtualService"},
        Counters.NGINX: frozenset({"Ingress"}),
        Counters.TRAEFIK: _GATEWAY_ROUTES | {"TraefikService"},
    }
)
"""Kinds of routes that the counters distinguish."""


def selectors(counters: Counters, question: LiveQuestion) -> tuple[str, ...]:
    """PromQL selectors that together match every series of the two Services; () when a name cannot be used, or both are equal.

    They may match other series too: `side_of` distinguishes them.
    """
    (namespace, stable), (_, canary) = question.pair
    names = (namespace, stable, canary, question.route.name)
    if stable == canary or not all(_NAME.fullmatch(name) for name in names):
        return ()
    either = f"{_pattern(stable)}|{_pattern(canary)}"
    match counters:
        case Counters.CONTOUR:
            return (
                f'envoy_cluster_upstream_rq_total{{envoy_cluster_name=~"{_pattern(namespace)}_({either})_[0-9]+"}}',
            )
        case Counters.ISTIO:
            there = f'destination_service_namespace="{namespace}",destination_service_name=~"{either}"'
            return (f'istio_requests_total{{reporter=~"source|waypoint",{there}}}',)
        case Counters.NGINX:
            return (f'nginx_ingress_controller_requests{{ingress="{question.route.name}"}}',)
        case Counters.TRAEFIK:
            name = f".*{_pattern(namespace)}-({either})-.*"
            return tuple(
                f'traefik_service_requests_total{{{label}=~"{name}"}}' for label in ("service", "exported_service")
            )
        case never:
            assert_never(never)


def side_of(counters: Counters, labels: Mapping[str, str], question: LiveQuestion) -> SentTo | None:
    """The Service that the requests of a series with these labels went to; None for series of others."""
    (namespace, stable), (_, canary) = question.pair
    match counters:
        case Counters.CONTOUR:
            sides = {f"{namespace}_{stable}": SentTo.STABLE, f"{namespace}_{canary}": SentTo.CANARY}
            return sides.get(labels.get("envoy_cluster_name", "").rpartition("_")[0])
        case Counters.ISTIO:
            sides = {stable: SentTo.STABLE, canary: SentTo.CANARY}
            return sides.get(labels.get("destination_service_name", ""))
        case Counters.NGINX:
            if _own(labels, "namespace") != namespace or labels.get("ingress") != question.route.name:
                return None
            if labels.get("canary", "") not in ("", "-"):
                return SentTo.CANARY  # an Ingress has one canary, which is ours
            return SentTo.STABLE if _own(labels, "service") == stable else None
        case Counters.TRAEFIK:
            name = _own(labels, "service")
            if (found := side_of_service(name, question)) is not None:
                return SentTo(found)
            return SentTo.UNKNOWN if f"{namespace}-{canary}-" in name else None
        case never:
            assert_never(never)


def _own(labels: Mapping[str, str], name: str) -> str:
    """The value of the metric's label of that name, not the target's."""
    return labels.get(f"exported_{name}", labels.get(name, ""))


def _pattern(name: str) -> str:
    return name.replace(".", "[.]")
