"""Checks `spec.autoscaling` and turns it into the core's value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rollouts.api.problems import Problems
from rollouts.api.v1alpha1.autoscaling import Autoscaling, ContainerResource
from rollouts.core.model.autoscaling import AutoscalingGate, ContainerLimit, ContainerMetric

_PATH = "spec.autoscaling"


def check_autoscaling(wire: Autoscaling | None, template: Mapping[str, Any] | None, problems: Problems) -> None:
    """Adds every rule that `spec.autoscaling` breaks.

    Args:
        template: the pod template, as its author wrote it; None without one.
    """
    if wire is None:
        return
    if wire.settled is None and wire.min_headroom_percent is None and wire.container_resource is None:
        problems.add_missing(_PATH, "needs at least one of settled, minHeadroomPercent and containerResource")
    if wire.container_resource is not None:
        _check_container(wire.container_resource, template, problems)


def autoscaling_gate(wire: Autoscaling | None) -> AutoscalingGate | None:
    """The core's value of `spec.autoscaling`; None when nothing is asked. `check_autoscaling` has found no problem."""
    if wire is None:
        return None
    limit = wire.container_resource
    gate = AutoscalingGate(
        settled=bool(wire.settled),
        min_headroom_percent=wire.min_headroom_percent,
        container=None
        if limit is None
        else ContainerLimit(
            container=limit.container or "",
            resource=ContainerMetric(limit.resource or ""),
            max_utilization_percent=limit.max_utilization_percent or 0,
        ),
    )
    return None if gate == AutoscalingGate() else gate


def _check_container(limit: ContainerResource, template: Mapping[str, Any] | None, problems: Problems) -> None:
    path = f"{_PATH}.containerResource"
    missing = [
        name
        for name, value in (
            ("container", limit.container),
            ("resource", limit.resource),
            ("maxUtilizationPercent", limit.max_utilization_percent),
        )
        if value is None
    ]
    for name in missing:
        problems.add_missing(f"{path}.{name}", "is required")
    if limit.container is not None and template is not None:
        names = _containers(template)
        if names is not None and limit.container not in names:
            problems.add(
                f"{path}.container", f"the pod template has no container {limit.container!r}: {', '.join(names)}"
            )


def _containers(template: Mapping[str, Any]) -> list[str] | None:
    """Names of the containers that run as long as the pod; None when the template has none that can be read.

    Sidecars of the native kind are initContainers that are always restarted (KEP-753).
    """
    pod = template.get("spec")
    if not isinstance(pod, dict):
        return None
    names = [each.get("name") for each in _entries(pod, "containers")]
    names += [each.get("name") for each in _entries(pod, "initContainers") if each.get("restartPolicy") == "Always"]
    return [each for each in names if isinstance(each, str)] or None


def _entries(pod: Mapping[str, Any], field: str) -> list[Mapping[str, Any]]:
    found = pod.get(field)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
