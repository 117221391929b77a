"""What may be written at all, and in which order it is taken over: S12, S13 and S15 of the project's invariants."""

from __future__ import annotations

import math
from typing import TypeAlias, assert_never

from rollouts.core.model.in_place_intents import (
    CreateInDeployment,
    DeletePod,
    LabelReplicaSet,
    MoveReplicaSet,
    RevertTemplate,
    StepDaemonSet,
    StepDeployment,
    StepStatefulSet,
)
from rollouts.core.model.intents import (
    AdoptConfigCopy,
    AdoptReplicaSet,
    AskAutoscaling,
    AskChosenNodes,
    AskConfig,
    AskDrained,
    AskFeatures,
    AskHold,
    AskLive,
    AskPods,
    AskPodTemplate,
    AskReplicaSets,
    AskRevisions,
    AskRoute,
    AskSecretCopy,
    AskService,
    AskWorkload,
    CreateAnalysisRun,
    CreateConfigCopy,
    CreateReplicaSet,
    Decision,
    DeleteAnalysisRun,
    DeleteConfigCopy,
    DeleteExperiment,
    DeleteReplicaSet,
    EvictPod,
    Intent,
    LetPodsGo,
    MakeRoute,
    MarkWorkload,
    PatchPod,
    PatchReplicaSet,
    ReleaseConfigCopy,
    ReleaseRoute,
    ReleaseService,
    ReleaseWorkload,
    RemoveAnnotation,
    ScaleWorkload,
    SetTraffic,
    SwitchService,
    TerminateAnalysisRun,
)
from rollouts.core.model.snapshot import ServiceSeen, Snapshot
from rollouts.core.model.status import Outcome, RolloutStatus, Verb
from rollouts.core.model.traffic import RouteAbsent, RouteSeen
from rollouts.core.model.workload import ReferencedWorkload, WorkloadSeen
from tests.invariants.violation import Violation

_OfReplicaSet: TypeAlias = AdoptReplicaSet | PatchReplicaSet | DeleteReplicaSet
_OfRun: TypeAlias = CreateAnalysisRun | TerminateAnalysisRun | LetPodsGo | DeleteAnalysisRun | DeleteExperiment


def a_spent_true_goes_first(seen: Snapshot, decision: Decision) -> list[Violation]:
    """S13: no status shows something new to act on while a `true` stands: the same annotation again would change nothing.

    It is taken off before, in the same pass, and stays only when status has no record of it yet.
    """
    before, after = seen.status, decision.status
    same = (before.current_revision, before.strategy_hash, before.attempt, before.step_index, before.gate_passed) == (
        *(after.current_revision, after.strategy_hash, after.attempt, after.step_index, after.gate_passed),
    ) and (before.abort is None) == (after.abort is None)
    standing = {verb for verb, value in seen.rollout.annotations.items() if value == "true" and verb != Verb.PAUSE}
    removed = {each.verb for each in decision.intents if isinstance(each, RemoveAnnotation)}
    if same or (standing <= removed and not (removed and decision.status_first)):
        return []
    return [Violation("S13", f"status shows something new beside {sorted(standing - removed)}")]


def adopts_before_all_else(seen: Snapshot, decision: Decision) -> list[Violation]:
    """S12: while pods of ours are controlled by nobody, nothing else is decided: the view lacks what serves."""
    if not any(not each.problem for each in seen.orphans) or seen.rollout.deleting:
        return []
    others = [each for each in decision.intents if not isinstance(each, AdoptReplicaSet)]
    if not others and decision.intents and decision.status == seen.status:
        return []
    return [Violation("S12", f"there are ReplicaSets to adopt, and {others or decision.status} comes first")]


def one_replica_set_per_revision(before: Snapshot, intent: Intent) -> list[Violation]:
    """S12: a ReplicaSet is made only where its revision has none; its name follows from the revision, so the API agrees."""
    if isinstance(intent, CreateReplicaSet) and any(each.revision == intent.revision for each in before.replica_sets):
        return [Violation("S12", f"a second ReplicaSet of revision {intent.revision}")]
    return []


def the_way_back_stays(before: Snapshot, intent: Intent) -> list[Violation]:
    """S15: the template to go back to is kept: the stable revision's, and that of the one before it until another is stable.

    `revisionHistoryLimit: 0` keeps only the stable one.
    """
    if not isinstance(intent, DeleteReplicaSet):
        return []
    revisions = {each.revision for each in before.replica_sets if each.uid == intent.uid}
    needed = {before.status.stable_revision}
    if before.rollout.spec.revision_history_limit > 0:
        needed |= {_stable_before(before.status)}
    return [Violation("S15", f"the way back is deleted: {each}") for each in revisions & needed - {""}]


def the_way_back_is_on_record(seen: Snapshot, after: RolloutStatus) -> list[Violation]:
    """S15: the history goes on to name the revision that was stable before, however many updates came to nothing since."""
    if after.stable_revision != seen.status.stable_revision:
        lost = _stable_before(after) == "" and seen.status.stable_revision in _were_stable(seen.status)
    else:
        own = after.stable_revision in _were_stable(seen.status) and after.stable_revision not in _were_stable(after)
        lost = own or _stable_before(after) != _stable_before(seen.status)
    return [Violation("S15", f"the history loses the way back: {after.history}")] if lost else []


def _stable_before(status: RolloutStatus) -> str:
    others = [each for each in _were_stable(status) if each != status.stable_revision]
    return others[-1] if others else ""


def _were_stable(status: RolloutStatus) -> list[str]:
    return [each.revision for each in status.history if each.outcome in (Outcome.PROMOTED, Outcome.ROLLED_BACK)]


def only_ours_and_as_seen(before: Snapshot, intent: Intent) -> list[Violation]:
    """S13: writes go to what we own or steer, by uid; what takes something away is bound to the version that was seen."""
    return [] if _is_ours_as_seen(before, intent) else [Violation("S13", f"not ours, or not as seen: {intent}")]


def _is_ours_as_seen(before: Snapshot, intent: Intent) -> bool:
    match intent:
        case AdoptReplicaSet() | PatchReplicaSet() | DeleteReplicaSet():
            return _is_our_replica_set(before, intent)
        case SwitchService() | ReleaseService():
            return _is_our_service(before, intent)
        case MarkWorkload() | ScaleWorkload() | ReleaseWorkload():
            return _is_our_workload(before, intent)
        case SetTraffic() | ReleaseRoute():
            return _is_our_route(before, intent)
        case MakeRoute():
            absent = before.routes.get(intent.route)
            return isinstance(absent, RouteAbsent) and absent.ours
        case PatchPod() | EvictPod():
            return before.pods is not None and any(each.uid == intent.uid for each in before.pods.pods)
        case CreateAnalysisRun() | TerminateAnalysisRun() | LetPodsGo() | DeleteAnalysisRun() | DeleteExperiment():
            return _is_our_run(before, intent)
        case DeleteConfigCopy() | AdoptConfigCopy() | ReleaseConfigCopy():
            seen = {(each.uid, each.resource_version) for each in before.copies if not each.problem}
            return (intent.uid, intent.resource_version) in seen
        case MoveReplicaSet():
            return any(
                (each.uid, each.resource_version) == (intent.uid, intent.resource_version)
                for each in before.replica_sets
            )
        case LabelReplicaSet():
            workload = before.workload
            found = workload.strays if isinstance(workload, WorkloadSeen) else ()
            return any(stray.uid == intent.uid for stray in found or ())
        case DeletePod(uid=uid, resource_version=version):
            pods = before.pods.pods if before.pods is not None else ()
            return any((pod.uid, pod.resource_version) == (uid, version) for pod in pods)
        case StepDeployment() | StepStatefulSet() | StepDaemonSet() | RevertTemplate() | CreateInDeployment():
            workload = before.workload
            ours = isinstance(workload, WorkloadSeen) and workload.managed_by == before.rollout.name
            return ours and before.rollout.spec.workload_ref is not None
        case CreateReplicaSet() | RemoveAnnotation() | CreateConfigCopy():
            return True
        case (
            AskConfig()
            | AskService()
            | AskWorkload()
            | AskHold()
            | AskPods()
            | AskReplicaSets()
            | AskPodTemplate()
            | AskRevisions()
            | AskChosenNodes()
            | AskRoute()
            | AskFeatures()
            | AskLive()
            | AskDrained()
            | AskAutoscaling()
            | AskSecretCopy()
        ):
            return True
        case never:
            assert_never(never)


def _is_our_replica_set(before: Snapshot, intent: _OfReplicaSet) -> bool:
    if isinstance(intent, AdoptReplicaSet):
        orphan = next((each for each in before.orphans if each.uid == intent.uid and not each.problem), None)
        return orphan is not None and intent.resource_version == orphan.resource_version
    found = next((each for each in before.replica_sets if each.uid == intent.uid), None)
    if found is None:
        return False
    grows = isinstance(intent, PatchReplicaSet) and (intent.replicas is None or intent.replicas >= found.spec_replicas)
    return grows or intent.resource_version == found.resource_version


def _is_our_run(before: Snapshot, intent: _OfRun) -> bool:
    """A run is made of what its place was seen to ask for, and under a free name; only one of ours that is over is deleted."""
    if isinstance(intent, CreateAnalysisRun):
        as_seen = before.drafts.get(intent.gate) == intent.draft and intent.draft.latest == intent.revision
        return as_seen and intent.name not in before.taken_runs
    found = next((each for each in before.runs if each.uid == intent.uid and each.name == intent.name), None)
    if found is None or (found.gate is None and not isinstance(intent, LetPodsGo)):
        return False
    if isinstance(intent, DeleteAnalysisRun | DeleteExperiment):
        lets_go = found.kept_until_s <= before.now_s
        return found.phase.over and lets_go and intent.resource_version == found.resource_version
    if isinstance(intent, LetPodsGo):
        return math.isinf(found.kept_until_s) and intent.until_s >= before.now_s
    return not found.phase.over


def _is_our_service(before: Snapshot, intent: SwitchService | ReleaseService) -> bool:
    service, ours = before.services.get(intent.name), before.rollout.name
    if not isinstance(service, ServiceSeen):
        return False
    owners = {"", ours} if isinstance(intent, SwitchService) else {ours}
    as_seen = (service.uid, service.resource_version) == (intent.uid, intent.resource_version)
    return as_seen and service.managed_by in owners


def _is_our_workload(before: Snapshot, intent: MarkWorkload | ScaleWorkload | ReleaseWorkload) -> bool:
    """One is marked that the spec names and that is nobody else's; what the spec no longer names is released."""
    ours = before.rollout.name
    owners = {"", ours} if isinstance(intent, MarkWorkload) else {ours}
    found: tuple[ReferencedWorkload | None, ...] = (before.workload,)
    if isinstance(intent, ReleaseWorkload):
        found = (*before.left_workloads, *(found if before.rollout.deleting else ()))
    return any(
        isinstance(each, WorkloadSeen)
        and (each.uid, each.resource_version) == (intent.uid, intent.resource_version)
        and each.managed_by in owners
        and not each.problem
        for each in found
    )


def _is_our_route(before: Snapshot, intent: SetTraffic | ReleaseRoute) -> bool:
    route, ours = before.routes.get(intent.route), before.rollout.name
    if not isinstance(route, RouteSeen):
        return False
    owners = {"", ours} if isinstance(intent, SetTraffic) else {ours}
    as_seen = (route.uid, route.resource_version) == (intent.uid, intent.resource_version)
    known = intent.route.namespace == before.rollout.namespace or intent.route in before.status.elsewhere
    return as_seen and route.managed_by in owners and known
