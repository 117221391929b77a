"""What a Service does to the shares of a canary and to a cutover. Pure: a Service's manifest or traits in, findings out.

`rollouts lint` and `rollouts plan` check every Service that selects the pods. The condition `ServiceUnsafe` covers only those
that the strategy names: the controller looks at no others.

Sources: KEP-4444 and KEP-3015 (`trafficDistribution`), KEP-2086 (`internalTrafficPolicy`), KEP-1669 (terminating endpoints),
KEP-752 (EndpointSlice), https://kubernetes.io/docs/reference/networking/virtual-ips/, and measurements with kube-proxy 1.36
in iptables and nftables mode.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any

from rollouts.core.advice.findings import Finding, Rule, Severity
from rollouts.core.model.rollout import BlueGreen, Canary, RolloutSpec, named_services
from rollouts.core.model.selectors import selects, users_selector
from rollouts.core.model.service_ref import ServiceRef, SubsetName
from rollouts.core.model.service_traits import ServiceTraits, read_traits
from rollouts.core.model.steps import SetWeight
from rollouts.objects import Manifest, mapping

DNS_TTL_S = 30  # CoreDNS as kubeadm configures it
_MOST_TOPOLOGICAL = {
    "PreferClose": "its zone",
    "PreferSameZone": "its zone",
    "PreferSameNode": "its node, else its zone",
}


class Relation(StrEnum):
    """What a Service has to do with a Rollout."""

    MANAGED = "managed"  # named by the strategy: selects one revision, and is switched
    SHARED = "shared"  # selects the pods of both revisions, so their ratio is the share
    BESIDE = "beside"  # selects the pods of both revisions although the strategy switches another Service


def relation_of(service: Manifest, spec: RolloutSpec) -> Relation | None:
    """What the Service has to do with the Rollout; None for nothing.

    Args:
        service: in the Rollout's namespace.
    """
    if mapping(service.get("metadata")).get("name") in named_services(spec.strategy):
        return Relation.MANAGED
    selector = users_selector(_selector(service))
    if not selector or not selects(selector, spec.template_labels):
        return None
    match spec.strategy:
        case BlueGreen():
            return Relation.BESIDE
        case Canary(traffic_routing=None):
            return Relation.SHARED
        case Canary(stable_service=SubsetName()):  # it may be the host of the subsets
            return None
        case Canary():
            return Relation.BESIDE


def service_findings(service: Manifest, *, relation: Relation) -> tuple[Finding, ...]:
    """The findings about a Service before an update. Raises: nothing; an unreadable field counts as absent."""
    findings = list(trait_findings(read_traits(mapping(service.get("spec"))), relation=relation))
    if relation is Relation.MANAGED and not _selector(service):
        no_selector = Finding(
            Rule.NO_SELECTOR,
            Severity.UNSAFE,
            "spec.selector",
            "a Service without a selector finds no pods, so it cannot be switched to a revision",
            "give it the labels of spec.template as its selector",
        )
        findings.insert(0, no_selector)
    if relation is Relation.BESIDE:
        beside = Finding(
            Rule.BESIDE_THE_SWITCH,
            Severity.WARNING,
            "spec.selector",
            "it selects the pods of both revisions and the strategy does not name it, so its clients reach the new revision "
            "before it is promoted and the old one until its pods end",
            "let clients use the Service that the strategy switches, or keep this one for people who look at all pods",
        )
        findings.append(beside)
    return tuple(findings)


@lru_cache(maxsize=256)  # every pass asks; most Services are alike
def trait_findings(traits: ServiceTraits, *, relation: Relation) -> tuple[Finding, ...]:
    """What the fields of a Service do to shares and cutovers."""
    return tuple(_trait_findings(traits, managed=relation is Relation.MANAGED))


def _trait_findings(traits: ServiceTraits, *, managed: bool) -> Iterator[Finding]:
    if traits.publish_not_ready_addresses:
        yield Finding(
            Rule.PUBLISHES_NOT_READY,
            Severity.UNSAFE,
            "spec.publishNotReadyAddresses",
            "pods get requests before they are ready and while they end; the EndpointSlices show all of them as ready, so they "
            "cannot confirm that a switch was safe",
            "remove it, and give peers that must find each other early a Service of their own",
        )
    if traits.internal_traffic_policy == "Local":
        yield Finding(
            Rule.INTERNAL_TRAFFIC_LOCAL,
            Severity.UNSAFE,
            "spec.internalTrafficPolicy",
            "Local gives a client only pods on its own node: where the last one leaves, connections are dropped although other "
            "nodes have pods, and where only the canary runs, it gets 100 % of the connections, whatever its weight",
            "use Cluster (the default), or trafficDistribution: PreferSameNode, which falls back to other nodes",
        )
    if traits.external_traffic_policy == "Local" and traits.type in ("NodePort", "LoadBalancer"):
        yield _external(managed=managed)
    if (near := _MOST_TOPOLOGICAL.get(traits.traffic_distribution)) is not None:
        yield _distribution(f"{traits.traffic_distribution} keeps a client's connections in {near}", managed=managed)
    if traits.client_ip_s is not None:
        shares = (
            "requests of one client, or of all clients behind one NAT or proxy, go to one pod, so shares are not the ratio of "
            "pods; "
        )
        yield Finding(
            Rule.SESSION_AFFINITY,
            Severity.WARNING,
            "spec.sessionAffinity",
            f"{'' if managed else shares}a client stays with its pod for {traits.client_ip_s} s after its last connection and "
            "moves when that pod leaves the EndpointSlices: a session that only the pod knows is lost then",
            "keep sessions outside the pods and use None, or split traffic by a gateway that knows sessions",
        )
    if traits.headless:
        yield Finding(
            Rule.HEADLESS,
            Severity.UNSAFE if managed else Severity.WARNING,
            "spec.clusterIP",
            "a headless Service has no proxy: clients keep the addresses from DNS, so clients decide the shares, "
            f"and a pod that left may get requests for {DNS_TTL_S} s (the TTL of a name) or as long as a client caches its "
            "address",
            f"use a ClusterIP, or make the preStop sleep longer than {DNS_TTL_S} s and let clients look names up again",
        )


def service_without_weight(spec: RolloutSpec) -> ServiceRef | None:
    """The Service that the strategy switches and whose clients no step's weight reaches, though steps set one.

    Without `trafficRouting` a weight is a ratio of pods, so only a Service that selects the pods of both revisions shares
    requests by it. `stableService` selects the stable revision alone until the update is over.
    """
    match spec.strategy:
        case Canary(traffic_routing=None, stable_service=str() as service, steps=steps):
            partial = any(isinstance(step, SetWeight) and 0 < step.weight_percent < 100 for step in steps)
            return service if partial else None
        case _:
            return None


def weight_findings(spec: RolloutSpec, *, severity: Severity) -> tuple[Finding, ...]:
    """The finding about such a Service.

    Args:
        severity: a note where another Service is seen that selects the pods of both revisions, which clients may use.
    """
    service = service_without_weight(spec)
    if service is None:
        return ()
    finding = Finding(
        Rule.WEIGHT_WITHOUT_EFFECT,
        severity,
        "spec.strategy.canary.stableService",
        f"without trafficRouting a weight is a ratio of pods, and Service {service} selects the stable revision alone until the "
        "end: its clients get nothing of the canary, and at setWeight: 90 one of ten pods takes all of their requests",
        "let clients use a Service that selects the pods of both revisions, or name the router that splits their requests in "
        "trafficRouting (trafficRouting: {} where somebody else splits them)",
    )
    return (finding,)


def _external(*, managed: bool) -> Finding:
    severity = Severity.WARNING
    what = (
        "Local shares outside connections by node, not by pod, so a canary's share is that of its nodes; once the last pod "
        "of a node is gone, connections to that node fail until the load balancer notices"
    )
    fix = "use Cluster, or make the preStop sleep longer than the load balancer's health check takes to fail"
    if managed:
        severity = Severity.UNSAFE
        what = (
            "Local drops outside connections on nodes without a ready pod: at the switch, nodes that have only old pods drop "
            "them at once, until the load balancer's health check fails there"
        )
        fix = "use Cluster, or run a pod of each revision on every node that the load balancer sends to"
    return Finding(Rule.EXTERNAL_TRAFFIC_LOCAL, severity, "spec.externalTrafficPolicy", what, fix)


def _distribution(keeps: str, *, managed: bool) -> Finding:
    severity = Severity.UNSAFE
    what = (
        f"{keeps}: where the only pod is a canary, it gets 100 % of them, and 0 % where there is no canary, whatever its weight; "
        "when the last pod of a zone leaves, the others take its clients at once"
    )
    fix = "remove it while canaries share this Service, or give the canary a Service of its own behind a gateway"
    if managed:
        severity = Severity.WARNING
        what = (
            f"{keeps}: while a revision is small, one pod may get all of a zone; drain is not affected, because a zone without "
            "pods falls back to the others"
        )
        fix = "have at least one pod of each revision in every zone (topologySpreadConstraints), or remove the field"
    return Finding(Rule.TRAFFIC_DISTRIBUTION, severity, "spec.trafficDistribution", what, fix)


def _selector(service: Manifest) -> Mapping[str, Any]:
    return mapping(mapping(service.get("spec")).get("selector"))
