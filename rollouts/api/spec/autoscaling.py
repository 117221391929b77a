"""Checks `spec.autoscaling` and turns it into the core's value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rollouts.api.problems import Problems
from rollouts.api.spec.reading import check_needed, core_value
from rollouts.api.v1alpha1.autoscaling import Autoscaling
from rollouts.core.model.autoscaling import AutoscalingGate

_PATH = "spec.autoscaling"


def check_autoscaling(wire: Autoscaling | None, template: Mapping[str, Any] | None, problems: Problems) -> None:
    """Adds every rule that `spec.autoscaling` breaks."""
    if wire is None:
        return
    if wire.settled is None and wire.min_headroom_percent is None and wire.container_resource is None:
        problems.add_missing(_PATH, "needs at least one of settled, minHeadroomPercent and containerResource")
    limit, path = wire.container_resource, f"{_PATH}.containerResource"
    if limit is None:
        return
    check_needed(limit, path, problems)
    names = _containers(template) if template is not None else None
    if limit.container is not None and names is not None and limit.container not in names:
        message = f"the pod template has no container {limit.container!r}: {', '.join(names)}"
        problems.add(f"{path}.container", message)


def autoscaling_gate(wire: Autoscaling | None) -> AutoscalingGate | None:
    """The core's value of `spec.autoscaling`; None when nothing is asked. `check_autoscaling` has found no problem."""
    if wire is None:
        return None
    gate = core_value(AutoscalingGate, wire)
    return None if gate == AutoscalingGate() else gate


def _containers(template: Mapping[str, Any]) -> list[str] | None:
    """Names of the containers that run as long as the pod; None when the template has none that can be read.

    Sidecars of the native kind are initContainers that are always restarted (KEP-753).
    """
    pod = template.get("spec")
    if not isinstance(pod, dict):
        return None
    names = []
    for field in ("containers", "initContainers"):
        entries = pod.get(field)
        listed = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
        names += [
            container.get("name")
            for container in listed
            if field == "containers" or container.get("restartPolicy") == "Always"
        ]
    return [name for name in names if isinstance(name, str)] or None
