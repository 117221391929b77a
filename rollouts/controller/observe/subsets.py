"""Subsets of a DestinationRule as core sees them: Services, each of which selects one revision. No I/O.

Each subset is read from two objects: the rule, whose labels name the revision, and the Service that is the rule's host, whose
EndpointSlices show the ready pods. A subset counts as managed when both carry our marks, so that both are watched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from rollouts.controller.observe.routes import RouteRead
from rollouts.core.model.frozen import replace
from rollouts.core.model.selectors import selects
from rollouts.core.model.service_ref import ServiceRef, SubsetName
from rollouts.core.model.snapshot import Service, ServiceAbsent, ServiceSeen, ServiceUnasked
from rollouts.core.model.traffic import RouteAbsent, RouteName, RouteSeen, RouteUnasked
from rollouts.errors import Unroutable
from rollouts.manifests.ownership import MANAGED, MANAGED_VALUE
from rollouts.traffic.codec import Objects
from rollouts.traffic.istio.subsets import host_of, subset_of


def rule_of(routes: Mapping[RouteName, RouteRead]) -> RouteRead | None:
    """The DestinationRule that the spec names; None when it names none."""
    return next((each for each in routes.values() if each.place.target.subsets), None)


def host_name(rule: RouteRead) -> str:
    """Name of the Service that is the rule's host; "" while it is not known."""
    if rule.objects is None:
        return ""
    try:
        return host_of(rule.objects.user, namespace=rule.place.target.namespace)
    except Unroutable:
        return ""


def subset_services(
    rule: RouteRead, host: Service, *, template_labels: Mapping[str, str], ready: Mapping[str, int]
) -> dict[ServiceRef, Service]:
    """The two subsets by their names in core.

    Args:
        host: by its name, the Service that is the rule's host, as far as it is known.
        template_labels: of the Rollout's pod template.
        ready: ready endpoints in the host's slices, per revision.
    """
    names = [SubsetName(rule.place.target.name, subset) for subset in rule.place.target.subsets or ()]
    return {name: _subset_service(rule, host, name, template_labels=template_labels, ready=ready) for name in names}


def _subset_service(
    rule: RouteRead,
    host: Service,
    name: SubsetName,
    *,
    template_labels: Mapping[str, str],
    ready: Mapping[str, int],
) -> Service:
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
        found = subset_of(user, name.subset)
    except Unroutable as exc:
        return replace(made, problem=str(exc))
    match host:
        case ServiceUnasked():
            return ServiceUnasked(name)
        case ServiceAbsent(name=service, at_s=at_s):
            return ServiceAbsent(name, at_s, f"Service {service}, the host of {seen.route}, does not exist; create it")
        case ServiceSeen():
            pass
        case never:
            assert_never(never)
    marked_rule = (user["metadata"].get("labels") or {}).get(MANAGED) == MANAGED_VALUE
    own_labels = selects(found.labels, template_labels)
    return replace(
        made,
        resource_version=version_of(seen.resource_version, host.resource_version),
        revision=found.revision,
        managed_by=_owner(seen.managed_by, host.managed_by, ours=rule.context.rollout),
        watched=marked_rule and host.watched and not host.revision,
        has_selector=host.has_selector,
        selects_template=host.selects_template and own_labels,
        ready_by_revision={found.revision: ready.get(found.revision, 0)} if found.revision else ready,
    )


def _owner(rule: str, host: str, *, ours: str) -> str:
    """The other Rollout that manages one of the two objects; otherwise `ours` if both are marked as ours, or ""."""
    other = next((each for each in (rule, host) if each not in ("", ours)), "")
    return other or (ours if rule == host == ours else "")


def version_of(rule: str, host: str) -> str:
    """The version of a subset, which changes with each of its two objects."""
    return f"{rule}/{host}"
