"""What we write on a workload that a Rollout names in `workloadRef`: marks, and a Deployment's replicas.

A merge patch with the uid and the resourceVersion that were seen, as for a Service.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from rollouts.core.model.intents import MarkWorkload, ReleaseWorkload, ScaleWorkload, WorkloadIntent
from rollouts.core.model.nodes import OwnType
from rollouts.core.model.workload import PartitionFields, ScaledDown
from rollouts.manifests.in_place import update_fields
from rollouts.manifests.nodes import update_type
from rollouts.manifests.ownership import (
    HELD,
    HOLD,
    MANAGED,
    MANAGED_BY,
    MANAGED_VALUE,
    OWN_FIELDS,
    PARTITION,
    SCALED_DOWN,
)
from rollouts.manifests.partition import partition_fields
from rollouts.objects import Manifest, whole_number


def mark_workload(intent: MarkWorkload, *, rollout: str) -> Manifest:
    """Marks the workload as managed by the Rollout named `rollout`."""
    hold = {HOLD: MANAGED_VALUE} if intent.hold else {}
    return _patch(intent, labels={MANAGED: MANAGED_VALUE, **hold}, annotations={MANAGED_BY: rollout})


def scale_workload(intent: ScaleWorkload) -> Manifest:
    """Scales a Deployment, and notes in the same write the number of replicas that it gets back."""
    note = None if intent.own is None else json.dumps({"own": intent.own, "to": intent.replicas})
    return {**_patch(intent, annotations={SCALED_DOWN: note}), "spec": {"replicas": intent.replicas}}


def release_workload(intent: ReleaseWorkload) -> Manifest:
    """Removes our labels and annotations, and gives back in the same write what was taken: replicas, or an update's fields."""
    marks = {MANAGED_BY: None, SCALED_DOWN: None, HELD: None, PARTITION: None}
    spec: Manifest = {} if intent.replicas is None else {"replicas": intent.replicas}
    if isinstance(intent.own, PartitionFields):
        spec |= partition_fields(intent.own)
    elif isinstance(intent.own, OwnType):
        spec |= update_type(intent.own)
    elif intent.own is not None:
        spec |= update_fields(intent.own)
    if intent.paused is not None:
        spec["paused"] = True if intent.paused else None
    released = _patch(intent, labels={MANAGED: None, HOLD: None, OWN_FIELDS: None}, annotations=marks)
    return {**released, "spec": spec} if spec else released


def scaled_down_of(annotations: Mapping[str, str]) -> ScaledDown | None:
    """The note of `scale_workload`; None for none, and when unreadable: then the number that stands is the user's."""
    try:
        noted = json.loads(annotations.get(SCALED_DOWN, ""))
        own, to = (whole_number(str(noted[name]), digits=9) for name in ("own", "to"))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return None if own is None or to is None else ScaledDown(own=own, to=to)


def _patch(intent: WorkloadIntent, **metadata: Mapping[str, str | None]) -> Manifest:
    return {"metadata": {"uid": intent.uid, "resourceVersion": intent.resource_version, **metadata}}
