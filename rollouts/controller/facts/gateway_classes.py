"""The features that the classes of Gateways support, asked when a step needs more than a share of the requests.

Nothing is watched: a class changes its features only when its product is upgraded. An answer is valid for a minute.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import structlog
from msgspec import Struct

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


class _Known(Struct, frozen=True):
    features: frozenset[str]
    at_s: float


class GatewayClasses:
    """The features of each Gateway's class, by `namespace/name`; empty for a class that names none."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, _Known] = {}

    def known(self, gateways: Iterable[str]) -> frozenset[str] | None:
        """The features that all of `gateways` support; None when one of them was not asked about in the last minute."""
        found: frozenset[str] | None = None
        for name in gateways:
            known = self._known.get(name)
            if known is None or self._clock.monotonic_s() - known.at_s > ANSWER_S:
                return None
            found = known.features if found is None else found & known.features
        return frozenset() if found is None else found

    async def ask(self, gateways: Iterable[str], *, client: Client) -> None:
        """Reads each Gateway and its class. One that is missing, or that the controller may not read, has no features.

        Raises: ApiUnavailable, ApiThrottled.
        """
        for name in gateways:
            features = await _features(name, client)
            self._known[name] = _Known(features, self._clock.monotonic_s())


async def _features(gateway: str, client: Client) -> frozenset[str]:
    namespace, _, name = gateway.partition("/")
    try:
        told = msgspec.json.decode(await client.get(GATEWAY, namespace, name), type=_Gateway)
        answer = await client.get(GATEWAY_CLASS, "", told.spec.gateway_class_name)
        supported = msgspec.json.decode(answer, type=_Class).status.supported_features
    except (ApiNotFound, ApiForbidden, ValueError, RecursionError) as exc:
        log.warning("gateway_features_unknown", gateway=gateway, why=str(exc))
        return frozenset()
    return frozenset(each if isinstance(each, str) else each.name for each in supported)
