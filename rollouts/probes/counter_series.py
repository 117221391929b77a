"""Which series of Prometheus count the requests that a route brings to the stable and to the canary Service.

* `contour`: `envoy_cluster_upstream_rq_total` of the Envoys; Contour calls a cluster's statistics `NAMESPACE_SERVICE_PORT`. Envoy
  Gateway has both Services in one cluster, so its counters cannot tell them apart: its Envoys' configuration is to be asked.
* `istio`: `istio_requests_total` as the calling side reports it, so that a request counts which no pod has answered.
* `nginx`: `nginx_ingress_controller_requests` of the user's Ingress. `service` is the stable one for every request; `canary` is
  the upstream that a canary's Ingress brought it to.
* `traefik`: `traefik_service_requests_total`; a service there is named after the Kubernetes Service (`traefik.py`).

Where Prometheus found a label of that name on the target already, the metric's own is `exported_…` (`honor_labels: false`).

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
)  # of an object of Kubernetes: nothing that PromQL or a pattern could mistake
_GATEWAY_ROUTES = frozenset({"HTTPRoute", "GRPCRoute"})


class Counters(StrEnum):
    """Whose counters."""

    CONTOUR = "contour"
    ISTIO = "istio"
    NGINX = "nginx"
    TRAEFIK = "traefik"


class SentTo(StrEnum):
    """The Service that a request went to."""

    STABLE = "stable"
    CANARY = "canary"
    UNKNOWN = "untold"  # maybe the canary: what was not counted is not nothing


KINDS: Mapping[Counters, frozenset[str]] = MappingProxyType(
    {
        Counters.CONTOUR: _GATEWAY_ROUTES | {"HTTPProxy"},
        Counters.ISTIO: _GATEWAY_ROUTES | {"VirtualService"},
        Counters.NGINX: frozenset({"Ingress"}),
        Counters.TRAEFIK: _GATEWAY_ROUTES | {"TraefikService"},
    }
)
"""Routes that the counters know."""


def selectors(counters: Counters, question: LiveQuestion) -> tuple[str, ...]:
    """PromQL selectors that together have every series of the two Services; () when a name cannot be said, or is there twice.

    They may have others' series too: `side_of` tells which are whose.
    """
    (namespace, stable), (_, canary) = question.pair
    names = (namespace, stable, canary, question.route.name)
    if stable == canary or not all(_NAME.fullmatch(each) for each in names):
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
    """Where the requests of a series with these labels went; None for those of others."""
    (namespace, stable), (_, canary) = question.pair
    match counters:
        case Counters.CONTOUR:
            sides = {f"{namespace}_{stable}": SentTo.STABLE, f"{namespace}_{canary}": SentTo.CANARY}
            return sides.get(labels.get("envoy_cluster_name", "").rpartition("_")[0])
        case Counters.ISTIO:
            sides = {stable: SentTo.STABLE, canary: SentTo.CANARY}
            return sides.get(labels.get("destination_service_name", ""))
        case Counters.NGINX:
            return _side_of_ingress(labels, question)
        case Counters.TRAEFIK:
            name = _own(labels, "service")
            if (found := side_of_service(name, question)) is not None:
                return SentTo(found)
            return SentTo.UNKNOWN if f"{namespace}-{canary}-" in name else None
        case never:
            assert_never(never)


def _side_of_ingress(labels: Mapping[str, str], question: LiveQuestion) -> SentTo | None:
    (namespace, stable), _ = question.pair
    if _own(labels, "namespace") != namespace or labels.get("ingress") != question.route.name:
        return None
    if labels.get("canary", "") not in ("", "-"):
        return SentTo.CANARY  # an Ingress has one canary, ours
    return SentTo.STABLE if _own(labels, "service") == stable else None


def _own(labels: Mapping[str, str], name: str) -> str:
    """The metric's label of that name, not the target's."""
    return labels.get(f"exported_{name}", labels.get(name, ""))


def _pattern(name: str) -> str:
    return name.replace(".", "[.]")
