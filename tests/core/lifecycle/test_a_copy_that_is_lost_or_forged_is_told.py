"""Promise: a copy that somebody deletes is made again while its source has the content; else, and if it is forged, it is told.

Copies of ConfigMaps are watched; whether one of a Secret is there is asked for while pods may wait for it. No ReplicaSet gets its
first pods while a copy that it names is gone, is another one, or was compared with nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rollouts.core.decide import decide
from rollouts.core.forecast import rehearse
from rollouts.core.lifecycle.lost_copies import LOOK_AGAIN_S, REFUSED_AGAIN_S
from rollouts.core.model.config import ConfigKind, ConfigRef, ConfigVersioning, CopyLook, SourceLeftAlone, SourceUnread
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AskConfig, AskSecretCopy, CreateConfigCopy, CreateReplicaSet, Intent, Notice
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.config_worlds import (
    CONF,
    CRED,
    REFS,
    copy_deleted,
    copy_forged,
    secret_copy_deleted,
    source_removed,
    source_written,
    with_configs,
)
from tests.core.model import World, annotated, deleted, snapshot, world
from tests.core.updates import condition, said, waiting, waits_for
from tests.core.worlds import edited, later, one, reconciled, running, settled, sizes

CANARY = Canary(steps=(SetWeight(50), PauseUntilPromoted()))
KEY = (CONF.kind, CONF.name)


def _v1(ref: ConfigRef = CONF) -> World:
    """Rolled out with the first content of `conf`, or of the Secret."""
    versioning = ConfigVersioning(secrets=ref is CRED, settle_s=0.0)
    refs = (CRED,) if ref is CRED else REFS
    there = settled(source_written(world(CANARY, config_refs=refs, config_versioning=versioning), "v1", ref.name))
    return replace(later(there, 3600.0), writes=(), notices=())


def _v2() -> World:
    """A canary with the second content of `conf` waits for its promotion."""
    return settled(source_written(_v1(), "v2"))


def _unnamed() -> World:
    """A canary waits whose template names no source any more; the stable pods still read the copy of the first content."""
    return settled(edited(_v1(), config_refs=(), revision="b"))


def _intents(seen: World | Snapshot) -> tuple[Intent, ...]:
    return decide(seen if isinstance(seen, Snapshot) else snapshot(seen)).intents


def _told(there: World | Snapshot) -> str:
    """What the condition says; "" without it."""
    return said(decide(there if isinstance(there, Snapshot) else snapshot(there)), "ConfigCopyMissing")


# --- ConfigMaps


@pytest.mark.parametrize("how", [{"deleting": True}, {"claimed": True, "owned": False}])
def test_a_name_that_is_not_free_yet_is_not_written_to(how: dict[str, Any]) -> None:
    """A finalizer keeps a copy that is being deleted; the garbage collector deletes one of an earlier Rollout.

    A write that is refused ends the pass, and with it the update that has nothing to do with that copy.
    """
    there = _v1()
    (copy,) = there.configs.copies
    going = with_configs(there, copies=(replace(copy, **how),))

    assert _intents(there) == _intents(going) == ()
    assert len([each for each in _intents(with_configs(there, copies=())) if isinstance(each, CreateConfigCopy)]) == 1


def test_a_copy_that_cannot_be_made_again_is_told() -> None:
    """Running pods name it; pods that start would wait for it."""
    there = settled(copy_deleted(_v2(), 0))
    told = condition(there, "ConfigCopyMissing")

    assert told.reason is Reason.CONFIG_COPY_MISSING
    assert "the copy of conf, is gone, and the source has another content by now; pods that start" in told.message
    assert Notice(Reason.CONFIG_COPY_MISSING, told.message, warning=True) in there.notices


def test_a_copy_is_made_again_though_the_template_names_its_source_no_more() -> None:
    """The stable pods read it. The source is read again, since nobody has kept what is in it."""
    there = with_configs(copy_deleted(_unnamed(), 0), read={})

    assert AskConfig(CONF) in _intents(there)
    assert {each.content for each in settled(there).configs.copies} == {"v1"}
    assert _told(settled(there)) == ""


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda there: source_written(there, "v2"), "the source has another content by now"),
        (source_removed, "the source is gone too"),
        (lambda there: source_written(there, "v1", left_alone=True), "the source is left alone"),
    ],
    ids=["changed", "gone", "left alone"],
)
def test_a_lost_copy_of_a_source_that_the_template_names_no_more_is_told(
    change: Callable[[World], World], why: str
) -> None:
    """The template says nothing about it any more, and the stable pods need it all the same."""
    told = _told(settled(change(copy_deleted(_unnamed(), 0))))

    assert f"the copy of conf, is gone, and {why}" in told
    assert "pods that start need it" in told


def test_copies_that_are_lost_for_one_reason_are_told_in_one_sentence() -> None:
    """The pods of both revisions would wait, and one backup helps both."""
    told = _told(settled(source_removed(copy_deleted(copy_deleted(_v2(), 0), 0))))

    assert told.count("the copy of conf,") == 2
    assert ", are gone, and the source is gone too; pods that start need it" in told


def test_a_lost_copy_of_a_revision_without_pods_is_told_as_what_a_rollback_needs() -> None:
    """Nothing waits for it now, and who rolls back is glad to know."""
    there = settled(source_written(_v2(), "v1"))
    kept = next(each.revision for each in there.replica_sets if not each.spec_replicas)
    there = settled(copy_deleted(there, [each.content for each in there.configs.copies].index("v2")))

    assert f"a rollback to {kept} needs it" in _told(there)
    assert "pods that start" not in _told(there)


def test_where_config_maps_cannot_be_seen_nothing_is_said_to_be_gone() -> None:
    """No copy is shown there, whether it exists or not. Where they are seen, and one may not be read, that helps."""
    seen = replace(
        snapshot(_unnamed()),
        copies=(),
        sources={KEY: SourceUnread("grant list of configmaps", needs_a_person=True, asks=False)},
    )

    assert _told(seen) == ""
    assert not [each for each in _intents(seen) if isinstance(each, CreateConfigCopy | AskConfig)]
    gone = snapshot(copy_deleted(_unnamed(), 0))
    unread = replace(gone, sources={KEY: SourceUnread("grant get of configmaps", needs_a_person=True)})
    assert "is gone, and grant get of configmaps" in _told(unread)


# --- Secrets


def _ill(there: World) -> Snapshot:
    """A pod of the stable revision is not ready."""
    seen = snapshot(there)
    sets = tuple(replace(each, ready=each.ready - 1) if each.ready else each for each in seen.replica_sets)
    return replace(seen, replica_sets=sets)


def _copy(there: World) -> str:
    (use,) = one(there, there.status.stable_revision).config or ()
    return use.copy


def _looked(seen: Snapshot, name: str, *, there: bool | None, age_s: float = 0.0) -> Snapshot:
    return replace(seen, copy_looks={name: CopyLook(seen.now_s - age_s, there)})


def test_while_all_pods_are_ready_nobody_asks_for_copies_of_secrets() -> None:
    """An idle Rollout costs nothing."""
    seen = replace(snapshot(_v1(CRED)), copy_looks={})

    assert decide(seen).intents == ()
    assert decide(seen).requeue_at_s is None


@pytest.mark.parametrize(("there", "again_s"), [(True, LOOK_AGAIN_S), (None, REFUSED_AGAIN_S)])
def test_while_a_pod_is_not_ready_its_copy_is_asked_for_again_and_again(*, there: bool | None, again_s: float) -> None:
    """The pod may wait for it; only the answer tells. A webhook or a quota may refuse the question, which proves nothing."""
    name, seen = _copy(_v1(CRED)), _ill(_v1(CRED))
    fresh = decide(_looked(seen, name, there=there, age_s=again_s - 1.0))

    assert AskSecretCopy(name) in _intents(replace(seen, copy_looks={}))
    assert (fresh.intents, fresh.requeue_at_s, said(fresh, "ConfigCopyMissing")) == ((), seen.now_s + 1.0, "")
    assert AskSecretCopy(name) in _intents(_looked(seen, name, there=there, age_s=again_s))


def test_a_deleted_copy_of_a_secret_is_made_again_for_its_replica_set() -> None:
    """The pods name it, so it gets the same name, and the same owner."""
    there = _v1(CRED)
    stable = one(there, there.status.stable_revision)
    (made,) = [
        each for each in _intents(_looked(_ill(there), _copy(there), there=False)) if isinstance(each, CreateConfigCopy)
    ]

    assert made.owner is not None
    assert (made.use.kind, made.use.copy, made.owner.uid) == (ConfigKind.SECRET, _copy(there), stable.uid)


def test_what_was_gone_is_asked_for_until_it_is_there_though_all_pods_are_ready() -> None:
    """Somebody may restore it, and then nothing is told any more."""
    there = secret_copy_deleted(_v1(CRED))
    gone = with_configs(there, copy_looks={_copy(there): CopyLook(there.now_s, there=False)})
    told = source_written(gone, "v2", CRED.name)
    reading = reconciled(told)

    assert "CreateConfigCopy" in settled(gone).writes
    assert "Secret" in _told(reading)
    assert "the source has another content by now" in _told(reading)
    assert AskSecretCopy(_copy(there)) in _intents(later(reading, LOOK_AGAIN_S))
    restored = with_configs(reading, secret_copies=_v1(CRED).configs.secret_copies)
    assert _told(settled(later(restored, LOOK_AGAIN_S))) == ""


def test_what_cannot_be_made_again_is_only_looked_at_again() -> None:
    """Nothing else comes of it, however long it lasts."""
    there = secret_copy_deleted(source_written(_v1(CRED), "v2", CRED.name))
    there = settled(with_configs(there, copy_looks={_copy(there): CopyLook(there.now_s, there=False)}))
    writes = there.writes

    assert _told(there)
    assert settled(later(there, 3600.0)).writes == writes


def test_a_copy_of_a_secret_that_the_template_names_no_more_is_made_again_or_told() -> None:
    """The Role may not name it any more either: then that is what helps."""
    there = settled(edited(_v1(CRED), config_refs=(), revision="b"))
    seen = _looked(_ill(there), _copy(there), there=False)
    key = (ConfigKind.SECRET, CRED.name)
    unread = replace(seen, sources={key: SourceUnread()})
    forbidden = replace(seen, sources={key: SourceUnread("grant get of secrets", needs_a_person=True, asks=False)})
    alone = replace(seen, sources={key: SourceLeftAlone()})

    assert AskConfig(ConfigRef(*key)) in _intents(unread)
    assert "grant get of secrets" in _told(forbidden)
    assert "left alone" in _told(alone)
    assert not [each for each in _intents(forbidden) if isinstance(each, CreateConfigCopy | CreateReplicaSet)]


def _two_revisions() -> tuple[World, str]:
    """The first one is kept without pods, and a rollback goes back to it; its name."""
    there = settled(source_written(running(CANARY, config_refs=REFS), "v1"))
    first = there.status.stable_revision
    there = settled(source_written(later(there, 60), "v2"))
    there = settled(annotated(there, "promote", "true"))
    assert there.status.stable_revision != first
    return later(there, 60), first


def _without(there: World, revision: str, how: Callable[[World, int], World] = copy_deleted) -> World:
    """The copy that the revision names is deleted, or forged."""
    names = [each.name for each in there.configs.copies]
    return how(there, names.index(_named(there, revision)))


def _named(there: World, revision: str) -> str:
    (name,) = {use.copy for use in one(there, revision).config or () if use.has_copy}
    return name


def _asked(there: World) -> list[str]:
    return [each.ref.name for each in decide(snapshot(there)).intents if isinstance(each, AskConfig)]


def _unread(there: World, **changes: Any) -> World:
    """Another process goes on, and has read no copy."""
    return with_configs(there, copies=tuple(replace(each, checked=False, **changes) for each in there.configs.copies))


def test_copies_that_are_as_old_as_their_replica_sets_are_not_read_while_nothing_happens() -> None:
    """Ten thousand Rollouts have a hundred thousand copies."""
    there, _ = _two_revisions()

    assert _asked(_unread(there)) == []


def test_a_rollback_waits_for_a_copy_that_cannot_be_read() -> None:
    """It says which, and why."""
    there, first = _two_revisions()
    why = "etcdserver: leader changed"
    there = with_configs(_unread(there, unread_because=why), trouble=why)

    there = settled(annotated(there, "rollback", first), seconds=60)

    assert first not in sizes(there)
    assert waits_for(there) is Reason.CONFIG_NOT_READ
    assert "leader changed" in waiting(there).message


def test_a_rollback_waits_for_a_copy_that_is_gone_until_it_can_be_made_again() -> None:
    """Pods with an optional reference would begin, and serve, without their configuration."""
    there, first = _two_revisions()

    there = settled(annotated(_without(there, first), "rollback", first), seconds=600)
    assert first not in sizes(there)
    assert waits_for(there) is Reason.CONFIG_COPY_MISSING
    assert "is gone" in waiting(there).message

    there = settled(source_written(there, "v1"), seconds=600)
    assert first in sizes(there)
    assert _named(there, first) in {each.name for each in there.configs.copies}


@pytest.mark.parametrize("serves", [True, False])
def test_a_copy_that_is_younger_than_its_replica_set_is_read_at_once_and_told(serves: bool) -> None:
    """Somebody has made it: the pods of the revision that serves stay, another one gets none."""
    there, first = _two_revisions()
    revision = there.status.stable_revision if serves else first
    before = sizes(there)

    there = settled(_without(there, revision, copy_forged))
    told = condition(there, "ConfigCopyMissing").message
    assert f"revision {revision} names it" in told
    assert ("pods that start read it" in told) is serves
    assert sizes(there) == before

    there = settled(annotated(there, "rollback", first), seconds=600)
    assert (first in sizes(there)) is serves
    if not serves:
        assert waits_for(there) is Reason.CONFIG_COPY_NOT_USABLE
        assert f"revision {first} names it" in waiting(there).message


def test_nothing_is_asked_twice() -> None:
    """A forged copy stays forged: its uid has not changed."""
    there, first = _two_revisions()
    there = settled(_without(there, first, copy_forged))

    assert _asked(reconciled(there)) == []


def test_a_rehearsal_believes_that_unread_copies_are_what_their_names_say() -> None:
    """`rollouts plan` reads no copy, and nobody has replaced most of them."""
    there, first = _two_revisions()

    told = rehearse(snapshot(annotated(_unread(there), "rollback", first)), startup_s=1.0)

    assert told.stuck is not None
    assert (told.revision, told.stuck.reason) == (first, Reason.ROLLED_BACK)


def test_an_update_whose_stable_revision_can_have_no_pods_says_how_it_goes_on() -> None:
    """Scaled to 0 at its gate, and back: nothing serves, and nobody but a person gives the old configuration up."""
    there = _v2()
    stable, current = there.status.stable_revision, there.status.current_revision
    there = settled(edited(there, replicas=0))
    there = settled(edited(_without(there, stable), replicas=4))

    assert (waits_for(there), sizes(there)) == (Reason.CONFIG_COPY_MISSING, {})
    delete = f"or go on without it: kubectl delete replicaset {one(there, stable).name} -n shop"
    assert waiting(there).message.endswith(delete)

    there = settled(deleted(there, stable))
    assert (there.status.phase, sizes(there)) == (Phase.PAUSED, {current: 4})
