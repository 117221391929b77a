"""Checks `spec.workloadRef`, and what the spec must leave to the workload."""

from __future__ import annotations

from rollouts.api.problems import Problems
from rollouts.api.spec.reading import check_needed
from rollouts.api.v1alpha1.rollout import RolloutSpecWire, WorkloadRef
from rollouts.core.model.workload_ref import ScaleDownWorkload, WorkloadKind, WorkloadMode

_PATH = "spec.workloadRef"


def check_workload_ref(spec: RolloutSpecWire, problems: Problems) -> None:
    """Adds every rule that `spec.workloadRef` breaks; there is none without it."""
    reference = spec.workload_ref
    if reference is None:
        return
    check_needed(reference, _PATH, problems)
    if spec.template is not None:
        problems.add("spec.template", f"must be absent: it comes from {_PATH}; remove one of them")
    if reference.kind is not None and reference.api_version is not None:
        of_kind = WorkloadKind(reference.kind).resource.api_version
        if reference.api_version != of_kind:
            problems.add(f"{_PATH}.apiVersion", f"must be {of_kind} for a {reference.kind}")
    if reference.mode == WorkloadMode.IN_PLACE.value:
        _check_in_place(spec, reference, problems)
        return
    if spec.selector is None and reference.kind == WorkloadKind.POD_TEMPLATE.value:
        problems.add_missing("spec.selector", "is required: the labels of the pods (a PodTemplate has none)")
    if reference.hold is not None:
        problems.add(f"{_PATH}.hold", "is for mode: InPlace")
    scales = reference.scale_down not in (None, ScaleDownWorkload.NEVER)
    if scales and reference.kind not in (None, WorkloadKind.DEPLOYMENT):
        problems.add(f"{_PATH}.scaleDown", f"is for a Deployment: scale the {reference.kind} down yourself")


def _check_in_place(spec: RolloutSpecWire, reference: WorkloadRef, problems: Problems) -> None:
    if reference.kind not in (None, WorkloadKind.DEPLOYMENT):
        problems.add(f"{_PATH}.kind", "must be Deployment for mode: InPlace")
    if reference.scale_down is not None:
        problems.add(
            f"{_PATH}.scaleDown", "is for mode: Template; with InPlace the Deployment's pods are the only ones"
        )
    for name, value in (("replicas", spec.replicas), ("selector", spec.selector)):
        if value is not None:
            problems.add(f"spec.{name}", "must be absent with workloadRef.mode: InPlace: the Deployment has it")
