"""The features that the classes of Gateways support, asked when a step needs more than a share of the requests.

Nothing is watched: a class changes its features only when its product is upgraded. An answer is valid for a minute.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec
import structlog

from rollouts.cluster.client import Client
from rollouts.errors import ApiForbidden, ApiNotFound
from rollouts.objects import Kind
from rollouts.ports import Clock
from rollouts.traffic.gateway_api.parents import GROUP

GATEWAY = Kind(GROUP, "v1", "Gateway", "gateways")
GATEWAY_CLASS = Kind(GROUP, "v1", "GatewayClass", "gatewayclasses", namespaced=False)
ANSWER_S = 60.0

log = structlog.get_logger()


class _GatewaySpec(msgspec.Struct, rename="camel", frozen=True):
    gateway_class_name: str = ""


class _Gateway(msgspec.Struct, frozen=True):
    spec: _GatewaySpec = _GatewaySpec()


class _Feature(msgspec.Struct, frozen=True):
    name: str = ""


class _ClassStatus(msgspec.Struct, rename="camel", frozen=True):
    supported_features: tuple[_Feature | str, ...] = ()


class _Class(msgspec.Struct, frozen=True):
    status: _ClassStatus = _ClassStatus()


class GatewayClasses:
    """The features of each Gateway's class, by `namespace/name`; empty for a class that names none."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, tuple[frozenset[str], float]] = {}  # features, and when they were read

    def known(self, gateways: Iterable[str]) -> frozenset[str] | None:
        """The features that all of `gateways` support; None when one of them was not asked about in the last minute."""
        supported: frozenset[str] | None = None
        for gateway in gateways:
            features, at_s = self._known.get(gateway, (frozenset(), -math.inf))
            if self._clock.monotonic_s() - at_s > ANSWER_S:
                return None
            supported = features if supported is None else supported & features
        return frozenset() if supported is None else supported

    async def ask(self, gateways: Iterable[str], *, client: Client) -> None:
        """Reads each Gateway and its class. One that is missing, or that the controller may not read, has no features.

        Raises: ApiUnavailable, ApiThrottled.
        """
        for gateway in gateways:
            namespace, _, name = gateway.partition("/")
            features: frozenset[str] = frozenset()
            try:
                spec = msgspec.json.decode(await client.get(GATEWAY, namespace, name), type=_Gateway).spec
                answer = await client.get(GATEWAY_CLASS, "", spec.gateway_class_name)
                supported = msgspec.json.decode(answer, type=_Class).status.supported_features
                features = frozenset(each if isinstance(each, str) else each.name for each in supported)
            except (ApiNotFound, ApiForbidden, ValueError, RecursionError) as exc:
                log.warning("gateway_features_unknown", gateway=gateway, why=str(exc))
            self._known[gateway] = features, self._clock.monotonic_s()
