"""The workload that a Rollout names at one instant, and those that it still manages. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from rollouts.api.spec.parse import WorkloadTemplate
from rollouts.cluster.decoding import json_object
from rollouts.cluster.kept import KRUISE_PREFIX
from rollouts.cluster.store import Store
from rollouts.cluster.structs import WorkloadObject
from rollouts.cluster.watch_state import FAILED_TELL_S
from rollouts.controller.observe.in_place import (
    rests_free,
    rolled_out_revision,
    sets_inside,
    spec_in_place,
    strays,
    with_labelled_sets,
)
from rollouts.controller.observe.pods import pods_of_workload
from rollouts.controller.workqueue.inbox import Inbox
from rollouts.controller.workqueue.managed import ManagedNames, managed_by
from rollouts.controller.workqueue.pod_watches import PodWatches
from rollouts.core.carrier.update_in_place import HELD_MIN_READY_S
from rollouts.core.model.frozen import replace
from rollouts.core.model.nodes import DaemonSetSeen, NodeRevision, NodeUpdate
from rollouts.core.model.rollout import Percent, RolloutSpec
from rollouts.core.model.snapshot import PodsSeen, ReplicaSet, Snapshot
from rollouts.core.model.workload import (
    DeploymentSeen,
    Held,
    HoldSeen,
    InPlaceSeen,
    NamedReplicaSet,
    PartitionFields,
    ReferencedWorkload,
    StatefulSetSeen,
    UpdateFields,
    WorkloadAbsent,
    WorkloadForbidden,
    WorkloadSeen,
    WorkloadUnasked,
    is_of,
)
from rollouts.core.model.workload_ref import NamedWorkload, WorkloadKind, WorkloadMode
from rollouts.manifests.in_place import held_of, limit_of, own_text
from rollouts.manifests.named_workload import scaled_down_of
from rollouts.manifests.nodes import nodes_held_of
from rollouts.manifests.ownership import HELD, HOLD, MANAGED, MANAGED_VALUE, OWN_FIELDS
from rollouts.manifests.partition import partition_held_of, replaced_of
from rollouts.objects import REPLICA_SET, ROLLOUT, Key, Kind

_FLAGGER = "flagger.app/"
_EXAMPLE = own_text(UpdateFields(max_surge=Percent(25), max_unavailable=Percent(25)))
"""Of a label of the user's fields: the defaults of Kubernetes."""


class WorkloadLook(Struct, frozen=True, kw_only=True):
    """What an update in place says about a Rollout.

    Args:
        spec: with what the workload says.
        replica_sets: those of the Deployment beside those of the Rollout.
        unseen: those that no watch shows yet; None while that, or the revision of the template, is not known.
        pods: as the watch shows them; None where none is needed.
        revisions: of a DaemonSet.
    """

    spec: RolloutSpec
    replica_sets: tuple[ReplicaSet, ...]
    unseen: tuple[NamedReplicaSet, ...] | None = ()
    pods: PodsSeen | None = None
    revisions: tuple[NodeRevision, ...] = ()


class WorkloadReader(Struct, frozen=True):
    """Reads workloads from the store if they are watched, otherwise from the inbox.

    Args:
        watched_pods: watches the pods of updates in place; None where nothing is watched, as in a plan.
        managed: the names of those that each Rollout manages, by kind.
        why_unseen: why workloads of a kind cannot be seen in a namespace, and what helps; "" when they can.
    """

    store: Store
    inbox: Inbox
    managed: Mapping[Kind, ManagedNames]
    why_unseen: Callable[[Kind, str], str]
    watched_pods: PodWatches | None = None

    def follow(self, key: Key, reference: NamedWorkload | None, workload: ReferencedWorkload | None) -> None:
        """From now on a change of that workload wakes the Rollout, and of no other one. Nothing is noted of one that names it."""
        names_it = isinstance(workload, WorkloadSeen) and workload.read_at_s is None and is_of(workload, key.name)
        noted = () if reference is None or names_it else ((key.namespace, reference.name),)
        self.inbox.workload_askers.asks(key, noted)

    def pods_known(self, key: Key, workload: ReferencedWorkload | None, selector: str) -> bool:
        """Whether the pods of an update in place are listed, or not needed; or cannot be seen, which a pass tells.

        From now on they are watched while they are needed. Args: selector: of the workload.
        """
        found = workload.in_place if isinstance(workload, WorkloadSeen) and is_of(workload, key.name) else None
        needed, watched = found is not None and found.needs_pods, self.watched_pods
        if watched is None:
            return True
        watched.follow(key, selector if needed else "")
        return not needed or watched.pods(key) is not None or watched.failing(key)[0] >= FAILED_TELL_S

    def forget(self, key: Key) -> None:
        """Ends the watch for a Rollout that is gone."""
        if self.watched_pods is not None:
            self.watched_pods.follow(key, "")

    def observed(self, snapshot: Snapshot, in_place: WorkloadLook) -> Snapshot:
        """`snapshot` with the workload that its spec names, and those that the Rollout still manages."""
        rollout = snapshot.rollout
        key, reference = Key(rollout.namespace, rollout.name), rollout.spec.workload_ref
        named = (reference.kind, reference.name) if reference is not None else None
        left = tuple(
            with_labelled_sets(workload_seen(kind, seen), self.store.table(REPLICA_SET), key.namespace)
            for kind in WorkloadKind
            for name in self.managed[kind.resource].of(key)
            if (kind, name) != named and (seen := self.store.table(kind.resource).get(key.namespace, name)) is not None
        )
        if reference is None:
            return replace(snapshot, left_workloads=left) if left else snapshot
        workload = self.workload(key, reference, now_s=snapshot.now_s)
        if isinstance(workload, WorkloadSeen):
            hold = self.inbox.hold(key, workload.uid) or self._policy(key, reference)
            workload = replace(workload, template_hash=rollout.spec.template_hash, hold=hold, strays=in_place.unseen)
            if isinstance(workload.in_place, DaemonSetSeen):
                workload = self._on_nodes(key, reference, workload, workload.in_place, in_place.revisions)
            if rollout.deleting:
                workload = with_labelled_sets(workload, self.store.table(REPLICA_SET), key.namespace)
        pods = snapshot.pods if in_place.pods is None else in_place.pods
        return replace(snapshot, workload=workload, left_workloads=left, pods=pods)

    def _policy(self, key: Key, reference: NamedWorkload) -> HoldSeen | None:
        """What was just found of another workload of the namespace, for one of which nothing was asked yet, as after a start."""
        free = rests_free(self.store, reference.kind, key.namespace, reference.name)
        return self.inbox.policy(key.namespace, reference.kind) if free else None

    def in_place(self, key: Key, spec: RolloutSpec, ours: tuple[ReplicaSet, ...], *, now_s: float) -> WorkloadLook:
        """The spec with what a workload in place says, and its ReplicaSets or pods."""
        reference, plain = spec.workload_ref, WorkloadLook(spec=spec, replica_sets=ours)
        workload = None
        if reference is not None and reference.mode is WorkloadMode.IN_PLACE:
            workload = self.workload(key, reference, now_s=now_s)
        usable = is_of(workload, key.name) and isinstance(workload, WorkloadSeen)
        found = workload.in_place if usable and isinstance(workload, WorkloadSeen) else None
        if found is None or not isinstance(workload, WorkloadSeen):
            return plain
        if not isinstance(found, DeploymentSeen):
            return self._by_pods(key, plain, workload, found, now_s=now_s)
        labelled = self.store.table(REPLICA_SET).owned_by(key.namespace, workload.uid)
        sets = (*ours, *sets_inside(labelled, workload))
        revision = ""
        unseen: tuple[NamedReplicaSet, ...] | None = None
        watched: WorkloadObject | None = self.store.table(workload.kind.resource).get(key.namespace, workload.name)
        if watched is not None and (revision := rolled_out_revision(watched, workload, labelled)):
            unseen = ()
        elif watched is not None:
            answer = self.inbox.sets(key, watched={each.uid for each in sets})
            revision, unseen = strays(spec.template_hash, workload, sets, answer)
        return WorkloadLook(spec=spec_in_place(spec, workload, revision=revision), replica_sets=sets, unseen=unseen)

    def _by_pods(
        self,
        key: Key,
        plain: WorkloadLook,
        workload: WorkloadSeen,
        found: StatefulSetSeen | DaemonSetSeen,
        *,
        now_s: float,
    ) -> WorkloadLook:
        """The same of a workload without ReplicaSets: the core makes them up of its status and its pods."""
        spec, revision = plain.spec, ""
        revisions: tuple[NodeRevision, ...] = ()
        if isinstance(found, DaemonSetSeen):
            revisions = self.inbox.revisions(key, workload.uid, spec.template_hash)
            revision = revisions[-1].revision if revisions else ""
        else:
            if workload.observed:
                revision = found.update_revision
                self.inbox.put_revision(key, workload.uid, spec.template_hash, revision)
            revision = revision or self.inbox.revision(key, workload.uid, spec.template_hash)
        listed = self.watched_pods.pods(key) if found.needs_pods and self.watched_pods is not None else None
        return WorkloadLook(
            spec=spec_in_place(spec, workload, revision=revision),
            replica_sets=plain.replica_sets,
            unseen=() if revision else None,
            pods=None if listed is None else pods_of_workload(listed, workload.uid, at_s=now_s),
            revisions=revisions,
        )

    def _on_nodes(
        self,
        key: Key,
        reference: NamedWorkload,
        workload: WorkloadSeen,
        daemon_set: DaemonSetSeen,
        revisions: tuple[NodeRevision, ...],
    ) -> WorkloadSeen:
        """The DaemonSet with its revisions, and with the nodes that the spec chooses."""
        chosen = self.inbox.nodes(key, reference.canary_nodes) if reference.canary_nodes else None
        problem = workload.problem or (chosen.refused if chosen is not None else "")
        seen = replace(daemon_set, revisions=revisions, chosen=chosen)
        return replace(workload, in_place=seen, problem=problem)

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
        seen = workload_seen(reference.kind, answer.workload, read_at_s=read_at_s)
        rollouts = None if seen.watched else self.store.table(ROLLOUT)
        if rollouts is not None and rollouts.synced.is_set() and rollouts.get(key.namespace, seen.managed_by) is None:
            seen = replace(seen, managed_by="")  # no watch shows what that Rollout has left, so nobody releases it
        return _held_by_its_label(seen, reference)


def _held_by_its_label(workload: WorkloadSeen, reference: NamedWorkload) -> WorkloadSeen:
    """The workload as one that is not marked yet, while the label of its hold is missing; and why it cannot be held."""
    found = workload.in_place
    if reference.mode is not WorkloadMode.IN_PLACE or found is None:
        return workload
    if isinstance(found, DeploymentSeen) and found.by_recreate and not workload.problem:
        problem = "its strategy is Recreate, which has no steps: make it RollingUpdate, or use mode: Template"
        return replace(workload, problem=problem)
    if isinstance(found, DaemonSetSeen) and found.update.surges and not workload.problem:
        problem = "its updateStrategy has maxSurge, and batches of nodes replace a pod in its place: set maxUnavailable instead"
        return replace(workload, problem=problem)
    return workload if found.holds else replace(workload, watched=False)


def workload_seen(kind: WorkloadKind, seen: WorkloadObject, *, read_at_s: float | None = None) -> WorkloadSeen:
    """What decisions read of a workload."""
    metadata, spec, status = seen.metadata, seen.spec, seen.status
    no_pods, on_nodes = kind is WorkloadKind.POD_TEMPLATE, kind is WorkloadKind.DAEMON_SET
    in_place: InPlaceSeen | None = None
    problem = _problem(kind, seen)
    try:
        match kind:
            case WorkloadKind.DEPLOYMENT:
                in_place, unreadable = _deployment(seen)
                problem = problem or unreadable
            case WorkloadKind.STATEFUL_SET:
                in_place = _stateful_set(seen)
            case WorkloadKind.DAEMON_SET:
                in_place = _daemon_set(seen)
            case WorkloadKind.REPLICA_SET | WorkloadKind.POD_TEMPLATE:
                pass
    except ValueError as exc:
        problem = problem or f"{exc}; repair it"
    return WorkloadSeen(
        kind=kind,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        managed_by=managed_by(seen),
        watched=(metadata.labels or {}).get(MANAGED) == MANAGED_VALUE,
        replicas=status.desired_number_scheduled if on_nodes else 0 if no_pods else spec.replicas,
        available=status.number_available if on_nodes else status.available_replicas,
        observed=no_pods or status.observed_generation >= metadata.generation,
        deleting=metadata.deletion_timestamp is not None,
        in_place=in_place,
        scaled_down=scaled_down_of(metadata.annotations or {}),
        problem=problem,
        read_at_s=read_at_s,
    )


def gives_the_same(one: WorkloadObject | None, other: WorkloadObject | None) -> bool:
    """Whether two states of a workload have the same of what `template_of` reads."""
    if one is None or other is None or one is other:
        return one is other
    parts = [(each.spec.template, each.spec.selector, each.template) for each in (one, other)]
    return all(bytes(before) == bytes(after) for before, after in zip(*parts, strict=True))


def template_of(seen: WorkloadObject) -> WorkloadTemplate | None:
    """The pod template of a workload, and its selector; None when it has no template."""
    template = json_object(template_json_of(seen))
    return WorkloadTemplate(template, json_object(bytes(seen.spec.selector)) or None) if template else None


def template_json_of(seen: WorkloadObject) -> bytes:
    """The pod template of a workload as the API server gave it; b"" when it has none."""
    return bytes(seen.spec.template) or bytes(seen.template)


def _problem(kind: WorkloadKind, seen: WorkloadObject) -> str:
    metadata = seen.metadata
    marks = sorted({*(metadata.labels or ()), *(metadata.annotations or ())})
    if mark := next((mark for mark in marks if mark.startswith(KRUISE_PREFIX)), ""):
        return f"OpenKruise Rollouts manages it ({mark}): delete its Rollout first"
    for owner in metadata.owner_references or ():
        if owner.api_version.startswith(_FLAGGER):
            return f"Flagger's {owner.kind} {owner.name} owns it: delete that first, or name another {kind}"
    template = seen.template if kind is WorkloadKind.POD_TEMPLATE else seen.spec.template
    return "" if bytes(template) not in (b"", b"null", b"{}") else "it has no pod template"


def _deployment(seen: WorkloadObject) -> tuple[DeploymentSeen, str]:
    """What an update in place reads, and why it cannot be used.

    With a label that is missing or cannot be read the user's own fields are not known: a release gives back the API server's
    defaults then, or leaves fields that no update has taken.

    Raises: ValueError, when a limit cannot be read.
    """
    metadata, spec, status = seen.metadata, seen.spec, seen.status
    limits = spec.strategy.rolling_update
    fields = UpdateFields(
        max_surge=limit_of(limits.max_surge) if limits is not None else None,
        max_unavailable=limit_of(limits.max_unavailable) if limits is not None else None,
        min_ready_s=spec.min_ready_seconds,
        progress_deadline_s=spec.progress_deadline_seconds,
    )
    taken, problem = fields.min_ready_s == HELD_MIN_READY_S, ""
    try:
        held = held_of(metadata.labels or {}, metadata.annotations or {})
        if held is None and taken:
            raise ValueError(f"label {OWN_FIELDS} is missing")
    except ValueError as exc:
        held = Held(number=0, replicas=0, own=UpdateFields() if taken else fields)
        named = f"{metadata.name} -n {metadata.namespace}"
        again = f"kubectl label deployment {named} --overwrite {OWN_FIELDS}={_EXAMPLE}"
        problem = (
            f"{exc}; write it again, with your manifest's maxSurge, maxUnavailable, minReadySeconds and progressDeadlineSeconds "
            f"after s, u, m and d (p for per cent, nothing for defaults): {again}"
        )
    deployment = DeploymentSeen(
        paused=spec.paused,
        by_recreate=spec.strategy.type == "Recreate",
        fields=fields,
        holds=HOLD in (metadata.labels or {}),
        held=held,
        note_is_copied=held is None and HELD in (metadata.annotations or {}),
        updated=status.updated_replicas,
        rolled_out=status.observed_generation >= metadata.generation
        and spec.replicas == status.replicas == status.updated_replicas,
    )
    return deployment, problem


def _stateful_set(seen: WorkloadObject) -> StatefulSetSeen:
    """Raises: ValueError, when the note of an update, or a limit, cannot be read."""
    metadata, spec, status = seen.metadata, seen.spec, seen.status
    on_delete, rolling = spec.update_strategy.type == "OnDelete", spec.update_strategy.rolling_update
    return StatefulSetSeen(
        fields=PartitionFields(on_delete=on_delete, partition=rolling.partition if rolling is not None else None),
        replaced=replaced_of(metadata.annotations or {}),
        max_unavailable=limit_of(rolling.max_unavailable) if rolling is not None else None,
        min_ready_s=spec.min_ready_seconds or 0,
        ordered=spec.pod_management_policy == "OrderedReady",
        start=spec.ordinals.start if spec.ordinals is not None else 0,
        current_revision=status.current_revision,
        update_revision=status.update_revision,
        pods=status.replicas,
        ready=status.ready_replicas,
        current=status.current_replicas,
        updated=status.updated_replicas,
        holds=HOLD in (metadata.labels or {}),
        held=partition_held_of(metadata.annotations or {}),
    )


def _daemon_set(seen: WorkloadObject) -> DaemonSetSeen:
    """Raises: ValueError, when the note of an update, or a limit, cannot be read."""
    metadata, spec, status = seen.metadata, seen.spec, seen.status
    rolling = spec.update_strategy.rolling_update
    return DaemonSetSeen(
        update=NodeUpdate(
            on_delete=spec.update_strategy.type == "OnDelete",
            max_unavailable=limit_of(rolling.max_unavailable) if rolling is not None else None,
            max_surge=limit_of(rolling.max_surge) if rolling is not None else None,
        ),
        current=status.current_number_scheduled,
        updated=status.updated_number_scheduled,
        ready=status.number_ready,
        available=status.number_available,
        min_ready_s=spec.min_ready_seconds or 0,
        holds=HOLD in (metadata.labels or {}),
        held=nodes_held_of(metadata.annotations or {}),
    )
