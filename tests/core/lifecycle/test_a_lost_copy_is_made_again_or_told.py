"""Promise: a copy that somebody deletes is made again while its source has the content, and otherwise it is told who needs it.

Copies of ConfigMaps are watched; whether one of a Secret is there is asked for while pods may wait for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rollouts.core.decide import decide
from rollouts.core.lifecycle.lost_copies import LOOK_AGAIN_S, REFUSED_AGAIN_S
from rollouts.core.model.config import ConfigKind, ConfigRef, ConfigVersioning, CopyLook, SourceLeftAlone, SourceUnread
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AskConfig, AskSecretCopy, CreateConfigCopy, CreateReplicaSet, Intent, Notice
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.config_worlds import (
    CONF,
    CRED,
    REFS,
    copy_deleted,
    secret_copy_deleted,
    source_removed,
    source_written,
    with_configs,
)
from tests.core.model import World, snapshot, world
from tests.core.worlds import edited, later, one, reconciled, settled

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


def _copies(there: World) -> set[str]:
    return {each.content for each in there.configs.copies}


def _told(there: World | Snapshot) -> str:
    """What the condition says; "" without it."""
    status = decide(there if isinstance(there, Snapshot) else snapshot(there)).status
    return next((each.message for each in status.conditions if each.type == "ConfigCopyMissing"), "")


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
    told = [each for each in there.status.conditions if each.type == "ConfigCopyMissing"]

    assert [each.reason for each in told] == [Reason.CONFIG_COPY_MISSING]
    assert "the copy of conf, is gone, and the source has another content by now; pods that start" in told[0].message
    assert Notice(Reason.CONFIG_COPY_MISSING, told[0].message, warning=True) in there.notices


def test_a_copy_is_made_again_though_the_template_names_its_source_no_more() -> None:
    """The stable pods read it. The source is read again, since nobody has kept what is in it."""
    there = with_configs(copy_deleted(_unnamed(), 0), read={})

    assert AskConfig(CONF) in _intents(there)
    assert _copies(settled(there)) == {"v1"}
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


def test_while_a_pod_is_not_ready_its_copy_is_asked_for_again_and_again() -> None:
    """The pod may wait for it; only the answer tells."""
    there = _v1(CRED)
    name, seen = _copy(there), _ill(there)
    fresh = _looked(seen, name, there=True, age_s=LOOK_AGAIN_S - 1.0)

    assert AskSecretCopy(name) in _intents(replace(seen, copy_looks={}))
    assert _intents(fresh) == ()
    assert decide(fresh).requeue_at_s == seen.now_s + 1.0
    assert AskSecretCopy(name) in _intents(_looked(seen, name, there=True, age_s=LOOK_AGAIN_S))


def test_a_server_that_does_not_say_is_asked_seldom() -> None:
    """A webhook or a quota refuses the question: an answer that nobody has proves nothing."""
    there = _v1(CRED)
    name, seen = _copy(there), _ill(there)

    assert _intents(_looked(seen, name, there=None, age_s=LOOK_AGAIN_S)) == ()
    assert AskSecretCopy(name) in _intents(_looked(seen, name, there=None, age_s=REFUSED_AGAIN_S))
    assert _told(_looked(seen, name, there=None)) == ""


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
