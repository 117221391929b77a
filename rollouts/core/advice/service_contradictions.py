"""Contradictions between a Rollout and a Service of its strategy, with which no update can finish. Pure.

`rollouts lint` reports them for Services in the same file. What may lose requests without stopping an update is a finding
(`service_findings.py`). Source: https://kubernetes.io/docs/concepts/services-networking/service/ (selectors, named target ports).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rollouts.core.model.selectors import template_labels, users_selector
from rollouts.errors import SpecProblem
from rollouts.objects import Manifest, mapping


def lacks_port(service: Manifest, port: int) -> bool:
    """Whether the Service lists ports and this is none of them."""
    ports = _list(mapping(service.get("spec")).get("ports"))
    return bool(ports) and all(listed.get("port") != port for listed in ports)


def contradictions(service: Manifest, template: Manifest, *, rollout: str) -> Iterator[SpecProblem]:
    """Why the Service finds none of the pods; paths are those of the Service. Raises: nothing; unreadable fields are skipped.

    Args:
        service: named by the strategy, in the Rollout's namespace.
    """
    spec = mapping(service.get("spec"))
    if spec.get("type") == "ExternalName":
        yield SpecProblem(
            "spec.type",
            f"ExternalName is a name outside the cluster and has no pods; give Rollout {rollout} a ClusterIP",
        )
        return
    yield from _selector(spec, template_labels(template), rollout)
    pod = mapping(template.get("spec"))
    containers = [*_list(pod.get("containers")), *_list(pod.get("initContainers"))]  # sidecars are among the latter
    ports = [port for container in containers for port in _list(container.get("ports"))]
    named = {(port.get("name"), port.get("protocol") or "TCP") for port in ports}
    for index, port in enumerate(_list(spec.get("ports"))):
        target, protocol = port.get("targetPort"), port.get("protocol") or "TCP"
        if isinstance(target, str) and not target.isdigit() and (target, protocol) not in named:
            yield SpecProblem(
                f"spec.ports[{index}].targetPort",
                f"no container of Rollout {rollout} has a {protocol} port named {target}, so it leads nowhere; name the port "
                "in the pod template, or write its number",
            )


def _selector(spec: Mapping[str, Any], labels: Mapping[str, Any], rollout: str) -> Iterator[SpecProblem]:
    selector = users_selector(mapping(spec.get("selector")))
    if not selector:
        message = f"is missing, so the Service finds no pods and cannot be switched; set it to labels of Rollout {rollout}'s pods"
        yield SpecProblem("spec.selector", message)
    for key, value in selector.items():
        if labels.get(key) != value:
            has = f"{key}={labels[key]}" if key in labels else f"no {key}"
            yield SpecProblem(
                "spec.selector",
                f"{key}={value} is no label of Rollout {rollout}'s pods, which have {has}; the Service would find none of them",
            )


def _list(value: object) -> list[Mapping[str, Any]]:
    return [mapping(entry) for entry in value] if isinstance(value, list) else []
