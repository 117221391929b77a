"""Which addresses the controller may ask, by who has named the URL: the one place that decides. Pure.

A tenant names a URL and the controller asks it, from within the cluster and with nobody in between. So what a tenant names must
be public, and is judged by the address that the connection goes to, never by the name. What an administrator names may be
private, but no cloud's metadata service either, as those give credentials to whoever asks. `probes/exchange.py` gives nobody an
address that was not judged here.
Sources: the IANA special-purpose address registries (RFC 6890); the metadata addresses of AWS, Azure, GCP, Alibaba and Oracle.
"""

from __future__ import annotations

import ipaddress
import re
from enum import Enum, auto
from typing import TypeAlias

from msgspec import Struct

URL_MAX = 4_096

_URL = re.compile(
    r"(?P<scheme>[hH][tT][tT][pP][sS]?)://(?P<host>[A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::(?P<port>\d{1,5}))?(?:[/?][\x21\x22\x24-\x5b\x5d-\x7e]*)?"
)
_NUMBER = re.compile(r"(?:0x[0-9a-f]*|\d+)", re.IGNORECASE)


class AddressKind(Enum):
    """What an address is for those who are asked from within a cluster."""

    PUBLIC = auto()
    # The cluster's own, the machine's own, and what clouds hand out to clusters although it is reserved.
    PRIVATE = auto()
    REFUSED = auto()  # nobody serves metrics there


_PRIVATE = (
    *("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7"),
    # Protocol assignments, documentation, relays, benchmarks and reserved ones: Google Cloud has them for nodes and pods.
    # Source: https://cloud.google.com/vpc/docs/subnets#valid-ranges
    *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
    "240.0.0.0/4",
)
_REFUSED = (
    # Metadata services.
    *("168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32", "fd00:ec2::/32", "fd20:ce::254/128"),
    # This network, link-local, multicast, broadcast.
    *("0.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32"),
    # Within 2000::/3: protocol assignments with Teredo, documentation, 6to4, documentation.
    *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
)
_METADATA_NAMES = ("metadata.google.internal", "metadata.goog")
METADATA_REFUSED = (
    "the URL's host is a cloud's metadata service, or link-local: it gives credentials to whoever asks, so it is not asked; put a"
    " token into a Secret (bearer), or ask a proxy that has one"
)
_PRIVATE_NETWORKS = tuple(map(ipaddress.ip_network, _PRIVATE))
_REFUSED_NETWORKS = tuple(map(ipaddress.ip_network, _REFUSED))
_GLOBAL_IPV6 = ipaddress.ip_network("2000::/3")
"""What of IPv6 is handed out. Outside of it are also the forms that hold an IPv4 address (`::ffff:0:0/96`, `64:ff9b::/96`)."""


class TenantUrls(Struct, frozen=True):
    """Whether metrics may name URLs that no administrator declared, and which.

    Args:
        hosts: names that they may ask, `metrics.example.com` or `*.example.com`; () for all.
        refused: networks that they may not ask besides: the cluster's own, where they are public.
    """

    allowed: bool = False
    hosts: tuple[str, ...] = ()
    ports: frozenset[int] = frozenset({443})
    plain_http: bool = False
    refused: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()


class AdministratorUrls(Struct, frozen=True):
    """URLs in flags, MetricProviders and TrafficProviders: of any host and port."""


ADMINISTRATORS = AdministratorUrls()
UrlRules: TypeAlias = TenantUrls | AdministratorUrls
"""Whose rules are for a URL: of whoever has named it, whatever it belongs to."""


def url_problem(url: str, rules: UrlRules) -> str:
    """Why this URL may not be asked, in words without a part of it; "" when its address decides."""
    tenants = rules if isinstance(rules, TenantUrls) else None
    if tenants is not None and not tenants.allowed:
        return "only endpoints that an administrator declared may be asked"
    found = _URL.fullmatch(url) if len(url) <= URL_MAX else None
    if found is None:
        return "the URL must be https://HOST[:PORT][/PATH], in ASCII, without user, fragment and backslash"
    scheme = found["scheme"].lower()
    port = int(found["port"]) if found["port"] else 443 if scheme == "https" else 80
    if not 0 < port < 65_536:
        return "the URL's port is none"
    host = found["host"].lower().removesuffix(".")
    if tenants is None:
        literal = _address(host.strip("[]"))
        refused = literal is not None and address_kind(str(literal)) is AddressKind.REFUSED
        return METADATA_REFUSED if refused or host in _METADATA_NAMES else ""
    if scheme != "https" and not tenants.plain_http:
        return "the URL must begin with https://"
    if port not in tenants.ports:
        return f"port {port} may not be asked"
    if _NUMBER.fullmatch(host.rpartition(".")[2]) and _address(host) is None:
        return "the URL's host is a number, not a name and not an IP address as it is written"
    patterns = [pattern.lower() for pattern in tenants.hosts]
    matches = (host.endswith(it[1:]) if it.startswith("*.") else host == it for it in patterns)
    if patterns and not any(matches):
        return "the URL's host is not one that the administrator allows"
    return ""


def address_kind(text: str) -> AddressKind:
    """What the IP address is; a text that is none is refused."""
    address = _address(text)
    if address is None or any(address in network for network in _REFUSED_NETWORKS):
        return AddressKind.REFUSED
    if any(address in network for network in _PRIVATE_NETWORKS):
        return AddressKind.PRIVATE
    if isinstance(address, ipaddress.IPv6Address) and address not in _GLOBAL_IPV6:
        return AddressKind.REFUSED
    return AddressKind.PUBLIC


def may_be_asked(text: str, rules: UrlRules) -> bool:
    """Whether a connection to this IP address may be opened."""
    kind = address_kind(text)
    if isinstance(rules, AdministratorUrls):
        return kind is not AddressKind.REFUSED
    if kind is not AddressKind.PUBLIC:
        return False
    address = ipaddress.ip_address(text)
    return not any(address in network for network in rules.refused)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
