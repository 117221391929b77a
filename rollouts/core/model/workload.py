"""A workload that a Rollout names in `workloadRef`: what the spec says about it, and what was seen of it.

`mode: Template` takes the pod template alone, as in Argo Rollouts: the pods are the Rollout's own. `mode: InPlace` leaves the
pods to the workload and steps its own controller.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from rollouts.core.model.rollout import IntOrPercent


class WorkloadKind(StrEnum):
    """The kinds that a Rollout may name."""

    DEPLOYMENT = "Deployment"
    REPLICA_SET = "ReplicaSet"
    POD_TEMPLATE = "PodTemplate"


class WorkloadMode(StrEnum):
    """What is taken of the workload: its template, or its pods where they are."""

    TEMPLATE = "Template"
    IN_PLACE = "InPlace"


class Hold(StrEnum):
    """What keeps a new template from its pods until the update begins.

    A policy of the API server pauses the workload in the write that changes the template; or else the workload is paused between
    updates. `Auto` takes the policy where a dry run shows that it works.
    """

    AUTO = "Auto"
    POLICY = "Policy"
    AT_REST = "AtRest"


class ScaleDownWorkload(StrEnum):
    """When a Deployment that gives its template alone loses its own pods."""

    NEVER = "never"
    ON_SUCCESS = "onsuccess"
    PROGRESSIVELY = "progressively"


class WorkloadRef(Struct, frozen=True, kw_only=True):
    """`spec.workloadRef`. `hold` is for `InPlace`, `scale_down` for a Deployment by `Template`."""

    kind: WorkloadKind
    name: str
    mode: WorkloadMode = WorkloadMode.TEMPLATE
    hold: Hold = Hold.AUTO
    scale_down: ScaleDownWorkload = ScaleDownWorkload.NEVER

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class UpdateFields(Struct, frozen=True, kw_only=True):
    """The fields of a Deployment that say how its controller replaces pods; None for one that its manifest leaves out."""

    max_surge: IntOrPercent | None = None
    max_unavailable: IntOrPercent | None = None
    min_ready_s: int | None = None
    progress_deadline_s: int | None = None


class Held(Struct, frozen=True, kw_only=True):
    """The note of an update under way (annotation `rollouts.dev/held`).

    Args:
        number: of our last write; each one raises it.
        own: the user's fields, which stand again when the update is over.
    """

    number: int
    own: UpdateFields


class DeploymentSeen(Struct, frozen=True, kw_only=True):
    """What an update in place reads of a Deployment, besides what every workload has.

    Args:
        by_recreate: its strategy is Recreate, which has no steps.
        holds: it carries the label `rollouts.dev/hold`, by which the policy knows it.
        held: None while no update is under way.
    """

    paused: bool
    by_recreate: bool
    fields: UpdateFields
    holds: bool = False
    held: Held | None = None


class WorkloadSeen(Struct, frozen=True, kw_only=True):
    """The workload as it was seen.

    Args:
        managed_by: name of the Rollout that manages it (annotation `rollouts.dev/managed-by`).
        watched: it carries the label `rollouts.dev/managed: "true"`.
        template_hash: of its pod template as the API server gives it, see core/model/revision.py.
        replicas: its `spec.replicas`; 0 for a PodTemplate.
        observed: its controller has seen its latest spec.
        deployment: None for other kinds.
        problem: why it cannot be used, and what to do; "" when the other fields decide that.
        read_at_s: when it was read; None for one that the watch shows.
    """

    kind: WorkloadKind
    name: str
    uid: str
    resource_version: str
    managed_by: str
    watched: bool
    template_hash: str
    replicas: int = 0
    observed: bool = True
    deleting: bool = False
    deployment: DeploymentSeen | None = None
    problem: str = ""
    read_at_s: float | None = None


class WorkloadAbsent(Struct, frozen=True):
    """The API server said at `at_s` that there is no such workload; no watch reports when it is created."""

    at_s: float


class WorkloadUnasked(Struct, frozen=True):
    """The workload is not watched and was not read yet, or the answer is too old."""


Workload: TypeAlias = WorkloadSeen | WorkloadAbsent | WorkloadUnasked
