"""The rules for a pod template whose pods a ReplicaSet keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rollouts.api.problems import Problems
from rollouts.api.spec.metadata import check_entries


def check_pod_template(template: Mapping[str, Any], root: str, problems: Problems) -> Mapping[str, Any] | None:
    """Adds what is wrong with the pod template at `root`; the API server checks the rest of it.

    Returns: its labels, or None when they cannot be read.
    """
    labels = _check_metadata(template.get("metadata"), f"{root}.metadata", problems)
    pod = template.get("spec")
    if not isinstance(pod, dict):
        problems.add(f"{root}.spec", "is required" if pod is None else "must be an object")
        return labels
    names: set[str] = set()
    for field in ("initContainers", "containers"):
        containers = pod.get(field)
        path = f"{root}.spec.{field}"
        if containers is None and field == "initContainers":
            continue
        if not isinstance(containers, list) or (not containers and field == "containers"):
            problems.add(path, "needs at least one container" if field == "containers" else "must be a list")
            continue
        for index, container in enumerate(containers):
            _check_container(container, f"{path}[{index}]", names, problems)
    if pod.get("restartPolicy") not in (None, "Always"):
        problems.add(f"{root}.spec.restartPolicy", "must be Always: a ReplicaSet's pods are restarted")
    if pod.get("activeDeadlineSeconds") is not None:
        problems.add(f"{root}.spec.activeDeadlineSeconds", "cannot be used: a ReplicaSet's pods run for ever")
    return labels


def _check_container(container: object, path: str, names: set[str], problems: Problems) -> None:
    if not isinstance(container, dict):
        problems.add(path, "must be an object")
        return
    name = container.get("name")
    if not isinstance(name, str) or not name:
        problems.add(f"{path}.name", "is required")
    elif name in names:
        problems.add(f"{path}.name", f"another container has the name {name!r} too")
    else:
        names.add(name)
    if not isinstance(container.get("image"), str) or not container["image"]:
        problems.add(f"{path}.image", "is required")


def _check_metadata(metadata: object, path: str, problems: Problems) -> Mapping[str, Any] | None:
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        problems.add(path, "must be an object")
        return None
    for field in ("labels", "annotations"):
        entries = metadata.get(field)
        if entries is not None and not isinstance(entries, dict):
            problems.add(f"{path}.{field}", "must be an object")
            return None
        check_entries(entries or {}, f"{path}.{field}", problems, labels=field == "labels")
    return metadata.get("labels") or {}
