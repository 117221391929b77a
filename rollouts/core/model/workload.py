"""The workload that `spec.workloadRef` names, as it was seen."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from rollouts.core.model.rollout import IntOrPercent
from rollouts.core.model.workload_ref import WorkloadKind


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
        replicas: of the Deployment at that write: its controller spreads pods anew when they change.
        own: the user's fields, which stand again when the update is over.
        written: the fields of that write; others that are there now are somebody else's. None where the note does not say.
    """

    number: int
    replicas: int
    own: UpdateFields
    written: UpdateFields | None = None


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


class HoldSeen(Struct, frozen=True, kw_only=True):
    """The answer to `AskHold`: whether the API server pauses a Deployment in the write that changes its template.

    Args:
        at_s: when it was asked.
        message: why it was refused; "" for a plain answer.
    """

    at_s: float
    works: bool
    message: str = ""


class ScaledDown(Struct, frozen=True):
    """The note of a Deployment that the Rollout has scaled (annotation `rollouts.dev/scaled-down`).

    Args:
        own: the replicas that its user or Git gave it, which it gets back.
        to: those that the Rollout gave it; another number means that somebody else has scaled it since.
    """

    own: int
    to: int


class StrayReplicaSet(Struct, frozen=True):
    """A ReplicaSet of the Deployment without our label, so that no watch shows it."""

    name: str
    uid: str


class WorkloadSeen(Struct, frozen=True, kw_only=True):
    """The workload as it was seen.

    Args:
        managed_by: name of the Rollout that manages it (annotation `rollouts.dev/managed-by`).
        watched: it carries the label `rollouts.dev/managed: "true"`.
        template_hash: of its pod template as the API server gives it, see core/model/revision.py; "" while it cannot be used.
        replicas: its `spec.replicas`; 0 for a PodTemplate.
        available: pods that its own controller counts as available.
        observed: its controller has seen its latest spec.
        deployment: None for other kinds.
        hold: the last answer about the policy that holds it; None while it was not asked.
        scaled_down: None unless the Rollout has scaled it.
        strays: ReplicaSets of an update in place that must be watched before anything is decided; None while that is not known.
        problem: why it cannot be used, and what to do; "" when the other fields decide that.
        read_at_s: when it was read; None for one that the watch shows.
    """

    kind: WorkloadKind
    name: str
    uid: str
    resource_version: str
    managed_by: str
    watched: bool
    template_hash: str = ""
    replicas: int = 0
    available: int = 0
    observed: bool = True
    deleting: bool = False
    deployment: DeploymentSeen | None = None
    hold: HoldSeen | None = None
    scaled_down: ScaledDown | None = None
    strays: tuple[StrayReplicaSet, ...] | None = ()
    problem: str = ""
    read_at_s: float | None = None

    @property
    def hold_works(self) -> bool | None:
        """Whether the API server pauses it in the write that changes its template; None while that is not known."""
        return None if self.hold is None else self.hold.works


class WorkloadAbsent(Struct, frozen=True):
    """The API server said at `at_s` that there is no such workload; no watch reports when it is created."""

    at_s: float


class WorkloadForbidden(Struct, frozen=True):
    """The controller may not read, watch or mark the workload; `message` says what helps.

    Args:
        at_s: when the API server said so; None when the watch says it, which reports when that has changed.
    """

    message: str
    at_s: float | None = None


class WorkloadUnasked(Struct, frozen=True):
    """The workload is not watched and was not read yet, or the answer is too old."""


ReferencedWorkload: TypeAlias = WorkloadSeen | WorkloadAbsent | WorkloadForbidden | WorkloadUnasked


def is_of(workload: ReferencedWorkload | None, rollout: str) -> bool:
    """Whether the workload can be used by that Rollout: it is marked as its own, and so it is watched."""
    return (
        isinstance(workload, WorkloadSeen)
        and workload.watched
        and workload.managed_by == rollout
        and not workload.problem
    )
