"""The data planes that the operator named: which gateway they belong to, and how to ask them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from rollouts.errors import SettingsInvalid
from rollouts.probes.counter_series import KINDS, Counters
from rollouts.secret import without_password

_CONFIGURED_KINDS = frozenset({"HTTPRoute", "GRPCRoute", "HTTPProxy", "TraefikService"})
"""Kinds of routes that can be found in a data plane's configuration. The others are not asked about: TCP and TLS routes are in an
Envoy's listeners, and Istio's subsets are in no Service's name."""

EVERY_GATEWAY = "*"
"""Names the data plane of every gateway that has none of its own, and of routes that do not name their gateway."""

PROMETHEUS = "prometheus"
AWS = "aws"

_ALB = "alb"
_REGION = re.compile(r"[a-z]{2,}(?:-[a-z]+)+-\d{1,2}")


class PlaneKind(StrEnum):
    """The interface at a data plane's URL."""

    ENVOY = "envoy"  # the admin interface
    TRAEFIK = "traefik"  # the API of `--api.insecure`, or of a router in front of `api@internal`


class DataPlane(Struct, frozen=True):
    """The proxies of one Gateway.

    Args:
        urls: `http://host:port`, without a trailing slash; each address of a host is a replica.
    """

    kind: PlaneKind
    urls: tuple[str, ...]


class CountedPlane(Struct, frozen=True):
    """Proxies whose counters of requests are in the controller's Prometheus."""

    counters: Counters


class AwsPlane(Struct, frozen=True):
    """The Application Load Balancers of one region, asked about through AWS's API."""

    region: str


Plane: TypeAlias = DataPlane | CountedPlane | AwsPlane


def kinds_told(plane: Plane) -> frozenset[str]:
    """The kinds of routes of which it can tell whether their split is live."""
    match plane:
        case DataPlane():
            return _CONFIGURED_KINDS
        case CountedPlane(counters):
            return KINDS[counters]
        case AwsPlane():
            return frozenset({"Ingress"})


def parse_data_planes(texts: Iterable[str]) -> Mapping[str, Plane]:
    """Parses flags into data planes by gateway: `NAMESPACE/GATEWAY=envoy:http://host:port[,URL]`, or `…=prometheus:istio`.

    A router's name (`nginx`) stands for all its gateways, `*` for every gateway that no other flag names. AWS is only for the
    router `alb`: `alb=aws:REGION`.

    Raises: SettingsInvalid for the first text that cannot be used, naming it and the remedy.
    """
    planes: dict[str, Plane] = {}
    for text in texts:
        gateway, _, place = text.partition("=")
        kind, _, rest = place.partition(":")
        if not gateway or kind not in {*PlaneKind, PROMETHEUS, AWS}:
            raise SettingsInvalid(
                f"--data-plane: {without_password(text)!r} is not NAMESPACE/GATEWAY=KIND:URL[,URL], for example shop/web=envoy:http://eg-admin:19000;"
                f" KIND is one of {', '.join(PlaneKind)}; or NAMESPACE/GATEWAY={PROMETHEUS}:COUNTERS, COUNTERS one of"
                f" {', '.join(Counters)}; or {_ALB}={AWS}:REGION"
            )
        if gateway in planes:
            raise SettingsInvalid(
                f"--data-plane: {gateway} is given twice; put all its URLs into one flag, with commas between them"
            )
        planes[gateway] = _plane(gateway, kind, rest)
    return planes


def parse_url(flag: str, text: str) -> str:
    """An `http://` or `https://` URL of a service within the cluster, without a trailing slash, query or password.

    Raises: SettingsInvalid.
    """
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # a port that is not a number, an address with half a bracket
        good = False
    if not good or parts.username is not None or parts.query or parts.fragment:
        raise SettingsInvalid(
            f"{flag}: {without_password(text)!r} is not http://HOST:PORT or https://HOST:PORT, with or without a path"
        )
    return text.rstrip("/")


def _plane(gateway: str, kind: str, rest: str) -> Plane:
    if kind == PROMETHEUS:
        if rest not in set(Counters):
            raise SettingsInvalid(
                f"--data-plane: {PROMETHEUS}:{rest} is unknown; write one of {', '.join(Counters)}, and set the address of"
                " Prometheus with --prometheus-url"
            )
        return CountedPlane(Counters(rest))
    if kind == AWS:
        if gateway != _ALB or not _REGION.fullmatch(rest):
            raise SettingsInvalid(
                f"--data-plane: {gateway}={AWS}:{rest} is not {_ALB}={AWS}:REGION, for example {_ALB}={AWS}:eu-west-1"
            )
        return AwsPlane(rest)
    return DataPlane(PlaneKind(kind), tuple(parse_url("--data-plane", url) for url in rest.split(",")))
