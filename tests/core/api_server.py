"""The API server of the model world: it carries out one call of ours, or refuses it.

What a write does to its object is told by `rollouts/core/model/after.py`. An API server's own are refusals and versions; a test's
are the ReplicaSets that nobody controls, pods that go at once when they are evicted, and the answers to questions.
"""

from __future__ import annotations

from typing import assert_never

from rollouts.core.model.after import (
    copies_after,
    pod_after,
    replica_set_after,
    replica_set_made,
    route_after,
    runs_after,
    service_after,
)
from rollouts.core.model.config import ConfigKind, CopyLook
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import (
    AdoptConfigCopy,
    AdoptReplicaSet,
    AskAutoscaling,
    AskConfig,
    AskDrained,
    AskFeatures,
    AskLive,
    AskPods,
    AskRoute,
    AskSecretCopy,
    AskService,
    CreateAnalysisRun,
    CreateConfigCopy,
    CreateReplicaSet,
    DeleteAnalysisRun,
    DeleteConfigCopy,
    DeleteReplicaSet,
    EvictPod,
    Intent,
    MakeRoute,
    PatchPod,
    PatchReplicaSet,
    ReleaseConfigCopy,
    ReleaseRoute,
    ReleaseService,
    RemoveAnnotation,
    SetTraffic,
    SwitchService,
    TerminateAnalysisRun,
)
from rollouts.core.model.snapshot import EvictionRefused, PodsSeen, ReplicaSet
from rollouts.core.model.traffic import ALL_TO_STABLE, LiveSeen, RouteName, RouteSeen, Split, VerifiedBy
from tests.core.config_worlds import copy_read
from tests.core.model import World, annotated, deleted, moved, route, with_load_read, wrote
from tests.core.sources import Configs, asked, noted


class RefusedError(Exception):
    """The API server refuses a write: conflict, gone, or exists already."""


def applied(there: World, intent: Intent) -> World:
    """The world after one call. Raises: RefusedError, as the API server would refuse it."""
    match intent:
        case CreateReplicaSet() | AdoptReplicaSet() | PatchReplicaSet() | DeleteReplicaSet():
            return _with_replica_sets(there, intent)
        case SwitchService() | ReleaseService():
            return _with_service(there, intent)
        case PatchPod() | EvictPod():
            return _with_pods(there, intent)
        case RemoveAnnotation(verb=verb, value=value):
            if there.rollout.annotations.get(verb) != value:
                raise RefusedError(f"annotation {verb} is not {value}")
            return annotated(wrote(there, "RemoveAnnotation"), verb, None)
        case SetTraffic() | MakeRoute() | ReleaseRoute():
            return _without_route_answer(_with_route(there, intent), intent.route)
        case CreateAnalysisRun() | TerminateAnalysisRun() | DeleteAnalysisRun():
            return _with_runs(there, intent)
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


def _with_configuration_read(there: World, intent: AskConfig | AskSecretCopy) -> Configs:
    match intent:
        case AskConfig(ref=ref) if any(each.name == ref.name for each in there.configs.copies):
            return there.configs if there.configs.trouble else copy_read(there.configs, ref)
        case AskConfig(ref=ref):
            return asked(there.configs, ref)
        case AskSecretCopy(name):
            found = any(name == copy for _, copy in there.configs.secret_copies)
            return replace(there.configs, copy_looks={**there.configs.copy_looks, name: CopyLook(there.now_s, found)})


def _with_runs(there: World, intent: CreateAnalysisRun | TerminateAnalysisRun | DeleteAnalysisRun) -> World:
    """A run is made once; a run that is gone, or has changed since, is neither ended nor deleted."""
    if not isinstance(intent, CreateAnalysisRun):
        found = next((each for each in there.runs if each.uid == intent.uid), None)
        if found is None:
            raise RefusedError(f"no AnalysisRun {intent.name}")
        if isinstance(intent, DeleteAnalysisRun) and found.resource_version != intent.resource_version:
            raise RefusedError(f"AnalysisRun {intent.name} has changed")
    there = wrote(there, type(intent).__name__)
    version = str(there.version)
    before = {each.uid: each for each in there.runs}
    runs = []
    for each in runs_after(there.runs, intent, now_s=there.now_s):
        if each.uid not in before:  # the model names it by its name; a second run of that name has another uid
            runs.append(replace(each, uid=f"uid-{version}", resource_version=version))
        else:
            runs.append(each if each == before[each.uid] else replace(each, resource_version=version))
    return replace(there, runs=tuple(runs))


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
        case DeleteConfigCopy(kind=kind, name=name, uid=uid, resource_version=version):
            found = before.get(uid)
            if found is None or found.resource_version != version:
                raise RefusedError(f"copy {name} has changed")
            users = [each.name for each in there.replica_sets if (kind, name) in _named(each)]
            assert not users, f"S14: copy {name} is deleted, and {users} name it"
        case AdoptConfigCopy(name=name, uid=uid) | ReleaseConfigCopy(name=name, uid=uid):
            found = before.get(uid)
            if found is None or found.resource_version != intent.resource_version:
                raise RefusedError(f"copy {name} has changed")
        case never:
            assert_never(never)
    there = wrote(there, type(intent).__name__)
    version = str(there.version)
    copies = []
    for each in copies_after(there.configs.copies, intent, by=there.rollout, now_s=there.now_s):
        made = each if each.uid in before else replace(each, uid=f"uid-{version}")
        copies.append(made if made == before.get(made.uid) else replace(made, resource_version=version))
    return replace(there, configs=replace(there.configs, copies=tuple(copies)))


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
            after = replace(replica_set_after(found, intent), resource_version=str(there.version))
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


def _created(there: World, intent: CreateReplicaSet) -> World:
    made = replica_set_made(intent, by=there.rollout, now_s=there.now_s)
    if any(each.name == made.name for each in there.replica_sets):
        raise RefusedError(f"{made.name} exists")
    there = wrote(there, "CreateReplicaSet")
    made = replace(made, uid=f"rs-{there.version}", resource_version=str(there.version))
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
    after = replace(service_after(found, intent, by=there.rollout), resource_version=str(there.version))
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
            pods = tuple(pod_after(pod, intent) if pod.uid == uid else pod for pod in there.pods)
            return replace(there, pods=pods, pods_seen=None)
        case never:
            assert_never(never)


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
            after = route_after(found, replace(intent, split=_from_ping(there, split)), by=there.rollout)
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
