"""Where a Rollout with `workloadRef` has its template from: the workload is read, marked as the Rollout's, and then watched.

What is not known, or may not be used, holds the Rollout at the revision on record, and takes nothing from the pods that run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from rollouts.core.config.target import revision_on_record
from rollouts.core.context.contribution import Contribution, joined
from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import Wait
from rollouts.core.lifecycle.in_place import left_in_update
from rollouts.core.model.frozen import replace
from rollouts.core.model.in_place_intents import LabelReplicaSet
from rollouts.core.model.intents import (
    AskChosenNodes,
    AskReplicaSets,
    AskRevisions,
    AskWorkload,
    MarkWorkload,
    Notice,
    ReleaseWorkload,
    ScaleWorkload,
)
from rollouts.core.model.nodes import DaemonSetSeen, OwnType
from rollouts.core.model.reasons import Reason
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.workload import (
    PartitionFields,
    StatefulSetSeen,
    UpdateFields,
    WorkloadAbsent,
    WorkloadForbidden,
    WorkloadSeen,
    WorkloadUnasked,
    is_of,
)
from rollouts.core.model.workload_ref import NamedWorkload, ScaleDownWorkload, WorkloadKind, WorkloadMode
from rollouts.core.routing.services import ASK_MOST_S, ask_again_s

_PATH = "spec.workloadRef"

NODES_AGAIN_S = 60.0
"""So old may the list of chosen nodes be in a pass of an update."""


def as_its_workload_says(seen: Snapshot) -> Snapshot:
    """The snapshot with the revision on record, while the workload of its Rollout gives no template."""
    spec = seen.rollout.spec
    if spec.workload_ref is None or spec.template_hash:
        return seen
    return replace(seen, rollout=replace(seen.rollout, spec=replace(spec, revision=revision_on_record(seen))))


def workload_wait(seen: Snapshot) -> Wait | None:
    """Why the workload gives no template now; None when it does. Without a message it is about to."""
    reference, workload = seen.rollout.spec.workload_ref, seen.workload
    if reference is None:
        return None
    match workload:
        case None | WorkloadUnasked():
            return Wait(Reason.WORKLOAD_NOT_READ, "")
        case WorkloadAbsent():
            fix = "create it, or name another one" if seen.status.current_revision else "create it"
            return Wait(Reason.WORKLOAD_NOT_FOUND, f"{_PATH}: {reference} does not exist: {fix}")
        case WorkloadForbidden(message=message):
            return Wait(Reason.WORKLOAD_FORBIDDEN, f"{_PATH}: {message}")
        case WorkloadSeen():
            return _wait_for(seen, reference, workload)
        case _:
            assert_never(workload)


def _wait_for(seen: Snapshot, reference: NamedWorkload, workload: WorkloadSeen) -> Wait | None:
    owner = workload.managed_by
    if owner and owner != seen.rollout.name:
        message = f"{_PATH}: Rollout {owner} manages {reference}: name another one, or delete that Rollout"
        return Wait(Reason.WORKLOAD_OWNED_TWICE, message, spec_is_wrong=True)
    if workload.problem:
        return Wait(Reason.WORKLOAD_NOT_USABLE, f"{_PATH}: {reference}: {workload.problem}", spec_is_wrong=True)
    known = is_of(workload, seen.rollout.name) and workload.strays == ()
    return None if known else Wait(Reason.WORKLOAD_NOT_READ, "")


def workload_questions(ctx: PassContext) -> Contribution:
    """Reads the workload, or marks it as this Rollout's. One that is missing or refused is read again, first soon."""
    reference, workload = ctx.spec.workload_ref, ctx.seen.workload
    if reference is None:
        return Contribution()
    ask = Contribution(intents=(AskWorkload(reference.kind, reference.name),))
    match workload:
        case None | WorkloadUnasked():
            return ask
        case WorkloadAbsent(at_s=at_s):
            return _again(ctx, ask, Reason.WORKLOAD_NOT_FOUND, at_s)
        case WorkloadForbidden(at_s=at_s):
            return Contribution() if at_s is None else _again(ctx, ask, Reason.WORKLOAD_FORBIDDEN, at_s)
        case WorkloadSeen():
            if is_of(workload, ctx.seen.rollout.name):
                return joined([_sets_watched(ctx, workload), _nodes_question(ctx, reference, workload)])
            if workload_wait(ctx.seen) != Wait(Reason.WORKLOAD_NOT_READ, ""):
                if (asked := _nodes_question(ctx, reference, workload)) != Contribution():
                    return asked
                # No event comes for one that is not watched, so it is read again once the answer is too old.
                return Contribution(wake_at_s=None if workload.watched else ctx.now_s + ASK_MOST_S)
            uid, version = workload.uid, workload.resource_version
            hold = reference.mode is WorkloadMode.IN_PLACE
            mark = MarkWorkload(kind=workload.kind, name=workload.name, uid=uid, resource_version=version, hold=hold)
            return Contribution(intents=(mark,))
        case _:
            assert_never(workload)


def _sets_watched(ctx: PassContext, workload: WorkloadSeen) -> Contribution:
    """Finds the ReplicaSets of an update in place, and labels those that no watch shows."""
    if workload.strays is None and workload.daemon_set is not None:
        asked = (AskRevisions(workload.name, ctx.spec.selector_text),) if workload.observed else ()
        return Contribution(intents=asked)
    if workload.strays is None and workload.deployment is None:
        return Contribution()  # its watch says when its controller has seen the template
    if workload.strays is None:
        # Only what its controller has seen has its ReplicaSet, or is known to have none because it is paused.
        sets = (AskReplicaSets(workload.name, ctx.spec.selector_text),) if workload.observed else ()
        return Contribution(intents=sets)
    return Contribution(intents=tuple([LabelReplicaSet(stray.name, stray.uid) for stray in workload.strays]))


def _nodes_question(ctx: PassContext, reference: NamedWorkload, workload: WorkloadSeen) -> Contribution:
    """Lists the nodes that `canaryNodes` chooses, while an update of a DaemonSet runs: they may come, and get other labels."""
    daemon_set = workload.daemon_set
    if daemon_set is None or not reference.canary_nodes or not daemon_set.needs_pods:
        return Contribution()
    chosen = daemon_set.chosen
    if chosen is None or ctx.now_s >= chosen.at_s + NODES_AGAIN_S:
        return Contribution(intents=(AskChosenNodes(reference.canary_nodes),))
    return Contribution(wake_at_s=chosen.at_s + NODES_AGAIN_S) if chosen.refused else Contribution()


def _again(ctx: PassContext, ask: Contribution, reason: Reason, asked_at_s: float) -> Contribution:
    again_s = ask_again_s(ctx, reason, asked_at_s=asked_at_s)
    return ask if ctx.now_s >= again_s else Contribution(wake_at_s=again_s)


def workload_releases(ctx: PassContext) -> Contribution:
    """Releases workloads that are managed although the spec no longer names them, with an Event for each."""
    releases = _releases(ctx.seen.left_workloads)
    namespace = ctx.seen.rollout.namespace
    notices = [release_notice(release, namespace=namespace) for release in releases]
    return Contribution(intents=releases, notices=tuple(notices))


def release_notice(release: ReleaseWorkload, *, namespace: str) -> Notice:
    """What an Event says of a release: a workload that is left in the middle of an update needs a person."""
    what = f"{release.kind} {release.name} is released"
    if not release.in_update:
        return Notice(Reason.WORKLOAD_RELEASED, what)
    left = left_in_update(release.kind, release.name, namespace=namespace)
    return Notice(Reason.WORKLOAD_RELEASED, f"{what}; {left}", warning=True)


def release_of(workload: WorkloadSeen) -> ReleaseWorkload | None:
    """The release of one workload as it was seen. A Deployment that we scaled down, and nobody else since, gets its pods back.

    One in the middle of an update in place is left paused, because nobody asked for the rest of it. One that has rolled out its
    template is not: it was paused for the next one. None while its own controller has not seen its latest spec, so that its
    counts may be those of an update that is over.
    """
    note, uid, version = workload.scaled_down, workload.uid, workload.resource_version
    replicas = note.own if note is not None and note.to == workload.replicas else None
    found = workload.deployment
    paused = None
    if found is not None and (found.held is not None or (found.holds and found.paused)):
        paused = not found.rolled_out
    own = _own_fields(workload)
    match workload.in_place:
        case StatefulSetSeen() as stateful_set:
            held = stateful_set.in_update or (stateful_set.held is None and stateful_set.replaced is not None)
        case DaemonSetSeen() as daemon_set:
            held = daemon_set.update.on_delete and not daemon_set.own_on_delete
        case _:
            held = False
    in_update = bool(paused) or (held and own is None)
    if in_update and not workload.observed:
        return None
    return ReleaseWorkload(
        kind=workload.kind,
        name=workload.name,
        uid=uid,
        resource_version=version,
        replicas=replicas,
        own=own,
        paused=paused,
        replica_sets=workload.labelled,
        in_update=in_update,
    )


def _own_fields(workload: WorkloadSeen) -> UpdateFields | PartitionFields | OwnType | None:
    """The user's fields, which stand again; None where an update has not taken them, or nothing else would stop it.

    Nobody asked for the rest of an update: a Deployment is paused with its fields, a StatefulSet keeps the partition, and a
    DaemonSet OnDelete, unless every node has its template.
    """
    found = workload.in_place
    if isinstance(found, DaemonSetSeen):
        is_over = workload.observed and found.updated >= found.current
        return OwnType(found.own_on_delete) if is_over and found.update.on_delete is not found.own_on_delete else None
    if isinstance(found, StatefulSetSeen) and found.held is None and found.is_stopped:
        return found.replaced if found.only_revision == found.update_revision else None
    if found is None or found.held is None:
        return None
    stops = isinstance(found, StatefulSetSeen) and found.in_update and not found.held.own.on_delete
    return None if stops else found.held.own


def released_with_its_rollout(seen: Snapshot) -> tuple[ReleaseWorkload, ...]:
    """The releases of a Rollout that is being deleted: its workloads take over before its own pods are gone."""
    named, ours = seen.workload, seen.rollout.name
    mine = [named] if isinstance(named, WorkloadSeen) and named.watched and named.managed_by == ours else []
    return _releases((*mine, *seen.left_workloads))


def _releases(workloads: Iterable[WorkloadSeen]) -> tuple[ReleaseWorkload, ...]:
    found = [release_of(workload) for workload in workloads]
    return tuple([release for release in found if release is not None])


def workload_size(ctx: PassContext) -> Contribution:
    """Scales the Deployment whose template the Rollout takes as `scaleDown` says, at every revision.

    Before the first revision is stable, the Deployment makes up for pods of the Rollout that are missing. After that it is only
    scaled down: the stable revision's own rules keep enough pods. With what the Rollout has available its pods are never fewer
    than `spec.replicas` says, if it has as many.
    """
    reference, workload = ctx.spec.workload_ref, ctx.seen.workload
    if reference is None or (reference.mode, reference.kind) != (WorkloadMode.TEMPLATE, WorkloadKind.DEPLOYMENT):
        return Contribution()
    if not isinstance(workload, WorkloadSeen) or not is_of(workload, ctx.seen.rollout.name) or workload.deleting:
        return Contribution()
    note, now = workload.scaled_down, workload.replicas
    own = note.own if note is not None and note.to == now else now
    wanted = _wanted_replicas(ctx, reference.scale_down, own=own, now=now)
    if wanted == now:
        return Contribution()
    scale = ScaleWorkload(
        kind=workload.kind,
        name=workload.name,
        uid=workload.uid,
        resource_version=workload.resource_version,
        replicas=wanted,
        own=None if wanted == own else own,
    )
    if note is None or now <= note.to:
        return Contribution(intents=(scale,))
    message = (
        f"somebody has scaled {reference} from {note.to} to {now}; it is scaled to {wanted} (workloadRef.scaleDown)"
    )
    return Contribution(intents=(scale,), notices=(Notice(Reason.REFERENCED_WORKLOAD_SCALED, message, warning=True),))


def _wanted_replicas(ctx: PassContext, scale_down: ScaleDownWorkload, *, own: int, now: int) -> int:
    """The replicas that the Deployment should have, of those that its user gave it and those that it has now."""
    available = sum(replica_set.staying_available for replica_set in ctx.seen.replica_sets)
    served = bool(ctx.status.stable_revision)
    match scale_down:
        case ScaleDownWorkload.NEVER:
            return own
        case ScaleDownWorkload.ON_SUCCESS:
            return 0 if served and available >= ctx.promised else now
        case ScaleDownWorkload.PROGRESSIVELY:
            return min(now if served else own, max(0, ctx.spec.replicas - available))
