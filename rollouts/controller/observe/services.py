"""A watched Service, as decisions see it."""

from __future__ import annotations

from collections.abc import Mapping

from rollouts.cluster.structs import ServiceObject, ServiceSpec
from rollouts.controller.workqueue.managed import managed_by
from rollouts.core.model.selectors import selects, users_selector
from rollouts.core.model.service_traits import HEADLESS, ServiceTraits, client_ip_s
from rollouts.core.model.snapshot import ServiceSeen
from rollouts.manifests.ownership import MANAGED, MANAGED_VALUE, REVISION


def service_seen(seen: ServiceObject, template_labels: Mapping[str, str], ready: Mapping[str, int]) -> ServiceSeen:
    """What a Service selects and how it leads clients to pods.

    Args:
        template_labels: of the Rollout's pods.
        ready: endpoints by revision.
    """
    metadata = seen.metadata
    selector = seen.spec.selector or {}
    users = users_selector(selector)
    return ServiceSeen(
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        revision=selector.get(REVISION, ""),
        managed_by=managed_by(seen),
        watched=(metadata.labels or {}).get(MANAGED) == MANAGED_VALUE,
        selects_template=selects(users, template_labels),
        has_selector=bool(users),
        traits=_traits(seen.spec),
        ready_by_revision=ready,
    )


def _traits(spec: ServiceSpec) -> ServiceTraits:
    config = spec.session_affinity_config
    client_ip = config.client_ip if config is not None else None
    return ServiceTraits(
        type=spec.type,
        headless=spec.cluster_ip == HEADLESS,
        publish_not_ready_addresses=spec.publish_not_ready_addresses,
        internal_traffic_policy=spec.internal_traffic_policy,
        external_traffic_policy=spec.external_traffic_policy,
        traffic_distribution=spec.traffic_distribution or "",
        client_ip_s=client_ip_s(
            affinity=spec.session_affinity, timeout_s=client_ip.timeout_seconds if client_ip is not None else None
        ),
    )
