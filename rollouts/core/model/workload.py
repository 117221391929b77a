"""The workload that `spec.workloadRef` names, as it was seen."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from rollouts.core.model.nodes import DaemonSetSeen
from rollouts.core.model.rollout import IntOrPercent
from rollouts.core.model.workload_ref import WorkloadKind


class UpdateFields(Struct, frozen=True, kw_only=True):
    """The fields of a Deployment that say how its controller replaces pods; None for one that its manifest leaves out."""

    max_surge: IntOrPercent | None = None
    max_unavailable: IntOrPercent | None = None
    min_ready_s: int | None = None
    progress_deadline_s: int | None = None


class Held(Struct, frozen=True, kw_only=True):
    """The note of an update under way (label `rollouts.dev/own-fields` and annotation `rollouts.dev/held`).

    Args:
        number: of our last write; each one raises it. 0 when the annotation was lost.
        replicas: of the Deployment at that write: its controller spreads pods anew when they change. 0 when it was lost.
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
        note_is_copied: no update is under way, and its annotation is that of an earlier one.
        updated: pods of its template's ReplicaSet, as its controller has counted them (`status.updatedReplicas`).
        rolled_out: its own controller counts all its pods as pods of its template.
    """

    paused: bool
    by_recreate: bool
    fields: UpdateFields
    holds: bool = False
    held: Held | None = None
    note_is_copied: bool = False
    updated: int = 0
    rolled_out: bool = False

    @property
    def in_update(self) -> bool:
        """Whether an update is under way."""
        return self.held is not None

    @property
    def needs_pods(self) -> bool:
        """Its ReplicaSets count their pods."""
        return False


NO_POD = 2_147_483_647
"""The partition that no ordinal reaches. One of `replicas` would let the pods of a scale-up be new."""


class PartitionFields(Struct, frozen=True, kw_only=True):
    """The `updateStrategy` of a StatefulSet.

    Args:
        on_delete: its type is OnDelete, which replaces no pod by itself; else it is RollingUpdate.
        partition: None for a manifest without `rollingUpdate`.
    """

    on_delete: bool = False
    partition: int | None = None


class PartitionHeld(Struct, frozen=True, kw_only=True):
    """The note of a StatefulSet whose partition is ours (annotation `rollouts.dev/held`).

    Args:
        number: of our last write; each one raises it.
        replicas: of the StatefulSet at that write.
        partition: that we gave it last.
        surplus: pods of the new revision below it that a scale-up has made; they stay.
        own: the user's fields, which stand again when the update is over.
    """

    number: int
    replicas: int
    partition: int
    own: PartitionFields
    surplus: int = 0


class StatefulSetSeen(Struct, frozen=True, kw_only=True):
    """What an update in place reads of a StatefulSet, besides what every workload has.

    Args:
        replaced: the user's fields, as the policy has noted them when it set another partition; None for none.
        max_unavailable: `rollingUpdate.maxUnavailable`; None where the server has no such field, or the manifest leaves it out.
        ordered: its pods start one after another (`podManagementPolicy: OrderedReady`).
        start: the first ordinal.
        current_revision: a pod below the partition that is made again has this revision.
        update_revision: of its template, once its controller has seen it.
        pods, ready: of any revision; those that are ending count as pods.
        current, updated: pods of `current_revision` and of `update_revision` that are not ending.
        holds: it carries the label `rollouts.dev/hold`, by which the policy knows it.
        held: None while its fields are its user's.
    """

    fields: PartitionFields
    replaced: PartitionFields | None = None
    max_unavailable: IntOrPercent | None = None
    min_ready_s: int = 0
    ordered: bool = True
    start: int = 0
    current_revision: str = ""
    update_revision: str = ""
    pods: int = 0
    ready: int = 0
    current: int = 0
    updated: int = 0
    holds: bool = False
    held: PartitionHeld | None = None

    @property
    def only_revision(self) -> str:
        """The revision of all its pods as its status counts them; "" when it counts several, or some are ending."""
        if self.updated == self.pods:
            return self.update_revision
        return self.current_revision if self.current == self.pods and self.updated == 0 else ""

    @property
    def in_update(self) -> bool:
        """Whether an update is under way. Between updates a note stands only where no policy holds the StatefulSet."""
        if self.held is None:
            return False
        return self.held.partition != NO_POD or self.only_revision != self.update_revision

    @property
    def is_stopped(self) -> bool:
        """Whether a policy has set the partition that no ordinal reaches."""
        return self.replaced is not None and self.fields.partition == NO_POD

    @property
    def needs_pods(self) -> bool:
        """Whether its status does not say which pods have which revision."""
        return not self.only_revision or (self.held is not None and self.held.partition != NO_POD)


InPlaceSeen: TypeAlias = DeploymentSeen | StatefulSetSeen | DaemonSetSeen


class HoldSeen(Struct, frozen=True, kw_only=True):
    """The answer to `AskHold`: whether the API server holds a workload in the write that changes its template.

    Args:
        at_s: when it was asked.
        since_s: when it was asked first with this answer; None where that does not matter.
        message: why it was refused; "" for a plain answer.
    """

    at_s: float
    works: bool
    since_s: float | None = None
    message: str = ""


class ScaledDown(Struct, frozen=True):
    """The note of a Deployment that the Rollout has scaled (annotation `rollouts.dev/scaled-down`).

    Args:
        own: the replicas that its user or Git gave it, which it gets back.
        to: those that the Rollout gave it; another number means that somebody else has scaled it since.
    """

    own: int
    to: int


class NamedReplicaSet(Struct, frozen=True):
    """A ReplicaSet of the Deployment."""

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
        in_place: what an update in place reads of it; None for kinds whose template alone is taken.
        hold: the last answer about the policy that holds it; None while it was not asked.
        scaled_down: None unless the Rollout has scaled it.
        labelled: of one that may be released, the ReplicaSets that it controls with our label.
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
    in_place: InPlaceSeen | None = None
    hold: HoldSeen | None = None
    scaled_down: ScaledDown | None = None
    labelled: tuple[NamedReplicaSet, ...] = ()
    strays: tuple[NamedReplicaSet, ...] | None = ()
    problem: str = ""
    read_at_s: float | None = None

    @property
    def deployment(self) -> DeploymentSeen | None:
        """As a Deployment that is updated in place."""
        return self.in_place if isinstance(self.in_place, DeploymentSeen) else None

    @property
    def stateful_set(self) -> StatefulSetSeen | None:
        """As a StatefulSet that is updated in place."""
        return self.in_place if isinstance(self.in_place, StatefulSetSeen) else None

    @property
    def daemon_set(self) -> DaemonSetSeen | None:
        """As a DaemonSet that is updated in place."""
        return self.in_place if isinstance(self.in_place, DaemonSetSeen) else None

    @property
    def hold_works(self) -> bool | None:
        """Whether the API server holds it in the write that changes its template; None while that is not known."""
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


def to_write(workload: ReferencedWorkload | None, rollout: str) -> WorkloadSeen | None:
    """The workload, if that Rollout may update it in place now: it can use it, it stays, and all that it controls is watched."""
    if not isinstance(workload, WorkloadSeen) or not is_of(workload, rollout):
        return None
    return None if workload.deleting or workload.strays != () else workload
