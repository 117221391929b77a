"""Counts the requests in flight through an Envoy at pods that no Service shows any more.

A host that left a cluster is not listed any more, though its requests continue; the cluster's own gauge still counts them. So
the requests in flight at a revision are `upstream_rq_active` of the clusters that it was in, minus those of their other hosts.
The two are read one after the other, so the other hosts are read before and after, and the lower count is subtracted: under load
the result is too high rather than too low. `upstream_cx_active` would show nothing, because idle connections are kept.

Requests that reach the pods by another way (through a ClusterIP, a node port) are not seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote

import msgspec

from rollouts.ports import DrainQuestion
from rollouts.probes.envoy import service_of_cluster

HOSTS = "/clusters?format=json"
ACTIVE = "/stats?format=json&filter=%5C.upstream_rq_active%24"  # \.upstream_rq_active$

_GAUGE = "upstream_rq_active"
_FILTER_MAX = 4096  # characters in a path


def clusters_of(hosts: bytes, question: DrainQuestion) -> tuple[str, ...]:
    """Names of the clusters that lead to the Rollout's pods, or to the Service that left the revision.

    Raises: msgspec.DecodeError when it is not such an answer.
    """
    return tuple(cluster.name for cluster in _hosts(hosts).values() if _is_about(cluster, question))


def hosts_path(clusters: Iterable[str]) -> str:
    """The path for the hosts of these clusters only, or of all clusters when that path would be too long."""
    names = quote(f"^({'|'.join(map(re.escape, clusters))})$", safe="")
    return f"{HOSTS}&filter={names}" if len(names) <= _FILTER_MAX else HOSTS


def requests_in_flight(*, before: bytes, active: bytes, after: bytes, question: DrainQuestion) -> int | None:
    """Requests at the revision's pods; None when no cluster of this Envoy leads to the Rollout's pods or its Service.

    Args:
        after: body of HOSTS, or of `hosts_path`.
        active: body of ACTIVE, asked for between the two.

    Raises: msgspec.DecodeError when a body is not such an answer.
    """
    gauges: dict[str, int] = {}
    for stat in msgspec.json.decode(active, type=_Stats).stats:
        name = stat.name.removeprefix("cluster.").removesuffix(f".{_GAUGE}")
        if stat.value is not None and stat.name == f"cluster.{name}.{_GAUGE}":
            gauges[name] = stat.value
    first, last = _hosts(before), _hosts(after)
    names = {name for hosts in (first, last) for name, cluster in hosts.items() if _is_about(cluster, question)}
    if not names & gauges.keys():
        return None
    others = {name: min(_active_of_others(hosts.get(name), question) for hosts in (first, last)) for name in names}
    return sum(max(0, gauges[name] - others[name]) for name in names & gauges.keys())


def _is_about(cluster: _Cluster, question: DrainQuestion) -> bool:
    pods = question.addresses | question.others
    named = service_of_cluster(cluster.name) == (question.namespace, question.service)
    return named or any(host.ip in pods for host in cluster.host_statuses)


def _active_of_others(cluster: _Cluster | None, question: DrainQuestion) -> int:
    """Requests at hosts that are not the revision's pods."""
    hosts = () if cluster is None else cluster.host_statuses
    return sum(host.active for host in hosts if host.ip not in question.addresses)


def _hosts(body: bytes) -> dict[str, _Cluster]:
    """The clusters, by their name in the statistics."""
    found = msgspec.json.decode(body, type=_Clusters).cluster_statuses
    return {cluster.observability_name or cluster.name: cluster for cluster in found}


class _Stat(msgspec.Struct):
    name: str = ""
    value: int | None = None


class _Stats(msgspec.Struct):
    stats: list[_Stat] = msgspec.field(default_factory=list)


class _HostStat(msgspec.Struct):
    name: str = ""
    value: str = "0"  # a uint64, which protobuf's JSON writes as a string


class _SocketAddress(msgspec.Struct):
    address: str = ""


class _Address(msgspec.Struct):
    socket_address: _SocketAddress = msgspec.field(default_factory=_SocketAddress)


class _Host(msgspec.Struct):
    address: _Address = msgspec.field(default_factory=_Address)
    stats: list[_HostStat] = msgspec.field(default_factory=list)

    @property
    def ip(self) -> str:
        """The pod's address."""
        return self.address.socket_address.address

    @property
    def active(self) -> int:
        """Its requests in flight; the answer leaves out 0."""
        return sum(int(stat.value) for stat in self.stats if stat.name == "rq_active")


class _Cluster(msgspec.Struct):
    name: str = ""
    observability_name: str = ""
    host_statuses: list[_Host] = msgspec.field(default_factory=list)


class _Clusters(msgspec.Struct):
    cluster_statuses: list[_Cluster] = msgspec.field(default_factory=list)
