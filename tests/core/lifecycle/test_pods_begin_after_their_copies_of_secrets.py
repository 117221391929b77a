"""Promise: no pod begins before the copies of Secrets that it reads, and a copy belongs to one ReplicaSet alone.

The controller can neither see such copies nor delete them: the note on a ReplicaSet says that they were made. They go with it.
"""

from __future__ import annotations

from rollouts.core.decide import decide
from rollouts.core.model.config import ConfigKind, ConfigUse, ConfigVersioning
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import CreateConfigCopy, CreateReplicaSet, DeleteConfigCopy, Intent, PatchReplicaSet
from rollouts.core.model.rollout import Canary
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.config_worlds import CRED, source_written
from tests.core.model import World, deleted, snapshot, world
from tests.core.updates import condition
from tests.core.worlds import edited, later, one, reconciled, settled, sizes

CANARY = Canary(steps=(SetWeight(50), PauseUntilPromoted()))
OPTED_IN = ConfigVersioning(secrets=True, settle_s=0.0)


def _first() -> World:
    """The Secret is known, and nothing is made yet."""
    there = world(CANARY, config_refs=(CRED,), config_versioning=OPTED_IN)
    return reconciled(source_written(there, "v1", CRED.name))


def _v1() -> World:
    """Rolled out with the first content of `cred`."""
    return replace(later(settled(_first()), 3600.0), writes=(), notices=())


def _intents(there: World) -> tuple[Intent, ...]:
    return decide(snapshot(there)).intents


def _use(there: World, revision: str) -> ConfigUse:
    (use,) = one(there, revision).config or ()
    return use


def test_the_note_comes_after_the_copy_and_pods_after_the_note() -> None:
    """Any prefix is safe: a copy that is noted was made. The ReplicaSet owns it: the cluster deletes it.

    The note is in the write that lets the ReplicaSet grow, where its size was known before its copy.
    """
    there = reconciled(_first())
    (replica_set,) = there.replica_sets
    copy, note = _intents(there)
    copy_first, grows = _intents(replace(there, replica_sets=(replace(replica_set, observed=True),)))

    assert isinstance(copy, CreateConfigCopy)
    assert copy.owner is not None
    assert (copy.use.kind, copy.owner.uid) == (ConfigKind.SECRET, replica_set.uid)
    assert isinstance(note, PatchReplicaSet)
    assert [use.made for use in note.config or ()] == [True]
    assert isinstance(copy_first, CreateConfigCopy)
    assert isinstance(grows, PatchReplicaSet)
    assert (grows.replicas, [use.made for use in grows.config or ()]) == (4, [True])
    writes = [each for each in settled(there).writes if each != "Status"]
    assert writes[:4] == ["CreateReplicaSet", "CreateConfigCopy", "PatchReplicaSet", "PatchReplicaSet"]


def test_each_replica_set_has_copies_of_its_own() -> None:
    """Another template with the same content makes another copy, since the first one goes with the first ReplicaSet."""
    before = _v1()
    there = settled(edited(before, revision="b"))
    uses = [_use(there, each.revision) for each in there.replica_sets]

    assert len({use.content for use in uses}) == 1
    assert len({use.copy for use in uses}) == len(uses) == 2


def test_a_replica_set_that_is_made_again_gets_another_copy() -> None:
    """The copy of the one that was deleted may be there still, and is about to go."""
    there = _v1()
    before = _use(there, there.status.current_revision)
    gone = later(deleted(there, there.status.current_revision), 1.0)
    (made,) = _intents(gone) or _intents(reconciled(gone))

    assert isinstance(made, CreateReplicaSet)
    (use,) = made.config
    assert (use.content, use.copy == before.copy) == (before.content, False)


def test_copies_are_made_once_and_never_deleted_by_us() -> None:
    """Without the right to see them, a note is all there is."""
    there = settled(later(settled(source_written(_v1(), "v2", CRED.name)), 7200.0))

    assert there.writes.count("CreateConfigCopy") == 1
    assert not [each for each in _intents(there) if isinstance(each, CreateConfigCopy | DeleteConfigCopy)]
    assert [_use(there, each.revision).made for each in there.replica_sets] == [True, True]


def test_a_stable_revision_that_lost_its_secret_keeps_no_other_from_serving() -> None:
    """Its ReplicaSet is deleted, and the Secret rotated before the next one has its copy: it can have no pods, and says why.

    A person puts the old credentials back: the spec means that revision again.
    """
    there = reconciled(deleted(_v1(), _v1().status.current_revision))
    there = settled(source_written(there, "v2", CRED.name))
    stable, current = there.status.stable_revision, there.status.current_revision
    told = condition(there, "ConfigCopyMissing").message

    assert (stable != current, there.status.phase) == (True, Phase.PAUSED)
    assert sizes(there) == {current: there.rollout.spec.replicas}
    assert f"Secret cred has changed before the ReplicaSet of revision {stable} had a copy" in told
    assert told.endswith("give it that content again")

    back = settled(source_written(there, "v1", CRED.name))
    assert {back.status.stable_revision, back.status.current_revision} == {stable}
    assert (back.status.phase, sizes(back)) == (Phase.HEALTHY, {stable: back.rollout.spec.replicas})
    assert "ConfigCopyMissing" not in {each.type for each in back.status.conditions}
