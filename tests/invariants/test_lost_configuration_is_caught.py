"""Promise: the rules about copies of configuration have teeth: a write with one planted mistake is found, by the right rule."""

from __future__ import annotations

import pytest

from rollouts.core.decide import decide
from rollouts.core.model.config import SourceAbsent, SourceKnown, SourceUnread
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import CreateConfigCopy, CreateReplicaSet, DeleteConfigCopy, Intent, PatchReplicaSet
from rollouts.core.model.rollout import Canary
from rollouts.core.model.snapshot import OrphanedReplicaSet, Pod, PodsSeen, Snapshot
from tests.core.config_worlds import CONF, REFS, source_written
from tests.core.model import snapshot, world
from tests.core.worlds import later, reconciled, settled
from tests.invariants.configs import FORGED, copies_are_safe
from tests.invariants.ownership import only_ours_and_as_seen

KEY = (CONF.kind, CONF.name)
ORPHAN = OrphanedReplicaSet(name="cart-z", uid="uid-z", resource_version="7", revision="z")


def _before() -> tuple[Snapshot, CreateConfigCopy, CreateReplicaSet]:
    """What a pass sees that makes the second copy and its ReplicaSet, and these two writes."""
    there = settled(source_written(world(Canary(), config_refs=REFS), "v1"))
    there = later(reconciled(source_written(there, "v2")), 60.0)
    made: list[Intent] = [*decide(snapshot(there)).intents]
    copy = next(each for each in made if isinstance(each, CreateConfigCopy))
    replica_set = next(each for each in made if isinstance(each, CreateReplicaSet))
    return replace(snapshot(there), pods=PodsSeen(there.now_s, there.pods)), copy, replica_set


def _rules(before: Snapshot, intent: Intent) -> set[str]:
    return {each.rule for each in copies_are_safe(before, intent)}


def _with_source(seen: Snapshot, source: SourceKnown | SourceAbsent | SourceUnread) -> Snapshot:
    return replace(seen, sources={**seen.sources, KEY: source})


def _delete(seen: Snapshot) -> DeleteConfigCopy:
    found = seen.copies[0]
    return DeleteConfigCopy(name=found.name, uid=found.uid, resource_version=found.resource_version)


def _unnamed(seen: Snapshot) -> Snapshot:
    """Nothing names the copy any more."""
    return replace(seen, replica_sets=(), pods=PodsSeen(seen.now_s, ()))


def test_s12_a_second_copy_of_a_name() -> None:
    """There is one already."""
    seen, copy, _ = _before()
    there = replace(seen.copies[0], name=copy.use.copy, source=copy.use.source, content=copy.use.content)

    assert _rules(seen, copy) == set()
    assert _rules(replace(seen, copies=(there,)), copy) == {"S12"}
    assert _rules(replace(seen, copies=(replace(there, owned=False),)), copy) == set()


def test_s14_a_copy_of_something_else_than_its_source() -> None:
    """Its name says one content, and pods would read another."""
    seen, copy, _ = _before()
    there = replace(seen.copies[0], name=copy.use.copy, owned=False)

    assert _rules(seen, replace(copy, use=replace(copy.use, content="v3"))) == {"S14"}
    assert _rules(_with_source(seen, SourceAbsent()), copy) == {"S14"}
    assert _rules(replace(seen, copies=(there,)), copy) == {"S14"}


def test_s14_a_replica_set_without_its_copies() -> None:
    """Its pods would not start."""
    seen, _, made = _before()
    use = next(each for each in made.config if each.copy)
    there = (*seen.copies, replace(seen.copies[0], name=use.copy, uid="new", source=use.source, content=use.content))

    assert _rules(seen, made) == {"S14"}
    assert _rules(replace(seen, copies=there), made) == set()
    assert _rules(replace(seen, copies=tuple(replace(each, deleting=True) for each in there)), made) == {"S14"}


@pytest.mark.parametrize("mistake", ["nothing", "another content", "by its name", "unknown", "missing"])
def test_s14_a_replica_set_with_another_configuration_than_the_sources(mistake: str) -> None:
    """A read that failed is no content, and a source that pods need is not absent."""
    seen, _, made = _before()
    use = next(each for each in made.config if each.copy)
    others = tuple(each for each in made.config if each is not use)
    there = replace(seen.copies[0], name=use.copy, uid="new", source=use.source, content=use.content)
    seen = replace(seen, copies=(*seen.copies, there))

    before = {"unknown": _with_source(seen, SourceUnread("error")), "missing": _with_source(seen, SourceAbsent())}
    config = {
        "nothing": (),
        "another content": (*others, replace(use, content="v1")),
        "by its name": (*others, replace(use, copy="")),
    }

    assert _rules(seen, made) == set()
    assert _rules(before.get(mistake, seen), replace(made, config=config.get(mistake, made.config))) == {"S14"}


def test_s14_a_copy_goes_that_a_replica_set_names() -> None:
    """Its next pod would not start."""
    seen, _, _ = _before()

    assert _rules(seen, _delete(seen)) == {"S14"}
    assert _rules(_unnamed(seen), _delete(seen)) == set()


@pytest.mark.parametrize(
    "mistake", ["pods not listed", "a pod alone", "an orphan", "a note", "the target", "not known"]
)
def test_s14_a_copy_goes_that_somebody_may_read(mistake: str) -> None:
    """What is not known to be unused is used."""
    seen, _, _ = _before()
    free = _unnamed(seen)
    stray = Pod(name="cart-x-1", uid="x", revision="x", created_at_s=0.0, ready=True)
    wanted = SourceKnown(
        content=seen.copies[0].content, immutable=False, uid="u", resource_version="9", changed_at_s=seen.now_s
    )
    worlds = {
        "pods not listed": replace(free, pods=None),
        "a pod alone": replace(free, pods=PodsSeen(seen.now_s, (stray,))),
        "an orphan": replace(free, orphans=(ORPHAN,)),
        "a note": replace(free, replica_sets=(replace(seen.replica_sets[0], config=None),)),
        "the target": _with_source(free, wanted),
        "not known": _with_source(free, SourceUnread("error")),
    }

    assert _rules(worlds[mistake], _delete(seen)) == {"S14"}


def test_s13_a_copy_goes_that_is_not_ours_or_not_as_seen() -> None:
    """Somebody has changed it, or made it."""
    seen, _, _ = _before()
    delete = _delete(seen)
    strange = replace(seen, copies=(replace(seen.copies[0], problem="not ours"),))

    assert only_ours_and_as_seen(seen, delete) == []
    assert only_ours_and_as_seen(seen, replace(delete, resource_version="6")) != []
    assert only_ours_and_as_seen(seen, replace(delete, uid="another")) != []
    assert only_ours_and_as_seen(strange, delete) != []


def test_s14_pods_that_begin_with_a_forged_copy() -> None:
    """Whatever the copy's annotations say, and whether anybody has read it or not."""
    seen, _, create = _before()
    uses = tuple(use for use in create.config if use.has_copy)
    honest = tuple(
        replace(seen.copies[0], name=use.copy, source=use.source, content=use.content, uid=f"uid-of-{use.copy}")
        for use in uses
    )
    forged = tuple(replace(each, uid=f"{FORGED}-1") for each in honest)
    (first, *_) = seen.replica_sets
    empty = replace(first, uid="empty", spec_replicas=0, config=uses)
    grows = PatchReplicaSet(name=empty.name, uid=empty.uid, revision=empty.revision, replicas=1)

    for copies, found in ((honest, False), (forged, True)):
        before = replace(seen, copies=copies, replica_sets=(*seen.replica_sets, empty))
        assert ("S14" in _rules(before, create)) is found
        assert ("S14" in _rules(before, grows)) is found
    before = replace(seen, copies=forged, replica_sets=(*seen.replica_sets, replace(empty, spec_replicas=1)))
    assert _rules(before, replace(grows, replicas=2)) == set(), "its pods read the copy already"
