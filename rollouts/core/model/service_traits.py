"""The fields of a Service that decide which pods its clients reach, as the API names them.

Source: https://kubernetes.io/docs/reference/kubernetes-api/service-resources/service-v1/
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from rollouts.objects import mapping

CLIENT_IP_TIMEOUT_S = 10_800  # Kubernetes' default
HEADLESS = "None"
"""The value of `clusterIP` for a Service without an address."""


class ServicePort(Struct, frozen=True, kw_only=True, rename={"target": "targetPort", "app_protocol": "appProtocol"}):
    """One port of a Service; in JSON as the API names it.

    Args:
        target: number or name of the pods' port; None for the same number.
    """

    port: int
    name: str = ""
    protocol: str = "TCP"
    target: int | str | None = None
    app_protocol: str = ""

    @property
    def manifest(self) -> dict[str, Any]:
        """An entry of `spec.ports`."""
        return {field: value for field, value in msgspec.to_builtins(self).items() if value}


class ServiceTraits(Struct, frozen=True, kw_only=True):
    """Those fields of one Service. The defaults are those of a Service with only a selector and ports.

    Args:
        client_ip_s: how long a client stays with its pod; None without `sessionAffinity: ClientIP`.
    """

    type: str = "ClusterIP"
    headless: bool = False
    publish_not_ready_addresses: bool = False
    internal_traffic_policy: str = "Cluster"
    external_traffic_policy: str = "Cluster"
    traffic_distribution: str = ""
    client_ip_s: int | None = None


PLAIN = ServiceTraits()


def client_ip_s(*, affinity: str | None, timeout_s: int | None) -> int | None:
    """Seconds that a client stays with its pod, from `sessionAffinity` and its timeout; None without affinity."""
    if affinity != "ClientIP":
        return None
    return CLIENT_IP_TIMEOUT_S if timeout_s is None else timeout_s


def read_traits(spec: Mapping[str, Any]) -> ServiceTraits:
    """The traits in `.spec` of a manifest. Raises: nothing; an unreadable field counts as absent."""
    seconds = mapping(mapping(spec.get("sessionAffinityConfig")).get("clientIP")).get("timeoutSeconds")
    return ServiceTraits(
        type=_word(spec, "type", PLAIN.type),
        headless=spec.get("clusterIP") == HEADLESS,
        publish_not_ready_addresses=spec.get("publishNotReadyAddresses") is True,
        internal_traffic_policy=_word(spec, "internalTrafficPolicy", PLAIN.internal_traffic_policy),
        external_traffic_policy=_word(spec, "externalTrafficPolicy", PLAIN.external_traffic_policy),
        traffic_distribution=_word(spec, "trafficDistribution", PLAIN.traffic_distribution),
        client_ip_s=client_ip_s(
            affinity=_word(spec, "sessionAffinity", ""), timeout_s=seconds if type(seconds) is int else None
        ),
    )


def _word(spec: Mapping[str, Any], name: str, default: str) -> str:
    value = spec.get(name)
    return value if isinstance(value, str) else default
