"""`scale` and `eviction`: the two subresources with a type of their own."""

from __future__ import annotations

from typing import Any

from rollouts import ports
from rollouts.objects import Kind, Manifest
from rollouts.sim.apiserver.verbs import DeleteOptions, Verbs, WriteOptions
from rollouts.sim.storage.history import Stored
from rollouts.sim.storage.patches import json_patch, merge_patch
from rollouts.sim.storage.refusals import (
    NoSuchPath,
    bad_request,
    conflict,
    invalid,
    too_many_requests,
    unsupported_media_type,
    value_invalid,
)
from rollouts.sim.storage.registry import DISRUPTION_BUDGET, Resource
from rollouts.sim.storage.selectors import selector_text, selects, value_at

SCALE = Kind("autoscaling", "v1", "Scale", "scales")


def scale_of(resource: Resource, stored: Stored) -> Manifest:
    """The `autoscaling/v1 Scale` of an object. Raises: Refused (404) when its type has none."""
    paths = resource.scale
    if paths is None:
        raise NoSuchPath
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    metadata = {name: stored.metadata[name] for name in kept if name in stored.metadata}
    selector = value_at(stored.manifest, paths.selector) if paths.selector else None
    status: Manifest = {"replicas": value_at(stored.manifest, paths.status_replicas) or 0}
    text = selector if isinstance(selector, str) else selector_text(selector)
    if text:
        status["selector"] = text
    spec = {"replicas": value_at(stored.manifest, paths.spec_replicas) or 0}
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status}


def put_scale(verbs: Verbs, resource: Resource, stored: Stored, scale: Any, options: WriteOptions) -> Stored:
    """Sets the replicas that a Scale asks for. Raises: Refused: 400, 404, 409, 422."""
    if not isinstance(scale, dict) or not isinstance(scale.get("spec", {}), dict):
        raise bad_request("the object provided is unrecognized (must be of type Scale)")
    paths = resource.scale
    if paths is None:
        raise NoSuchPath
    name = stored.metadata["name"]
    wanted = (scale.get("spec") or {}).get("replicas", 0)
    if isinstance(wanted, bool) or not isinstance(wanted, int):
        raise bad_request("json: cannot unmarshal into Go struct field ScaleSpec.spec.replicas of type int32")
    if wanted < 0:
        cause = value_invalid("spec.replicas", f"{wanted}", "must be greater than or equal to 0")
        raise invalid(SCALE, name, [cause])
    version = (scale.get("metadata") or {}).get("resourceVersion")
    if version and version != str(stored.version):
        raise conflict(resource.kind, name)
    return verbs.update(
        resource, stored, _with(stored.manifest, paths.spec_replicas.split("."), wanted), options, "scale"
    )


def patch_scale(
    verbs: Verbs, resource: Resource, stored: Stored, patch: Any, content_type: str, options: WriteOptions
) -> Stored:
    """Patches a Scale by merge patch (or strategic merge patch, which is the same without lists) or JSON Patch.

    Raises: Refused: 400, 404, 409, 415, 422.
    """
    scale = scale_of(resource, stored)
    match content_type:
        case ports.MERGE_PATCH | "application/strategic-merge-patch+json":
            scale = merge_patch(scale, patch)
        case ports.JSON_PATCH:
            scale = json_patch(scale, patch)
        case _:
            raise unsupported_media_type()
    return put_scale(verbs, resource, stored, scale, options)


def evict(verbs: Verbs, pods: Resource, namespace: str, name: str, options: DeleteOptions) -> None:
    """Deletes a Pod unless a PodDisruptionBudget forbids it, from which it takes one disruption. Raises: Refused."""
    pod = verbs.get(pods, namespace, name)
    phase = (pod.manifest.get("status") or {}).get("phase")
    if "deletionTimestamp" not in pod.metadata and phase not in ("Pending", "Succeeded", "Failed"):
        _take_disruption(verbs, namespace, pod, dry_run=options.dry_run)
    verbs.delete(pods, namespace, name, options)


def _take_disruption(verbs: Verbs, namespace: str, pod: Stored, *, dry_run: bool) -> None:
    budgets = [
        budget
        for budget in verbs.history.select(DISRUPTION_BUDGET, namespace)
        if selects(budget.manifest["spec"].get("selector"), pod.labels)
    ]
    if not budgets:
        return
    if len(budgets) > 1:
        message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise bad_request(message)
    budget = budgets[0]
    status = budget.manifest.get("status") or {}
    name = budget.metadata["name"]
    refusal = "Cannot evict pod as it would violate the pod's disruption budget."
    if status.get("observedGeneration", 0) < budget.metadata.get("generation", 0):
        message = f"The disruption budget {name} is still being processed by the server."
        cause = {"reason": "DisruptionBudget", "message": message}
        raise too_many_requests(refusal, retry_after_s=10, causes=[cause])
    allowed = status.get("disruptionsAllowed", 0)
    if allowed <= 0:
        needs = (
            f"needs {status.get('desiredHealthy', 0)} healthy pods and has {status.get('currentHealthy', 0)} currently"
        )
        cause = {"reason": "DisruptionBudget", "message": f"The disruption budget {name} {needs}"}
        raise too_many_requests(refusal, retry_after_s=0, causes=[cause])
    if not dry_run:
        resource = verbs.registry.of(DISRUPTION_BUDGET)
        taken = {**budget.manifest, "status": {**status, "disruptionsAllowed": allowed - 1}}
        verbs.update(resource, budget, taken, WriteOptions(manager="kube-apiserver"), "status")


def _with(manifest: Manifest, path: list[str], value: Any) -> Manifest:
    name, rest = path[0], path[1:]
    return {**manifest, name: _with(manifest.get(name) or {}, rest, value) if rest else value}
