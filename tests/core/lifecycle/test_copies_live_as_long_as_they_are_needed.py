"""Promise: a copy is there before the ReplicaSet that names it, goes when nobody can read it, or with the Rollout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rollouts.core.decide import decide
from rollouts.core.lifecycle.config_copies import KEPT_S, PODS_SEEN_S, STRANGERS_AGAIN_S
from rollouts.core.model.config import ConfigUse, Source, SourceKnown, SourceUnread
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import (
    AdoptConfigCopy,
    AskConfig,
    AskPods,
    CreateConfigCopy,
    DeleteConfigCopy,
    Intent,
    Notice,
    ReleaseConfigCopy,
)
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary
from rollouts.core.model.snapshot import OrphanedReplicaSet, Pod, PodsSeen, Snapshot
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.config_worlds import CONF, REFS, copies_moved, retained, source_removed, source_written, with_configs
from tests.core.model import World, deleted, snapshot, world
from tests.core.sources import SourceKey, answered
from tests.core.updates import waits_for
from tests.core.worlds import edited, later, one, reconciled, running, settled

CANARY = Canary(steps=(SetWeight(50), PauseUntilPromoted()))


def _v1() -> World:
    """Rolled out with the first content of `conf`."""
    there = settled(source_written(world(CANARY, config_refs=REFS), "v1"))
    return replace(later(there, 3600.0), writes=(), notices=())


def _v2() -> World:
    """A canary with the second content waits for its promotion."""
    return replace(settled(source_written(_v1(), "v2")), writes=())


def _intents(there: World) -> tuple[Intent, ...]:
    return decide(snapshot(there)).intents


def _copies(there: World) -> dict[str, str]:
    """The copies there are, by content."""
    return {each.content: each.name for each in there.configs.copies}


def _config(there: World, revision: str) -> dict[str, str]:
    """What a ReplicaSet names for each source."""
    return {use.source: use.name for use in one(there, revision).config or ()}


def test_nothing_is_made_of_a_template_whose_sources_are_not_known() -> None:
    """Both are asked for, and nothing else happens."""
    assert _intents(world(CANARY, config_refs=REFS))[:1] == ()
    assert _intents(source_written(world(CANARY, config_refs=REFS), "v1")) == (AskConfig(CONF),)


def test_an_edit_goes_through_the_steps_and_the_stable_pods_keep_what_they_have() -> None:
    """Each revision names a copy of its own, and people find it by its Event. A revert is a rollback: nothing is made."""
    there = _v2()
    status = there.status

    assert Notice(Reason.CONFIG_COPIED, f"ConfigMap conf is kept as {_copies(there)['v2']}") in there.notices
    assert _config(there, status.stable_revision)["conf"] == _copies(there)["v1"]
    assert _config(there, status.current_revision)["conf"] == _copies(there)["v2"]
    assert status.step_index == 1

    stable = one(there, status.stable_revision)
    back = settled(source_written(there, "v1"))
    assert (back.status.current_revision, back.status.stable_revision) == (stable.revision, stable.revision)
    assert one(back, stable.revision).uid == stable.uid
    assert not {"CreateConfigCopy", "CreateReplicaSet"} & {*back.writes}


def test_equal_contents_of_one_source_share_a_copy() -> None:
    """Another template with the same content makes no second one."""
    there = settled(edited(replace(_v1(), writes=()), revision="b"))

    assert "CreateConfigCopy" not in there.writes
    assert len(there.configs.copies) == 1


def test_while_a_read_is_slow_nothing_is_made_and_an_answer_about_an_old_version_is_read_again() -> None:
    """A read that was asked for before the edit says what was there then."""
    there = with_configs(source_written(_v1(), "v2"), slow=True)
    asked = reconciled(reconciled(there))
    late = replace(asked, configs=answered(asked.configs))
    edited_meanwhile = source_written(asked, "v3")
    late_and_old = replace(edited_meanwhile, configs=answered(edited_meanwhile.configs))

    assert asked.writes == ()
    assert AskConfig(CONF) not in _intents(late)
    assert AskConfig(CONF) in _intents(late_and_old)


def test_a_replica_set_of_the_revision_on_record_waits_until_the_contents_are_known() -> None:
    """What it would name is not known; the update says what it waits for."""
    there = _v2()
    unknown = with_configs(deleted(there, there.status.current_revision), read={}, trouble="leader changed")
    decision = decide(snapshot(unknown))

    assert [type(each) for each in decision.intents] == [AskConfig]
    assert waits_for(decision) is Reason.CONFIG_NOT_READ
    made = settled(with_configs(unknown, trouble=""))
    assert _config(made, there.status.current_revision) == _config(there, there.status.current_revision)


def test_an_upgrade_writes_a_note_and_an_edit_after_it_starts_a_canary_with_a_copy() -> None:
    """No pod is replaced, no copy made: only what changes gets one."""
    before = source_written(running(CANARY), "v1")
    there = settled(edited(before, config_refs=REFS))

    assert [each for each in there.writes if each != "Status"] == ["PatchReplicaSet"]
    assert (there.pods, there.configs.copies) == (before.pods, ())
    assert _config(there, "a") == {"conf": "conf", "maybe": "maybe"}

    there = settled(source_written(later(there, 60.0), "v2"))
    assert (there.status.stable_revision, there.status.step_index) == ("a", 1)
    assert _config(there, there.status.current_revision)["conf"] == _copies(there)["v2"]


def _left_over() -> World:
    """The copy of `v2` is named by nobody any more."""
    there = _v2()
    there = settled(source_written(there, "v1"))
    other = next(each.revision for each in there.replica_sets if each.revision != there.status.stable_revision)
    return later(deleted(there, other), KEPT_S)


def _listed(there: World, *pods: Pod, age_s: float = 0.0) -> Snapshot:
    return replace(snapshot(there), pods=PodsSeen(there.now_s - age_s, (*there.pods, *pods)))


def _deleted(seen: Snapshot) -> list[str]:
    return [each.name for each in decide(seen).intents if isinstance(each, DeleteConfigCopy)]


def test_a_copy_that_nothing_names_goes_once_the_pods_were_listed() -> None:
    """The deletion is bound to what was seen. A pod may have begun since an old list, and its ReplicaSet have gone."""
    there = _left_over()
    copy = next(each for each in there.configs.copies if each.content == "v2")

    assert _intents(there) == decide(_listed(there, age_s=PODS_SEEN_S)).intents == (AskPods(),)
    assert decide(_listed(there)).intents == (
        DeleteConfigCopy(name=copy.name, uid=copy.uid, resource_version=copy.resource_version),
    )
    assert set(_copies(settled(there))) == {"v1"}


def test_a_pod_that_has_lost_its_replica_set_keeps_every_copy() -> None:
    """What it reads is not known; it is looked at again after a while. Its ReplicaSet may have gone before pods were listed."""
    there = _left_over()
    stray = Pod(name="cart-x-1", uid="x", revision="x", created_at_s=there.now_s, ready=True)
    unowned = replace(_listed(there), pods=PodsSeen(there.now_s, there.pods, unowned=1))

    for seen in (_listed(there, stray), unowned):
        assert decide(seen).intents == ()
        assert decide(seen).requeue_at_s == there.now_s + STRANGERS_AGAIN_S
    assert decide(_listed(there, stray, age_s=PODS_SEEN_S + 1.0)).intents == ()
    assert decide(_listed(there, stray, age_s=STRANGERS_AGAIN_S)).intents == (AskPods(),)


def _with_all_copies(seen: Snapshot, **changes: Any) -> Snapshot:
    return replace(seen, copies=tuple(replace(each, **changes) for each in seen.copies))


def test_a_young_copy_is_looked_at_again_when_it_is_old_enough() -> None:
    """Another process of this program may be about to name it, and nothing else wakes the Rollout."""
    seen = _listed(_left_over())
    young = decide(_with_all_copies(seen, created_at_s=seen.now_s - KEPT_S + 1.0))

    assert (young.intents, young.requeue_at_s) == ((), seen.now_s + 1.0)


def _with_notes(seen: Snapshot, config: tuple[ConfigUse, ...] | None) -> Snapshot:
    sets = (
        replace(each, config=None if config is None else (*(each.config or ()), *config)) for each in seen.replica_sets
    )
    return replace(seen, replica_sets=tuple(sets))


def _with_content(seen: Snapshot, content: str) -> dict[SourceKey, Source]:
    known = seen.sources[CONF.kind, CONF.name]
    assert isinstance(known, SourceKnown)
    return {**seen.sources, (CONF.kind, CONF.name): replace(known, content=content)}


ORPHAN = OrphanedReplicaSet(name="cart-o", uid="o", resource_version="1", revision="o", problem="its selector differs")
KEPT: dict[str, Callable[[Snapshot], Snapshot]] = {
    "one that a template names by hand": lambda seen: _with_notes(
        seen, (ConfigUse(kind=CONF.kind, source=_deleted(seen)[0], content="v2"),)
    ),
    "one that the next ReplicaSet is to name": lambda seen: replace(seen, sources=_with_content(seen, "v2")),
    "one that is not ours, though it has our label": lambda seen: _with_all_copies(seen, problem="not ours"),
    "while a ReplicaSet is to be adopted": lambda seen: replace(seen, orphans=(ORPHAN,)),
    "while a note cannot be read": lambda seen: _with_notes(seen, None),
    "while a source is not known": lambda seen: replace(
        seen, sources={(CONF.kind, CONF.name): SourceUnread("leader changed")}
    ),
}


@pytest.mark.parametrize("change", KEPT.values(), ids=list(KEPT))
def test_a_copy_stays_that_may_be_named(change: Callable[[Snapshot], Snapshot]) -> None:
    """What is not known names everything."""
    seen = _listed(_left_over())
    assert _deleted(seen)

    assert _deleted(change(seen)) == []


def _owners(there: World) -> list[bool]:
    return [each.owned for each in there.configs.copies]


def _changes(seen: Snapshot) -> list[AdoptConfigCopy | ReleaseConfigCopy | CreateConfigCopy]:
    made = (AdoptConfigCopy, ReleaseConfigCopy, CreateConfigCopy)
    return [each for each in decide(seen).intents if isinstance(each, made)]


def test_retain_set_later_takes_the_owner_from_copies_that_exist() -> None:
    """Each write is bound to what was seen: an owner's place among others may have changed."""
    there = retained(_v2(), retain=True)

    assert _changes(snapshot(there)) == [
        ReleaseConfigCopy(name=each.name, uid=each.uid, resource_version=each.resource_version, owner_index=0)
        for each in there.configs.copies
    ]
    assert _owners(settled(there)) == [False, False]
    assert _changes(snapshot(settled(there))) == []


LATER: dict[str, Callable[[World], World]] = {
    "retain is taken away": lambda there: retained(settled(retained(there, retain=True)), retain=False),
    "and the first content is in no source any more": lambda there: source_removed(
        retained(settled(retained(there, retain=True)), retain=False)
    ),
    "they lost it, and the template names no source": lambda there: copies_moved(
        settled(edited(there, config_refs=(), revision="b")), owned=False
    ),
}


@pytest.mark.parametrize("change", LATER.values(), ids=list(LATER))
def test_copies_get_their_owner(change: Callable[[World], World]) -> None:
    """Without an owner they would outlive the Rollout, which is what `retain` asks for."""
    there = settled(change(_v2()))

    assert _owners(there) == [True, True]
    assert _changes(snapshot(there)) == []


def test_other_owners_stay() -> None:
    """Somebody else lets the copy go with an object of theirs, too."""
    adopted = _changes(_with_all_copies(snapshot(_v2()), owned=False, owners=1, owner_index=-1))
    released = _changes(_with_all_copies(snapshot(retained(_v2(), retain=True)), owners=2, owner_index=1))

    assert [each.has_owners for each in adopted if isinstance(each, AdoptConfigCopy)] == [True, True]
    assert [each.owner_index for each in released if isinstance(each, ReleaseConfigCopy)] == [1, 1]


@pytest.mark.parametrize("changes", [{"deleting": True}, {"problem": "not ours"}, {"claimed": True}])
def test_a_copy_that_goes_or_is_not_ours_gets_no_owner(changes: dict[str, object]) -> None:
    """An earlier Rollout of that name takes it along, or it is somebody else's."""
    seen = _with_all_copies(snapshot(_v2()), owned=False, owners=1, owner_index=-1, **changes)

    assert not [each for each in _changes(seen) if isinstance(each, AdoptConfigCopy)]
