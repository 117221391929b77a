"""Specs with `workloadRef`: good ones, and one bad one for every rule."""

from __future__ import annotations

from typing import Any

from tests.api.specs import CANARY, GONE, Bad, Spec, changed, late

DEPLOYMENT_CART: Spec = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "cart"}
_REF = "spec.workloadRef"


def referring(**fields: Any) -> Spec:
    """The canary with a `workloadRef` in place of its template; some fields of the reference are changed."""
    return changed(CANARY, template=GONE, workloadRef={**DEPLOYMENT_CART, **fields})


IN_PLACE: Spec = changed(referring(mode="InPlace"), replicas=GONE, selector=GONE)
"""A Deployment in place, which has the replicas and the selector."""

WORKLOAD_BAD: tuple[Bad, ...] = (
    Bad("a template and a workload", changed(CANARY, workloadRef=DEPLOYMENT_CART), "spec.template", "must be absent"),
    Bad("a workload without a pod template", referring(kind="Service"), f"{_REF}.kind", "'ReplicaSet' or 'PodTemplate'"),
    late("a workload of another group", referring(apiVersion="v1"), f"{_REF}.apiVersion", "must be apps/v1"),
    Bad("a workload whose name leads elsewhere", referring(name="../pods"), f"{_REF}.name", "lower-case letters"),
    Bad("a workload without a name", referring(name=""), f"{_REF}.name", "lower-case letters"),
    Bad("a PodTemplate without a selector", changed(referring(apiVersion="v1", kind="PodTemplate"), selector=GONE),
        "spec.selector", "a PodTemplate has none"),
    late("a ReplicaSet to scale down", referring(kind="ReplicaSet", scaleDown="onsuccess"), f"{_REF}.scaleDown",
        "is for a Deployment"),
    Bad("a Deployment to scale down at some time", referring(scaleDown="later"), f"{_REF}.scaleDown", "'progressively'"),
    late("a hold without pods in place", referring(hold="Policy"), f"{_REF}.hold", "is for mode: InPlace"),
    late("pods in place of a ReplicaSet", changed(IN_PLACE, workloadRef__kind="ReplicaSet"), f"{_REF}.kind",
        "must be Deployment"),
    late("a Deployment in place to scale down", changed(IN_PLACE, workloadRef__scaleDown="never"), f"{_REF}.scaleDown",
        "is for mode: Template"),
    late("replicas of a Deployment in place", changed(IN_PLACE, replicas=2), "spec.replicas", "the Deployment has it"),
    late("a selector of a Deployment in place", changed(IN_PLACE, selector=CANARY["selector"]), "spec.selector",
        "the Deployment has it"),
)  # fmt: skip
