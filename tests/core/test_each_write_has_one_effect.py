"""Promise: the model of our writes tells what an API server stores: the object that was named, in a new version, and no other."""

from __future__ import annotations

from fractions import Fraction

import pytest

from rollouts.core.model.after import after
from rollouts.core.model.autoscaling import AutoscalingGate
from rollouts.core.model.config import ConfigKind, ConfigUse
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import (
    AskAutoscaling,
    AskConfig,
    AskPods,
    CreateConfigCopy,
    DeleteConfigCopy,
    DeleteReplicaSet,
    EvictPod,
    Intent,
    MakeRoute,
    PatchPod,
    PatchReplicaSet,
    ReleaseRoute,
    ReleaseService,
    RemoveAnnotation,
    SetTraffic,
    SwitchService,
)
from rollouts.core.model.rollout import Canary, PodMetadata
from rollouts.core.model.service_ref import ServiceRef
from rollouts.core.model.snapshot import PodsSeen, ServiceSeen, Snapshot
from rollouts.core.model.status import Verb
from rollouts.core.model.traffic import RouteName, RouteSeen, Split
from tests.core.api_server import applied
from tests.core.config_worlds import REFS, source_written
from tests.core.model import World, annotated, snapshot, world
from tests.core.updates import TIMED, routed
from tests.core.worlds import running, settled

CANARY = routed(by=(TIMED,))
HALF = Split(Fraction(1, 2))


def _there() -> World:
    there = annotated(running(CANARY), "promote", "true")
    return replace(there, pods_seen=PodsSeen(there.now_s, there.pods))


def _intents(seen: Snapshot) -> dict[str, Intent]:
    found, service, route = seen.replica_sets[0], seen.services["cart"], seen.routes[TIMED]
    assert isinstance(service, ServiceSeen)
    assert isinstance(route, RouteSeen)
    assert seen.pods is not None
    pod = seen.pods.pods[0]
    patch = PatchReplicaSet(name=found.name, uid=found.uid, revision="a", resource_version=found.resource_version)
    of_service = {"name": "cart", "uid": service.uid, "resource_version": service.resource_version}
    return {
        "grow": replace(patch, replicas=7),
        "name": replace(patch, pod_metadata=PodMetadata(labels={"role": "stable"})),
        "delete": DeleteReplicaSet(name=found.name, uid=found.uid, resource_version=found.resource_version),
        "point": SwitchService(**of_service, revision="b"),
        "release": ReleaseService(**of_service),
        "split": SetTraffic(route=TIMED, uid=route.uid, resource_version=route.resource_version, split=HALF),
        "give back": ReleaseRoute(route=TIMED, uid=route.uid, resource_version=route.resource_version),
        "relabel": PatchPod(name=pod.name, uid=pod.uid, metadata=PodMetadata(labels={"role": "stable"})),
        "evict": EvictPod(name=pod.name, uid=pod.uid),
        "spend": RemoveAnnotation(verb=Verb.PROMOTE, value="true"),
    }


@pytest.mark.parametrize("name", ["grow", "name", "delete", "point", "split", "spend"])
def test_a_pass_that_follows_sees_what_the_model_says(name: str) -> None:
    """In the random worlds, which hold versions and pods of their own, the same object has changed in the same way."""
    there = _there()
    intent = _intents(snapshot(there))[name]

    told, seen = after(snapshot(there), intent), snapshot(applied(there, intent))

    assert _without_versions(told) == _without_versions(seen)


def _without_versions(seen: Snapshot) -> Snapshot:
    return replace(
        seen,
        rollout=replace(seen.rollout, resource_version=""),
        replica_sets=tuple(replace(each, resource_version="") for each in seen.replica_sets),
        services={name: replace(each, resource_version="") for name, each in _services(seen).items()},
        routes={name: replace(each, resource_version="") for name, each in _routes(seen).items()},
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


def test_a_question_changes_nothing() -> None:
    """Its answer comes with a later pass."""
    before = snapshot(_there())

    assert after(before, AskPods()) == before
    assert after(before, AskAutoscaling(AutoscalingGate(settled=True))) == before


def test_a_pod_that_is_evicted_is_on_its_way_out() -> None:
    """It is there still, and does not count for those that stay."""
    before = snapshot(_there())

    told = after(before, _intents(before)["evict"])

    assert told.pods is not None
    assert [each.deleting for each in told.pods.pods] == [True, False, False, False]


def test_a_route_that_is_made_is_ours_and_nobody_has_taken_it_yet() -> None:
    """What its gateways can do is still to be asked."""
    before = replace(snapshot(_there()), routes={})

    made = after(before, MakeRoute(TIMED, HALF)).routes[TIMED]

    assert isinstance(made, RouteSeen)
    assert (made.split, made.managed_by, made.features, made.live) == (HALF, "cart", None, None)


def _configured() -> Snapshot:
    return snapshot(settled(source_written(world(Canary(), config_refs=REFS), "v1")))


def test_a_copy_that_is_made_is_there_once_and_ours() -> None:
    """Made again, one without an owner gets one, and nothing else changes."""
    before = _configured()
    use = ConfigUse(kind=ConfigKind.CONFIG_MAP, source="conf", content="v2", copy="conf-2")
    made = after(before, CreateConfigCopy(use))
    lost = replace(made, copies=tuple(replace(each, owned=False, owners=0, owner_index=-1) for each in made.copies))

    assert [(each.name, each.content, each.owned) for each in made.copies if each not in before.copies] == [
        ("conf-2", "v2", True)
    ]
    assert after(made, CreateConfigCopy(use)) == made
    assert after(lost, CreateConfigCopy(use)).copies == (lost.copies[0], made.copies[1])


def test_a_copy_that_is_deleted_is_gone_and_no_other() -> None:
    """By its uid; what was not seen stays unseen."""
    before = _configured()
    copy = before.copies[0]
    delete = DeleteConfigCopy(kind=copy.kind, name=copy.name, uid=copy.uid, resource_version=copy.resource_version)
    more = replace(before, copies=(copy, replace(copy, name="other", uid="another")))

    assert [each.name for each in after(more, delete).copies] == ["other"]
    assert after(replace(before, copies=()), delete) == replace(before, copies=())


def test_a_note_of_configuration_is_on_the_replica_set_and_a_read_changes_nothing() -> None:
    """The answer of a read comes with a later pass."""
    before = _configured()
    found = before.replica_sets[0]
    note = PatchReplicaSet(name=found.name, uid=found.uid, revision=found.revision, config=())

    assert after(before, note).replica_sets[0].config == ()
    assert after(before, AskConfig(REFS[0])) == before
