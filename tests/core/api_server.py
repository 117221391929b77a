"""The API server of the model world: it carries out one call of ours, or refuses it.

What a write does to its object is told here in the words of the API, field by field: nothing of the product says it, so the model
of our own writes (`rollouts/core/model/after.py`) can be held to it. Pods go at once when they are evicted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from rollouts.core.model import in_place_intents as in_place
from rollouts.core.model.config import ConfigKind, CopyLook, CopySeen
from rollouts.core.model.frozen import replace
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
    WorkloadIntent,
)
from rollouts.core.model.rollout import Percent
from rollouts.core.model.snapshot import EvictionRefused, Pod, PodsSeen, ReplicaSet
from rollouts.core.model.traffic import ALL_TO_STABLE, LiveSeen, RouteName, RouteSeen, Split, VerifiedBy
from rollouts.core.model.workload import HoldSeen, ScaledDown
from tests.core.config_worlds import copy_read
from tests.core.deployments import made_inside
from tests.core.measured_runs import runs_written
from tests.core.model import World, annotated, deleted, moved, route, with_load_read, wrote
from tests.core.refusal import RefusedError
from tests.core.sources import Configs, asked, noted
from tests.core.stateful_sets import with_stateful_set


def applied(there: World, intent: Intent) -> World:
    """The world after one call. Raises: RefusedError, as the API server would refuse it."""
    match intent:
        case CreateReplicaSet() | AdoptReplicaSet() | PatchReplicaSet() | DeleteReplicaSet():
            return _with_replica_sets(there, intent)
        case (
            in_place.LabelReplicaSet() | AskReplicaSets() | AskPodTemplate() | AskRevisions() | AskChosenNodes()
        ):  # every ReplicaSet of the model is labelled
            return there
        case in_place.StepStatefulSet() | in_place.DeletePod():
            return with_stateful_set(there, intent)
        case in_place.StepDaemonSet() | in_place.RevertTemplate():
            raise RefusedError("no DaemonSet")  # they have a world of their own: daemonsets.py
        case in_place.CreateInDeployment() | in_place.MoveReplicaSet() | in_place.StepDeployment():
            return _with_deployment(there, intent)
        case SwitchService() | ReleaseService():
            return _with_service(there, intent)
        case MarkWorkload() | ScaleWorkload() | ReleaseWorkload() | AskWorkload():
            return _with_workload(there, intent)
        case AskHold():
            truth = there.workload
            answer = HoldSeen(at_s=there.now_s, works=truth is not None and truth.hold_works is True)
            return there if truth is None else replace(there, workload=replace(truth, hold=answer))
        case PatchPod() | EvictPod():
            return _with_pods(there, intent)
        case RemoveAnnotation(verb=verb, value=value):
            if there.rollout.annotations.get(verb) != value:
                raise RefusedError(f"annotation {verb} is not {value}")
            return annotated(wrote(there, "RemoveAnnotation"), verb, None)
        case SetTraffic() | MakeRoute() | ReleaseRoute():
            return _without_route_answer(_with_route(there, intent), intent.route)
        case CreateAnalysisRun() | TerminateAnalysisRun() | LetPodsGo() | DeleteAnalysisRun() | DeleteExperiment():
            runs = runs_written(there.runs, intent, version=there.version + 1, now_s=there.now_s)
            return replace(wrote(there, type(intent).__name__), runs=runs)
        case CreateConfigCopy() | DeleteConfigCopy() | AdoptConfigCopy() | ReleaseConfigCopy():
            return _with_copies(there, intent)
        case AskConfig() | AskSecretCopy():
            return replace(there, configs=_with_configuration_read(there, intent))
        case AskAutoscaling(gate):
            return with_load_read(there, gate)
        case AskService() | AskPods() | AskRoute() | AskFeatures() | AskLive() | AskDrained():
            return _answered(there, intent)
        case never:
            assert_never(never)


def _with_deployment(
    there: World, intent: in_place.CreateInDeployment | in_place.MoveReplicaSet | in_place.StepDeployment
) -> World:
    """A write to a Deployment or a ReplicaSet that has changed since is refused."""
    workload = there.workload
    if workload is None or workload.deployment is None:
        raise RefusedError("no Deployment")
    there = wrote(there, type(intent).__name__)
    version = str(there.version)
    match intent:
        case in_place.CreateInDeployment(revision=revision, beside=beside):
            if any(each.name == f"{workload.name}-{revision}" for each in there.replica_sets):
                return there
            ready_s = there.rollout.spec.min_ready_s if beside else 0
            made = made_inside(
                workload, revision, number=there.version, at_s=there.now_s, min_ready_s=ready_s, inside=not beside
            )
            return replace(there, replica_sets=(*there.replica_sets, made))
        case in_place.MoveReplicaSet(uid=uid, resource_version=seen, into=into):
            found = next((each for each in there.replica_sets if each.uid == uid), None)
            if found is None or found.resource_version != seen:
                raise RefusedError(f"ReplicaSet {intent.name} has changed")
            moved_one = replace(found, inside=into, resource_version=version)
            return replace(
                there, replica_sets=tuple(moved_one if each is found else each for each in there.replica_sets)
            )
        case in_place.StepDeployment(resource_version=seen, paused=paused, fields=fields, held=held):
            if workload.resource_version != seen:
                raise RefusedError("the Deployment has changed")
            both_0 = fields.max_surge in (0, Percent(0)) and fields.max_unavailable in (0, Percent(0))
            assert not both_0, "the API server refuses maxSurge 0 with maxUnavailable 0"
            deployment = replace(workload.deployment, paused=paused, fields=fields, held=held)
            now = replace(workload, in_place=deployment, observed=False, resource_version=version)
            return replace(there, workload=now)


def _with_workload(there: World, intent: WorkloadIntent | AskWorkload) -> World:
    truth, sight = there.workload, there.sight
    match intent:
        case AskWorkload():
            answer = None if truth is None else replace(truth, read_at_s=there.now_s)
            return replace(there, sight=replace(sight, answer=(there.now_s, answer)))
        case ReleaseWorkload(uid=uid):
            left = tuple(each for each in sight.left if each.uid != uid)
            return replace(wrote(there, "ReleaseWorkload"), sight=replace(sight, left=left))
        case MarkWorkload(uid=uid, resource_version=version) | ScaleWorkload(uid=uid, resource_version=version):
            if truth is None or (truth.uid, truth.resource_version) != (uid, version):
                raise RefusedError(f"{intent.kind} {intent.name} is not as it was seen")
            there = wrote(there, type(intent).__name__)
            name, now = there.rollout.name, str(there.version)
            if isinstance(intent, ScaleWorkload):  # its pods come and go at once
                note = None if intent.own is None else ScaledDown(intent.own, intent.replicas)
                size = intent.replicas
                scaled = replace(truth, replicas=size, available=size, scaled_down=note, resource_version=now)
                return replace(there, workload=scaled)
            marked = replace(truth, managed_by=name, watched=True, resource_version=now)
            return replace(there, workload=marked, sight=replace(sight, answer=None))


def _with_configuration_read(there: World, intent: AskConfig | AskSecretCopy) -> Configs:
    match intent:
        case AskConfig(ref=ref) if any(each.name == ref.name for each in there.configs.copies):
            return there.configs if there.configs.trouble else copy_read(there.configs, ref)
        case AskConfig(ref=ref):
            return asked(there.configs, ref)
        case AskSecretCopy(name):
            found = any(name == copy for _, copy in there.configs.secret_copies)
            return replace(there.configs, copy_looks={**there.configs.copy_looks, name: CopyLook(there.now_s, found)})


def _with_copies(
    there: World, intent: CreateConfigCopy | DeleteConfigCopy | AdoptConfigCopy | ReleaseConfigCopy
) -> World:
    """A copy is made of what its source contains now; one that has changed gets no other owner, and if in use, it stays.

    Raises: AssertionError when pods may still read a copy that is deleted.
    """
    before = {each.uid: each for each in there.configs.copies}
    match intent:
        case CreateConfigCopy(use=use, owner=owner):
            source = there.configs.objects.get((use.kind, use.source))
            if source is None or source.content != use.content:
                raise RefusedError(f"{use.source} has another content")
            assert (owner is not None) is (use.kind is ConfigKind.SECRET)
            if owner is not None:
                made_of = there.configs.secret_copies | {(owner.uid, use.copy)}
                looks = {**there.configs.copy_looks, use.copy: CopyLook(there.now_s, there=True)}
                taken = there.configs.secret_copies_taken - {use.copy}
                configs = replace(there.configs, secret_copies=made_of, secret_copies_taken=taken, copy_looks=looks)
                there = replace(there, configs=configs)
        case DeleteConfigCopy(name=name, uid=uid, resource_version=version):
            found = before.get(uid)
            if found is None or found.resource_version != version:
                raise RefusedError(f"copy {name} has changed")
            users = [each.name for each in there.replica_sets if (ConfigKind.CONFIG_MAP, name) in _named(each)]
            assert not users, f"S14: copy {name} is deleted, and {users} name it"
        case AdoptConfigCopy(name=name, uid=uid) | ReleaseConfigCopy(name=name, uid=uid):
            found = before.get(uid)
            if found is None or found.resource_version != intent.resource_version:
                raise RefusedError(f"copy {name} has changed")
        case never:
            assert_never(never)
    there = wrote(there, type(intent).__name__)
    return replace(there, configs=replace(there.configs, copies=_copies(there, intent, str(there.version))))


def _copies(
    there: World, intent: CreateConfigCopy | DeleteConfigCopy | AdoptConfigCopy | ReleaseConfigCopy, version: str
) -> tuple[CopySeen, ...]:
    copies, with_us = there.configs.copies, not there.rollout.spec.config_versioning.retain
    match intent:
        case CreateConfigCopy(owner=owner) if owner is not None:  # a copy of a Secret is seen by nobody
            return copies
        case CreateConfigCopy(use=use) if all(each.name != use.copy for each in copies):
            made = CopySeen(
                kind=use.kind,
                name=use.copy,
                uid=f"uid-{version}",
                resource_version=version,
                source=use.source,
                content=use.content,
                created_at_s=there.now_s,
                owned=False,
            )
            return (*copies, _owned(made, version, owned=with_us))
        case CreateConfigCopy(use=use):
            return tuple([_owned(each, version, owned=with_us) if each.name == use.copy else each for each in copies])
        case DeleteConfigCopy(uid=uid):
            return tuple([each for each in copies if each.uid != uid])
        case AdoptConfigCopy(uid=uid) | ReleaseConfigCopy(uid=uid):
            adopts = isinstance(intent, AdoptConfigCopy)
            return tuple([_owned(each, version, owned=adopts) if each.uid == uid else each for each in copies])


def _owned(copy: CopySeen, version: str, *, owned: bool) -> CopySeen:
    """An owner is added at the end of the list, once, or taken out of it."""
    if copy.owned is owned:
        return copy
    index, owners = (copy.owners, copy.owners + 1) if owned else (-1, copy.owners - 1)
    return replace(copy, owned=owned, owners=owners, owner_index=index, resource_version=version)


def _named(replica_set: ReplicaSet) -> set[tuple[ConfigKind, str]]:
    return {(use.kind, use.copy) for use in replica_set.config or ()}


def _with_replica_sets(
    there: World, intent: CreateReplicaSet | AdoptReplicaSet | PatchReplicaSet | DeleteReplicaSet
) -> World:
    if isinstance(intent, CreateReplicaSet):
        return _created(there, intent)
    found = _replica_set(there, intent)
    there = wrote(there, type(intent).__name__)
    match intent:
        case AdoptReplicaSet(name=name):
            if name not in there.orphaned:
                raise RefusedError(f"{name} has a controller")
            return replace(moved(there, name), orphaned=there.orphaned - {name})
        case PatchReplicaSet():
            after = _patched(found, intent, str(there.version))
            for use in after.config or ():
                if use.kind is ConfigKind.SECRET and use.made:
                    was_made = {name for uid, name in there.configs.secret_copies if uid == found.uid}
                    was_made |= there.configs.secret_copies_taken
                    assert use.copy in was_made, f"{use.copy} was never made"
            if intent.config is not None and not any(use.copy for use in intent.config):
                # It names the sources themselves, so its revision is its template's, whatever the spec is by now.
                meant = {**there.configs.meant, found.revision: noted(found.revision, intent.config)}
                there = replace(there, configs=replace(there.configs, meant=meant))
            return replace(there, replica_sets=tuple(after if each is found else each for each in there.replica_sets))
        case DeleteReplicaSet():
            return deleted(there, found.revision)
        case never:
            assert_never(never)


def _patched(found: ReplicaSet, patch: PatchReplicaSet, version: str) -> ReplicaSet:
    """A field that the patch leaves out stays. What its controller has not seen is a change of its spec, not of annotations."""
    spec = {"spec_replicas": patch.replicas, "min_ready_s": patch.min_ready_s, "pod_metadata": patch.pod_metadata}
    annotations = ("number", "restart_surge", "abort_note", "pods_carry_metadata", "config")
    of_spec = _given(found, spec)
    after = _given(of_spec, {name: getattr(patch, name) for name in annotations})
    return (
        found
        if after == found
        else replace(after, observed=found.observed and of_spec == found, resource_version=version)
    )


def _given(found: ReplicaSet, fields: Mapping[str, Any]) -> ReplicaSet:
    return replace(found, **{name: value for name, value in fields.items() if value is not None})


def _created(there: World, intent: CreateReplicaSet) -> World:
    name = f"{there.rollout.name}-{intent.revision}"
    if any(each.name == name for each in there.replica_sets):
        raise RefusedError(f"{name} exists")
    there = wrote(there, "CreateReplicaSet")
    made = ReplicaSet(
        name=name,
        uid=f"rs-{there.version}",
        resource_version=str(there.version),
        revision=intent.revision,
        number=intent.number,
        created_at_s=there.now_s,
        spec_replicas=intent.replicas,
        observed=False,
        min_ready_s=there.rollout.spec.min_ready_s,
        pod_metadata=intent.pod_metadata,
        injection=intent.injection,
        config=intent.config,
    )
    return replace(there, replica_sets=(*there.replica_sets, made))


def _replica_set(there: World, intent: AdoptReplicaSet | PatchReplicaSet | DeleteReplicaSet) -> ReplicaSet:
    found = next((each for each in there.replica_sets if each.name == intent.name), None)
    if found is None or found.uid != intent.uid or intent.resource_version not in ("", found.resource_version):
        raise RefusedError(f"ReplicaSet {intent.name} is not as it was seen")
    return found


def _with_service(there: World, intent: SwitchService | ReleaseService) -> World:
    found = there.services.get(intent.name)
    if found is None or (found.uid, found.resource_version) != (intent.uid, intent.resource_version):
        raise RefusedError(f"Service {intent.name} is not as it was seen")
    there = wrote(there, type(intent).__name__)
    after = replace(found, revision="", managed_by="", watched=False)
    if isinstance(intent, SwitchService):
        after = replace(found, revision=intent.revision, managed_by=there.rollout.name, watched=True)
    if after != found:
        after = replace(after, resource_version=str(there.version))
    answers = {key: each for key, each in there.answers.items() if key != intent.name}
    return replace(there, services={**there.services, intent.name: after}, answers=answers)


def _with_pods(there: World, intent: PatchPod | EvictPod) -> World:
    over_budget = there.budget is not None and sum(pod.ready for pod in there.pods) <= there.budget
    there = wrote(there, type(intent).__name__)
    match intent:
        case EvictPod(name=name) if over_budget:
            return replace(there, refused=EvictionRefused(there.now_s, name, "would break the budget"))
        case EvictPod(uid=uid):
            return replace(there, pods=tuple(pod for pod in there.pods if pod.uid != uid), pods_seen=None)
        case PatchPod(uid=uid):
            pods = tuple(_relabelled(pod, intent) if pod.uid == uid else pod for pod in there.pods)
            return replace(there, pods=pods, pods_seen=None)
        case never:
            assert_never(never)


def _relabelled(pod: Pod, patch: PatchPod) -> Pod:
    """A merge patch: keys that are removed are null in it, and what is given comes last."""
    labels, annotations = dict(pod.labels), dict(pod.annotations)
    for of_pod, removed, given in (
        (labels, patch.removed.labels, patch.metadata.labels),
        (annotations, patch.removed.annotations, patch.metadata.annotations),
    ):
        for key in removed:
            of_pod.pop(key, None)
        of_pod.update(given)
    return replace(pod, labels=labels, annotations=annotations)


def _from_ping(there: World, split: Split) -> Split:
    """Routes are kept as with `pingService` in the stable role."""
    return Split(1 - split.share) if there.status.pong_is_stable else split


def _with_route(there: World, intent: SetTraffic | MakeRoute | ReleaseRoute) -> World:
    name, found = intent.route, there.routes.get(intent.route)
    there = wrote(there, type(intent).__name__)
    version = str(there.version)
    match intent:
        case MakeRoute(split=split):
            if found is not None:
                raise RefusedError(f"{name} exists")
            split, ours = _from_ping(there, split), there.rollout.name
            after = route(name, uid=f"uid-{version}", resource_version=version, split=split, managed_by=ours)
        case SetTraffic(split=split):
            found = _route_as_seen(found, intent)
            after = replace(found, split=_from_ping(there, split), managed_by=there.rollout.name, rewrite_because="")
        case ReleaseRoute():  # a Snapshot no longer shows it; here it is still there
            after = replace(_route_as_seen(found, intent), split=ALL_TO_STABLE, managed_by="")
        case never:
            assert_never(never)
    return replace(there, routes={**there.routes, name: replace(after, resource_version=version)})


def _route_as_seen(found: RouteSeen | None, intent: SetTraffic | ReleaseRoute) -> RouteSeen:
    if found is None or (found.uid, found.resource_version) != (intent.uid, intent.resource_version):
        raise RefusedError(f"{intent.route} is not as it was seen")
    return found


def _answered(there: World, intent: AskService | AskPods | AskRoute | AskFeatures | AskLive | AskDrained) -> World:
    match intent:
        case AskService(name=name):
            answer = there.services.get(name)
            if answer is not None:
                answer = replace(answer, ready_by_revision={}, read_at_s=there.now_s, slices_seen=False)
            return replace(there, answers={**there.answers, name: (there.now_s, answer)})
        case AskPods():
            return replace(there, pods_seen=PodsSeen(there.now_s, there.pods))
        case AskRoute(route=route_name):
            seen = (there.now_s, there.routes.get(route_name))
            return replace(there, route_answers={**there.route_answers, route_name: seen})
        case AskFeatures(route=route_name):
            return _with_features(there, route_name)
        case AskLive():
            return _with_live(there, intent)
        case AskDrained(revision=revision):
            return replace(there, drains={**there.drains, revision: replace(there.probed, at_s=there.now_s)})
        case never:
            assert_never(never)


def _with_live(there: World, intent: AskLive) -> World:
    """What the data plane of a route was found to do."""
    found = there.routes.get(intent.route)
    if found is None:
        return there
    unheard = found.counted and there.unheard
    live = LiveSeen(
        at_s=there.now_s,
        resource_version=intent.resource_version,
        live=there.planes.get(intent.route) == _from_ping(there, intent.split) and not unheard,
        by=VerifiedBy.COUNTERS if found.counted else VerifiedBy.CONFIG,
        evidence=not unheard,
    )
    return replace(there, routes={**there.routes, intent.route: replace(found, live=live)})


def _with_features(there: World, name: RouteName) -> World:
    """What the class of its gateways supports is known from now on, whether the route is watched or was asked for."""
    found = there.routes.get(name)
    if found is None:
        return there
    routes = {**there.routes, name: replace(found, features=there.supported)}
    answers = {
        each: (at_s, seen if each != name or seen is None else replace(seen, features=there.supported))
        for each, (at_s, seen) in there.route_answers.items()
    }
    return replace(there, routes=routes, route_answers=answers)


def _without_route_answer(there: World, name: RouteName) -> World:
    return replace(there, route_answers={key: each for key, each in there.route_answers.items() if key != name})
