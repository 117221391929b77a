"""Promise: the model of our writes tells what an API server stores: the object that was named, in a new version, and no other."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from rollouts.core.decide import decide
from rollouts.core.model.after import after
from rollouts.core.model.analysis import AnalysisGate, AnalysisKind, RunDraft
from rollouts.core.model.autoscaling import AutoscalingGate
from rollouts.core.model.config import ConfigKind, ConfigUse
from rollouts.core.model.frozen import replace
from rollouts.core.model.in_place_intents import CreateInDeployment, MoveReplicaSet, StepDeployment, StepStatefulSet
from rollouts.core.model.intents import (
    AdoptConfigCopy,
    Ask,
    AskAutoscaling,
    AskConfig,
    AskPods,
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
from rollouts.core.model.rollout import Canary, PodMetadata
from rollouts.core.model.service_ref import ServiceRef
from rollouts.core.model.snapshot import PodsSeen, ServiceSeen, Snapshot
from rollouts.core.model.status import AbortNote, Verb
from rollouts.core.model.steps import SetWeight
from rollouts.core.model.traffic import RouteName, RouteSeen, Split
from rollouts.core.model.workload import WorkloadSeen
from tests.core.api_server import applied
from tests.core.config_worlds import REFS, retained, source_written
from tests.core.deployments import deployed, template_changed
from tests.core.model import T0, World, annotated, route, service, snapshot, world
from tests.core.stateful_sets import new_template, stateful
from tests.core.updates import TIMED, routed
from tests.core.worlds import edited, running, settled, steps_of

ROUTE, CANARY = TIMED, routed(by=(TIMED,))
ROUTED, HALFWAY = routed(SetWeight(50), by=(TIMED,)), Canary(steps=(SetWeight(50),))
HALF = Split(Fraction(1, 2))
GATE = AnalysisGate(AnalysisKind.STEP, 1)
USE = ConfigUse(kind=ConfigKind.CONFIG_MAP, source="conf", content="v1", copy="conf-2")


@cache
def _there() -> World:
    """A Rollout at rest, with a run, a copy of its source, and a list of its pods, one of which has labels and annotations."""
    there = settled(source_written(world(CANARY, config_refs=REFS, min_ready_s=3), "v1"))
    first, *others = there.pods
    first = replace(first, labels={"role": "stable", "tier": "1"}, annotations={"owner": "me", "note": "x"})
    there = replace(there, pods=(first, *others), pods_seen=PodsSeen(there.now_s, (first, *others)))
    return applied(
        annotated(there, "promote", "true"),
        CreateAnalysisRun(name="run", gate=GATE, revision="a", attempt=1, draft=RunDraft(b"{}", "a", "a")),
    )


def _intents(seen: Snapshot) -> dict[str, Intent]:
    found, service, route = seen.replica_sets[0], seen.services["cart"], seen.routes[ROUTE]
    assert isinstance(service, ServiceSeen)
    assert isinstance(route, RouteSeen)
    assert seen.pods is not None
    of_pod = {"name": seen.pods.pods[0].name, "uid": seen.pods.pods[0].uid}
    patch = PatchReplicaSet(name=found.name, uid=found.uid, revision="a", resource_version=found.resource_version)
    of_service = {"name": "cart", "uid": service.uid, "resource_version": service.resource_version}
    run, copy, draft = seen.runs[0], seen.copies[0], RunDraft(b"[]", "b", "a")
    of_copy: dict[str, Any] = {"name": copy.name, "uid": copy.uid, "resource_version": copy.resource_version}
    metadata = PodMetadata(labels={"role": "canary"}, annotations={"note": "y"})
    return {
        "create": CreateReplicaSet(revision="b", number=7, replicas=3, pod_metadata=metadata, config=(USE,)),
        "grow": replace(patch, replicas=7),
        "name": replace(patch, pod_metadata=PodMetadata(labels={"role": "stable"})),
        "wait": replace(patch, min_ready_s=9),
        "number": replace(patch, number=9),
        "note": replace(patch, config=()),
        "carry": replace(patch, pods_carry_metadata=False),
        "add": replace(patch, replicas=6, restart_surge=2),
        "abort": replace(patch, abort_note=AbortNote("b", 1, T0, T0)),
        "delete": DeleteReplicaSet(name=found.name, uid=found.uid, resource_version=found.resource_version),
        "point": SwitchService(**of_service, revision="b"),
        "release": ReleaseService(**of_service),
        "split": SetTraffic(route=ROUTE, uid=route.uid, resource_version=route.resource_version, split=HALF),
        "give back": ReleaseRoute(route=ROUTE, uid=route.uid, resource_version=route.resource_version),
        "relabel": PatchPod(**of_pod, metadata=metadata, removed=PodMetadata({"tier": ""}, {"owner": ""})),
        "evict": EvictPod(**of_pod),
        "spend": RemoveAnnotation(verb=Verb.PROMOTE, value="true"),
        "measure": CreateAnalysisRun(name="more", gate=GATE, revision="b", attempt=2, draft=draft),
        "measure again": CreateAnalysisRun(name="run", gate=GATE, revision="b", attempt=2, draft=draft),
        "end": TerminateAnalysisRun(name=run.name, uid=run.uid),
        "forget": DeleteAnalysisRun(name=run.name, uid=run.uid, resource_version=run.resource_version),
        "copy": CreateConfigCopy(USE),
        "copy again": CreateConfigCopy(replace(USE, copy=copy.name)),
        "adopt": AdoptConfigCopy(**of_copy),
        "disown": ReleaseConfigCopy(**of_copy, owner_index=0),
        "drop": DeleteConfigCopy(**of_copy),
    }


@pytest.mark.parametrize(
    "names",
    [
        *("create", "grow", "name", "wait", "number", "note", "carry", "add", "abort", "delete"),
        *("point", "split", "spend", "measure", "measure again", "end", "forget"),
        *("copy", "copy again", "disown", "disown, adopt", "disown, copy again", "retain, copy", "note, drop"),
    ],
)
def test_a_pass_that_follows_sees_what_the_model_says(names: str) -> None:
    """The API server of the random worlds, which knows nothing of the model, has stored the same.

    It has uids, versions and generations of its own. A pod that is evicted goes at once there, and lists of pods are forgotten.
    """
    there = _there()
    if names.startswith("retain"):
        there = retained(there, retain=True)
    told = snapshot(there)

    for name in names.removeprefix("retain, ").split(", "):
        told = after(told, _intents(told)[name])
        there = applied(there, _intents(snapshot(there))[name])

    assert _compared(told) == _compared(snapshot(there))


@pytest.mark.parametrize(
    ("begun", "kinds"),
    [
        (lambda: template_changed(settled(deployed(HALFWAY)), "b"), {StepDeployment, CreateInDeployment}),
        (lambda: template_changed(settled(deployed(ROUTED)), "b"), {MoveReplicaSet, CreateInDeployment, SwitchService}),
        (lambda: new_template(settled(stateful(HALFWAY)), "b"), {StepStatefulSet}),
        (lambda: edited(running(ROUTED), revision="b"), {PatchReplicaSet, SetTraffic, SwitchService}),
    ],
    ids=["a Deployment", "beside a Deployment", "a StatefulSet", "ReplicaSets"],
)
def test_each_write_of_an_update_is_told(begun: Callable[[], World], kinds: set[type[Intent]]) -> None:
    """In the order of its pass, each after the one before; the carriers decide on what it tells."""
    written = set[type[Intent]]()
    for each in steps_of(begun()):
        there, told = each, snapshot(each)
        for intent in decide(told).intents:
            if not isinstance(intent, Ask):
                there, told = applied(there, intent), after(told, intent)
                written.add(type(intent))
                assert _compared(told) == _compared(snapshot(there)), intent
    assert written >= kinds


def _compared(seen: Snapshot) -> Snapshot:
    given: dict[str, Any] = {"uid": "", "resource_version": ""}
    workload = seen.workload
    return replace(
        seen,
        rollout=replace(seen.rollout, resource_version=""),
        replica_sets=tuple(replace(each, **given, terminating=each.terminating or 0) for each in seen.replica_sets),
        services={name: replace(each, **given) for name, each in _services(seen).items()},
        routes={name: replace(each, **given) for name, each in _routes(seen).items()},
        runs=tuple(replace(each, **given, generation=1) for each in seen.runs),
        copies=tuple(replace(each, **given) for each in seen.copies),
        pods=None,
        workload=replace(workload, resource_version="") if isinstance(workload, WorkloadSeen) else workload,
    )


def _services(seen: Snapshot) -> dict[ServiceRef, ServiceSeen]:
    return {name: each for name, each in seen.services.items() if isinstance(each, ServiceSeen)}


def _routes(seen: Snapshot) -> dict[RouteName, RouteSeen]:
    return {name: each for name, each in seen.routes.items() if isinstance(each, RouteSeen)}


def _versions(seen: Snapshot) -> list[str]:
    sets = [each.resource_version for each in seen.replica_sets]
    services = [each.resource_version for each in _services(seen).values()]
    routes = [each.resource_version for each in _routes(seen).values()]
    return [*sets, *services, *routes, seen.rollout.resource_version]


@pytest.mark.parametrize("name", ["grow", "name", "point", "release", "split", "spend"])
def test_a_write_moves_the_version_of_one_object_and_only_once(name: str) -> None:
    """Another write of the same pass that is bound to the version before is a conflict; one that changes nothing is no write."""
    before = snapshot(_there())
    intent = _intents(before)[name]

    once = after(before, intent)
    moved = [was != now for was, now in zip(_versions(before), _versions(once), strict=True)]

    assert moved.count(True) == 1
    assert after(once, intent) == once


@pytest.mark.parametrize("name", ["point", "release", "split", "relabel", "evict", "grow", "delete", "give back"])
def test_what_was_not_seen_stays_unseen(name: str) -> None:
    """Nothing is known of it, so nothing is known of it after the write."""
    before = snapshot(_there())
    intent = _intents(before)[name]
    unseen = replace(before, replica_sets=(), services={}, routes={}, pods=None)

    assert after(unseen, intent) == unseen


@pytest.mark.parametrize(
    "question", [AskPods(), AskAutoscaling(AutoscalingGate(settled=True)), AskConfig(REFS[0])], ids=repr
)
def test_a_question_changes_nothing(question: Intent) -> None:
    """Its answer comes with a later pass."""
    before = snapshot(_there())

    assert after(before, question) == before


def test_a_pod_that_is_evicted_is_on_its_way_out() -> None:
    """It is there still, and does not count for those that stay."""
    before = snapshot(_there())

    told = after(before, _intents(before)["evict"])

    assert told.pods is not None
    assert [each.deleting for each in told.pods.pods] == [True, False, False, False]


def test_a_route_that_is_made_is_ours_and_nobody_has_taken_it_yet() -> None:
    """What its gateways can do is still to be asked."""
    before = replace(snapshot(_there()), routes={})

    made = after(before, MakeRoute(ROUTE, HALF)).routes[ROUTE]

    assert isinstance(made, RouteSeen)
    assert (made.split, made.managed_by, made.features, made.live) == (HALF, "cart", None, None)


def test_what_a_user_has_made_becomes_ours() -> None:
    """A Service is watched from then on, and a route is as its manifest wants it."""
    there = replace(
        _there(),
        services={"cart": service("cart")},
        routes={ROUTE: route(ROUTE, rewrite_because="its manifest has changed")},
    )
    before = replace(snapshot(there), services=there.services, routes=there.routes)
    point, split = _intents(before)["point"], _intents(before)["split"]

    stored = applied(applied(there, point), split)
    told = after(after(before, point), split)

    assert _compared(told) == _compared(replace(told, services=stored.services, routes=stored.routes))
    assert stored.services["cart"].watched


def test_a_service_that_is_released_has_nothing_of_ours() -> None:
    """No pass sees it then, unless it asks."""
    before = snapshot(_there())
    release = _intents(before)["release"]

    stored = applied(_there(), release).services["cart"]

    told = _services(after(before, release))["cart"]
    assert replace(told, resource_version="") == replace(stored, resource_version="")


def test_a_pod_has_what_the_model_says() -> None:
    """Removed keys are gone, given ones are there, and others stay."""
    before = snapshot(_there())
    relabel = _intents(before)["relabel"]

    told = after(before, relabel).pods

    assert told is not None
    assert told.pods == applied(_there(), relabel).pods
    assert (told.pods[0].labels, told.pods[0].annotations) == ({"role": "canary"}, {"note": "y"})
