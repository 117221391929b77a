"""The Services of one Rollout at one instant, and the subsets of a DestinationRule, which are Services to core. No I/O.

Each subset is read from two objects: the rule, whose labels name the revision, and the Service that is the rule's host, whose
EndpointSlices show the ready pods. A subset counts as managed when both carry our marks, so that both are watched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import assert_never

from msgspec import Struct

from rollouts.cluster.store import Store
from rollouts.cluster.structs import EndpointSliceObject, ServiceObject
from rollouts.controller.observe.routes import RouteRead
from rollouts.controller.workqueue.inbox import Inbox
from rollouts.controller.workqueue.managed import managed_by
from rollouts.controller.workqueue.triggers import SERVICE_NAME
from rollouts.core.model.frozen import replace
from rollouts.core.model.selectors import selects, users_selector
from rollouts.core.model.service_ref import ServiceRef, SubsetName
from rollouts.core.model.service_traits import HEADLESS, ServiceTraits, client_ip_s
from rollouts.core.model.snapshot import Service, ServiceAbsent, ServiceSeen, ServiceUnasked
from rollouts.core.model.traffic import RouteAbsent, RouteName, RouteSeen, RouteUnasked
from rollouts.errors import Unroutable
from rollouts.manifests.ownership import MANAGED, MANAGED_VALUE, POD_TEMPLATE_HASH, REVISION
from rollouts.objects import ENDPOINT_SLICE, SERVICE, Key
from rollouts.traffic.codec import Objects
from rollouts.traffic.istio.subsets import host_of, subset_of


class ServiceReader(Struct, frozen=True):
    """Reads the Services of a Rollout from the store if they are watched, otherwise from the inbox.

    Args:
        template_labels: of the Rollout's pods.
        revision_of: the revision of each of its ReplicaSets, by name.
        label: by which a Service selects one revision.
    """

    store: Store
    inbox: Inbox
    key: Key
    template_labels: Mapping[str, str]
    revision_of: Mapping[str, str]
    now_s: float
    label: str = REVISION

    def service(self, name: str) -> Service:
        """The Service of that name, as far as it is known."""
        watched: ServiceObject | None = self.store.table(SERVICE).get(self.key.namespace, name)
        if watched is not None:
            slices = self._slices(name)
            seen = service_seen(watched, self.template_labels, _ready_by_revision(slices, self.revision_of), self.label)
            return replace(
                seen, slices_seen=any(endpoint_slice.metadata.controller_uid == seen.uid for endpoint_slice in slices)
            )
        answer = self.inbox.service(self.key, name)
        if answer is None:
            return ServiceUnasked(name)
        read_at_s = self.now_s - self.inbox.age_s(answer)
        if answer.service is None:
            return ServiceAbsent(name, at_s=read_at_s)
        return replace(
            service_seen(answer.service, self.template_labels, {}, self.label), read_at_s=read_at_s, slices_seen=False
        )

    def host(self, rule: RouteRead) -> ServiceObject | None:
        """The Service that is the rule's host; None while it is not known."""
        if not (name := host_name(rule)):
            return None
        watched: ServiceObject | None = self.store.table(SERVICE).get(self.key.namespace, name)
        answer = self.inbox.service(self.key, name) if watched is None else None
        return answer.service if answer is not None else watched

    def with_subsets(self, rule: RouteRead, services: Mapping[ServiceRef, Service]) -> dict[ServiceRef, Service]:
        """The rule's two subsets, and the Services without the subsets' host, which the subsets stand for.

        While the host is not known, any Service that we manage may be it, and none may be released.
        """
        host_service = host_name(rule)
        host = services.get(host_service) or self.service(host_service)
        ready = _ready_by_revision(self._slices(host_service), self.revision_of)
        names = [SubsetName(rule.place.target.name, subset) for subset in rule.place.target.subsets or ()]
        others = {name: service for name, service in services.items() if host_service and name != host_service}
        return {**{name: self._subset(rule, host, name, ready) for name in names}, **others}

    def _slices(self, service: str) -> Iterable[EndpointSliceObject]:
        return self.store.table(ENDPOINT_SLICE).labelled(SERVICE_NAME, self.key.namespace, service)

    def _subset(self, rule: RouteRead, host: Service, name: SubsetName, ready: Mapping[str, int]) -> Service:
        match rule.route, rule.objects:
            case RouteUnasked(), _:
                return ServiceUnasked(name)
            case RouteAbsent(route=route, at_s=at_s, message=message), _:
                missing = message or f"{route} does not exist; create it or remove it from trafficRouting"
                return ServiceAbsent(name, at_s, missing)
            case RouteSeen() as seen, Objects(user=user):
                pass
            case _:
                return ServiceUnasked(name)
        made = ServiceSeen(
            name=name, uid=seen.uid, resource_version=seen.resource_version, revision="", managed_by="", watched=False
        )
        try:
            host_of(user, namespace=rule.place.target.namespace)
            subset = subset_of(user, name.subset)
        except Unroutable as exc:
            return replace(made, problem=str(exc))
        match host:
            case ServiceUnasked():
                return ServiceUnasked(name)
            case ServiceAbsent(name=service, at_s=at_s):
                return ServiceAbsent(
                    name, at_s, f"Service {service}, the host of {seen.route}, does not exist; create it"
                )
            case ServiceSeen():
                pass
            case never:
                assert_never(never)
        marked_rule = (user["metadata"].get("labels") or {}).get(MANAGED) == MANAGED_VALUE
        managers = (seen.managed_by, host.managed_by)
        ours = rule.context.rollout
        another = next((manager for manager in managers if manager not in ("", ours)), "")
        return replace(
            made,
            resource_version=version_of(seen.resource_version, host.resource_version),
            revision=subset.revision,
            managed_by=another or (ours if managers == (ours, ours) else ""),
            watched=marked_rule and host.watched and not host.revision,
            has_selector=host.has_selector,
            selects_template=host.selects_template and selects(subset.labels, self.template_labels),
            ready_by_revision={subset.revision: ready.get(subset.revision, 0)} if subset.revision else ready,
        )


def ready_pods(store: Store, namespace: str, service: str) -> int:
    """How many pods the EndpointSlices of a Service show as ready."""
    slices = store.table(ENDPOINT_SLICE).labelled(SERVICE_NAME, namespace, service)
    endpoints = (endpoint for each in slices for endpoint in each.endpoints or ())
    return len(
        {
            endpoint.target_ref.uid
            for endpoint in endpoints
            if endpoint.target_ref is not None and endpoint.conditions.ready is not False
        }
    )


def service_seen(
    seen: ServiceObject, template_labels: Mapping[str, str], ready: Mapping[str, int], label: str
) -> ServiceSeen:
    """What a Service selects and how it leads clients to pods; `ready` are endpoints by revision.

    With the label of another mode beside it, no revision is selected.
    """
    metadata, spec = seen.metadata, seen.spec
    selector = spec.selector or {}
    users = users_selector(selector)
    config = spec.session_affinity_config
    client_ip = config.client_ip if config is not None else None
    return ServiceSeen(
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        revision=selector.get(label, "") if not (selector.keys() & {REVISION, POD_TEMPLATE_HASH}) - {label} else "",
        managed_by=managed_by(seen),
        watched=(metadata.labels or {}).get(MANAGED) == MANAGED_VALUE,
        selects_template=selects(users, template_labels),
        has_selector=bool(users),
        traits=ServiceTraits(
            type=spec.type,
            headless=spec.cluster_ip == HEADLESS,
            publish_not_ready_addresses=spec.publish_not_ready_addresses,
            internal_traffic_policy=spec.internal_traffic_policy,
            external_traffic_policy=spec.external_traffic_policy,
            traffic_distribution=spec.traffic_distribution or "",
            client_ip_s=client_ip_s(
                affinity=spec.session_affinity, timeout_s=client_ip.timeout_seconds if client_ip is not None else None
            ),
        ),
        ready_by_revision=ready,
        ports=spec.ports or (),
    )


def _ready_by_revision(slices: Iterable[EndpointSliceObject], revision_of: Mapping[str, str]) -> dict[str, int]:
    """Ready endpoints, each pod counted once (a dual-stack Service has a slice for each address family)."""
    revisions: dict[str, str] = {}
    for endpoint_slice in slices:
        for endpoint in endpoint_slice.endpoints or ():
            if endpoint.conditions.ready is False:  # absent means "unknown", which consumers treat as ready
                continue
            target = endpoint.target_ref
            if target is None or target.kind != "Pod":
                revisions[f"{endpoint_slice.metadata.name}#{len(revisions)}"] = ""
                continue
            # A ReplicaSet's pods are named after it, with five characters more (generateName).
            revisions[target.name] = revision_of.get(target.name[:-6], "")
    return dict(Counter(revisions.values()))


def rule_of(routes: Mapping[RouteName, RouteRead]) -> RouteRead | None:
    """The DestinationRule that the spec names; None when it names none."""
    return next((read for read in routes.values() if read.place.target.subsets), None)


def host_name(rule: RouteRead) -> str:
    """Name of the Service that is the rule's host; "" while it is not known."""
    if rule.objects is None:
        return ""
    try:
        return host_of(rule.objects.user, namespace=rule.place.target.namespace)
    except Unroutable:
        return ""


def version_of(rule: str, host: str) -> str:
    """The version of a subset, which changes with each of its two objects."""
    return f"{rule}/{host}"
