"""The workload that a Rollout names at one instant, and those that it still manages. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from rollouts.api.spec.parse import WorkloadTemplate
from rollouts.cluster.decoding import json_object
from rollouts.cluster.store import Store
from rollouts.cluster.structs import WorkloadObject
from rollouts.controller.observe.in_place import sets_inside, spec_in_place, strays
from rollouts.controller.workqueue.inbox import Inbox
from rollouts.controller.workqueue.managed import ManagedNames, managed_by
from rollouts.core.carrier.update_in_place import HELD_MIN_READY_S
from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import RolloutSpec
from rollouts.core.model.snapshot import ReplicaSet, Snapshot
from rollouts.core.model.workload import (
    DeploymentSeen,
    Held,
    ReferencedWorkload,
    StrayReplicaSet,
    UpdateFields,
    WorkloadAbsent,
    WorkloadForbidden,
    WorkloadSeen,
    WorkloadUnasked,
    is_of,
)
from rollouts.core.model.workload_ref import NamedWorkload, WorkloadKind, WorkloadMode
from rollouts.manifests.in_place import held_of, held_text, limit_of
from rollouts.manifests.named_workload import scaled_down_of
from rollouts.manifests.ownership import HELD, HOLD, MANAGED, MANAGED_VALUE
from rollouts.objects import REPLICA_SET, Key, Kind

_KRUISE = "rollouts.kruise.io/"
_FLAGGER = "flagger.app/"


class WorkloadReader(Struct, frozen=True):
    """Reads workloads from the store if they are watched, otherwise from the inbox.

    Args:
        managed: the names of those that each Rollout manages, by kind.
        why_unseen: why workloads of a kind cannot be seen in a namespace, and what helps; "" when they can.
    """

    store: Store
    inbox: Inbox
    managed: Mapping[Kind, ManagedNames]
    why_unseen: Callable[[Kind, str], str]

    def follow(self, key: Key, reference: NamedWorkload | None) -> None:
        """From now on a change of that workload wakes the Rollout, and of no other one."""
        self.inbox.workload_askers.asks(key, () if reference is None else ((key.namespace, reference.name),))

    def observed(self, snapshot: Snapshot, unseen: tuple[StrayReplicaSet, ...] | None) -> Snapshot:
        """`snapshot` with the workload that its spec names, and those that the Rollout still manages.

        Args:
            unseen: the ReplicaSets of an update in place that no watch shows, as `in_place` has found them.
        """
        rollout = snapshot.rollout
        key, reference = Key(rollout.namespace, rollout.name), rollout.spec.workload_ref
        named = (reference.kind, reference.name) if reference is not None else None
        left = tuple(
            workload_seen(kind, seen)
            for kind in WorkloadKind
            for name in self.managed[kind.resource].of(key)
            if (kind, name) != named and (seen := self.store.table(kind.resource).get(key.namespace, name)) is not None
        )
        if reference is None:
            return replace(snapshot, left_workloads=left) if left else snapshot
        workload = self.workload(key, reference, now_s=snapshot.now_s)
        if isinstance(workload, WorkloadSeen):
            hold = self.inbox.hold(key, workload.uid)
            workload = replace(workload, template_hash=rollout.spec.template_hash, hold=hold, strays=unseen)
        return replace(snapshot, workload=workload, left_workloads=left)

    def in_place(
        self, key: Key, spec: RolloutSpec, ours: tuple[ReplicaSet, ...], *, now_s: float
    ) -> tuple[RolloutSpec, tuple[ReplicaSet, ...], tuple[StrayReplicaSet, ...] | None]:
        """The spec with what a Deployment in place says, its ReplicaSets beside those of the Rollout, and those not seen yet."""
        reference = spec.workload_ref
        if reference is None or reference.mode is not WorkloadMode.IN_PLACE:
            return spec, ours, ()
        workload = self.workload(key, reference, now_s=now_s)
        if not is_of(workload, key.name) or not isinstance(workload, WorkloadSeen):
            return spec, ours, ()
        labelled = self.store.table(REPLICA_SET).owned_by(key.namespace, workload.uid)
        sets = (*ours, *sets_inside(labelled, workload))
        revision, unseen = "", None
        if self.store.table(workload.kind.resource).get(key.namespace, workload.name) is not None:
            answer = self.inbox.sets(key, watched={each.uid for each in sets})
            revision, unseen = strays(spec.template_hash, workload, sets, answer)
        return spec_in_place(spec, workload, revision=revision), sets, unseen

    def found(self, key: Key, reference: NamedWorkload) -> WorkloadObject | None:
        """The object behind `workload`, as it is known."""
        watched: WorkloadObject | None = self.store.table(reference.kind.resource).get(key.namespace, reference.name)
        if watched is not None:
            return watched
        answer = self.inbox.workload(key, reference.kind, reference.name)
        return answer.workload if answer is not None else None

    def workload(self, key: Key, reference: NamedWorkload, *, now_s: float) -> ReferencedWorkload:
        """The workload that the spec names, as far as it is known."""
        kind = reference.kind.resource
        watched: WorkloadObject | None = self.store.table(kind).get(key.namespace, reference.name)
        if watched is not None:
            return _held_by_its_label(workload_seen(reference.kind, watched), reference)
        if why := self.why_unseen(kind, key.namespace):
            return WorkloadForbidden(why)
        answer = self.inbox.workload(key, reference.kind, reference.name)
        if answer is None:
            return WorkloadUnasked()
        read_at_s = now_s - self.inbox.age_s(answer)
        if answer.forbidden:
            return WorkloadForbidden(answer.forbidden, read_at_s)
        if answer.workload is None:
            return WorkloadAbsent(read_at_s)
        return _held_by_its_label(workload_seen(reference.kind, answer.workload, read_at_s=read_at_s), reference)


def _held_by_its_label(workload: WorkloadSeen, reference: NamedWorkload) -> WorkloadSeen:
    """The workload as one that is not marked yet, while the label of its hold is missing; and why it cannot be held."""
    deployment = workload.deployment
    if reference.mode is not WorkloadMode.IN_PLACE or deployment is None:
        return workload
    if deployment.by_recreate and not workload.problem:
        problem = "its strategy is Recreate, which has no steps: make it RollingUpdate, or use mode: Template"
        return replace(workload, problem=problem)
    return workload if deployment.holds else replace(workload, watched=False)


def workload_seen(kind: WorkloadKind, seen: WorkloadObject, *, read_at_s: float | None = None) -> WorkloadSeen:
    """What decisions read of a workload."""
    metadata, spec, status = seen.metadata, seen.spec, seen.status
    no_pods = kind is WorkloadKind.POD_TEMPLATE
    deployment, problem = None, _problem(kind, seen)
    if kind is WorkloadKind.DEPLOYMENT:
        deployment, unreadable = _deployment(seen)
        problem = problem or unreadable
    return WorkloadSeen(
        kind=kind,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        managed_by=managed_by(seen),
        watched=(metadata.labels or {}).get(MANAGED) == MANAGED_VALUE,
        replicas=0 if no_pods else spec.replicas,
        available=status.available_replicas,
        observed=no_pods or status.observed_generation >= metadata.generation,
        deleting=metadata.deletion_timestamp is not None,
        deployment=deployment,
        scaled_down=scaled_down_of(metadata.annotations or {}),
        problem=problem,
        read_at_s=read_at_s,
    )


def template_parts(seen: WorkloadObject) -> tuple[bytes, ...]:
    """What `template_of` reads: as long as it is the same, so is the template."""
    return bytes(seen.spec.template), bytes(seen.spec.selector), bytes(seen.template)


def template_of(seen: WorkloadObject) -> WorkloadTemplate | None:
    """The pod template of a workload, and its selector; None when it has no template."""
    template = json_object(bytes(seen.spec.template)) or json_object(bytes(seen.template))
    return WorkloadTemplate(template, json_object(bytes(seen.spec.selector)) or None) if template else None


def _problem(kind: WorkloadKind, seen: WorkloadObject) -> str:
    metadata = seen.metadata
    marks = sorted({*(metadata.labels or ()), *(metadata.annotations or ())})
    if mark := next((mark for mark in marks if mark.startswith(_KRUISE)), ""):
        return f"OpenKruise Rollouts manages it ({mark}): delete its Rollout first"
    for owner in metadata.owner_references or ():
        if owner.api_version.startswith(_FLAGGER):
            return f"Flagger's {owner.kind} {owner.name} owns it: delete that first, or name another {kind}"
    template = seen.template if kind is WorkloadKind.POD_TEMPLATE else seen.spec.template
    return "" if bytes(template) not in (b"", b"null", b"{}") else "it has no pod template"


def _deployment(seen: WorkloadObject) -> tuple[DeploymentSeen | None, str]:
    """What an update in place reads, and why it cannot be used; None when a limit cannot be read.

    With a note that cannot be read the user's own fields are not known: a release gives back the API server's defaults then, or
    leaves fields that no update has taken.
    """
    metadata, spec, status = seen.metadata, seen.spec, seen.status
    limits = spec.strategy.rolling_update
    try:
        fields = UpdateFields(
            max_surge=limit_of(limits.max_surge) if limits is not None else None,
            max_unavailable=limit_of(limits.max_unavailable) if limits is not None else None,
            min_ready_s=spec.min_ready_seconds,
            progress_deadline_s=spec.progress_deadline_seconds,
        )
    except ValueError as exc:
        return None, f"{exc}; repair it"
    problem = ""
    try:
        held = held_of(metadata.annotations or {})
    except ValueError as exc:
        taken = fields.min_ready_s == HELD_MIN_READY_S
        held = Held(number=0, replicas=spec.replicas, own=UpdateFields() if taken else fields)
        again = f"kubectl annotate deployment {metadata.name} -n {metadata.namespace} --overwrite {HELD}='{held_text(held)}'"
        problem = f"{exc}; write it again, with the numbers of your manifest in `own` (nothing for defaults): {again}"
    deployment = DeploymentSeen(
        paused=spec.paused,
        by_recreate=spec.strategy.type == "Recreate",
        fields=fields,
        holds=HOLD in (metadata.labels or {}),
        held=held,
        updated=status.updated_replicas,
        rolled_out=status.observed_generation >= metadata.generation
        and spec.replicas == status.replicas == status.updated_replicas,
    )
    return deployment, problem
