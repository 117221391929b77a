"""Promise: no ReplicaSet gets its first pods while a copy that it names is gone, is another one, or was compared with nothing."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.core.decide import decide
from rollouts.core.forecast import rehearse
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AskConfig
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.config_worlds import REFS, copy_deleted, copy_forged, source_written, with_configs
from tests.core.model import World, annotated, deleted, snapshot
from tests.core.updates import waiting, waits_for
from tests.core.worlds import edited, later, one, reconciled, running, settled, sizes

STRATEGY = Canary(steps=(SetWeight(50), PauseUntilPromoted()))


def _two_revisions() -> tuple[World, str]:
    """The first one is kept without pods, and a rollback goes back to it; its name."""
    there = settled(source_written(running(STRATEGY, config_refs=REFS), "v1"))
    first = there.status.stable_revision
    there = settled(source_written(later(there, 60), "v2"))
    there = settled(annotated(there, "promote", "true"))
    assert there.status.stable_revision != first
    return later(there, 60), first


def _at(there: World, revision: str) -> int:
    return next(at for at, each in enumerate(there.configs.copies) if each.name in _named(there, revision))


def _named(there: World, revision: str) -> set[str]:
    sets = (each for each in there.replica_sets if each.revision == revision)
    return {use.copy for each in sets for use in each.config or () if use.has_copy}


def _asked(there: World) -> list[str]:
    return [each.ref.name for each in decide(snapshot(there)).intents if isinstance(each, AskConfig)]


def _unread(there: World, **changes: Any) -> World:
    """Another process goes on, and has read no copy."""
    return with_configs(there, copies=tuple(replace(each, checked=False, **changes) for each in there.configs.copies))


def test_copies_that_are_as_old_as_their_replica_sets_are_not_read_while_nothing_happens() -> None:
    """Ten thousand Rollouts have a hundred thousand copies."""
    there, _ = _two_revisions()

    assert _asked(_unread(there)) == []


def test_a_rehearsal_believes_that_unread_copies_are_what_their_names_say() -> None:
    """`rollouts plan` reads no copy, and nobody has replaced most of them."""
    there, first = _two_revisions()

    told = rehearse(snapshot(annotated(_unread(there), "rollback", first)), startup_s=1.0)

    assert told.stuck is not None
    assert (told.revision, told.stuck.reason) == (first, Reason.ROLLED_BACK)


def test_a_rollback_waits_for_a_copy_that_cannot_be_read() -> None:
    """It says which, and why."""
    there, first = _two_revisions()
    there = with_configs(
        _unread(there, unread_because="etcdserver: leader changed"), trouble="etcdserver: leader changed"
    )

    there = settled(annotated(there, "rollback", first), seconds=60)

    assert first not in sizes(there)
    assert waits_for(there) is Reason.CONFIG_NOT_READ
    assert "leader changed" in waiting(there).message


def test_a_rollback_waits_for_a_copy_that_is_gone_until_it_can_be_made_again() -> None:
    """Pods with an optional reference would begin, and serve, without their configuration."""
    there, first = _two_revisions()

    there = settled(annotated(copy_deleted(there, _at(there, first)), "rollback", first), seconds=600)
    assert first not in sizes(there)
    assert waits_for(there) is Reason.CONFIG_COPY_MISSING
    assert "is gone" in waiting(there).message

    there = settled(source_written(there, "v1"), seconds=600)
    assert first in sizes(there)
    assert _named(there, first) <= {each.name for each in there.configs.copies}


@pytest.mark.parametrize("serves", [True, False])
def test_a_copy_that_is_younger_than_its_replica_set_is_read_at_once_and_told(serves: bool) -> None:
    """Somebody has made it: the pods of the revision that serves stay, another one gets none."""
    there, first = _two_revisions()
    revision = there.status.stable_revision if serves else first
    before = sizes(there)

    there = settled(copy_forged(there, _at(there, revision)))
    (told,) = [each for each in there.status.conditions if each.type == "ConfigCopyMissing"]
    assert f"revision {revision} names it" in told.message
    assert ("pods that start read it" in told.message) is serves
    assert sizes(there) == before

    there = settled(annotated(there, "rollback", first), seconds=600)
    assert (first in sizes(there)) is serves


def test_nothing_is_asked_twice() -> None:
    """A forged copy stays forged: its uid has not changed."""
    there, first = _two_revisions()
    there = settled(copy_forged(there, _at(there, first)))

    assert _asked(reconciled(there)) == []


def test_an_update_whose_stable_revision_can_have_no_pods_says_how_it_goes_on() -> None:
    """Scaled to 0 at its gate, and back: nothing serves, and nobody but a person gives the old configuration up."""
    there = settled(source_written(running(STRATEGY, config_refs=REFS), "v1"))
    there = settled(source_written(later(there, 60), "v2"))
    stable, current = there.status.stable_revision, there.status.current_revision
    there = settled(edited(there, replicas=0))
    there = settled(edited(copy_deleted(there, _at(there, stable)), replicas=4))

    assert (waits_for(there), sizes(there)) == (Reason.CONFIG_COPY_MISSING, {})
    delete = f"or go on without it: kubectl delete replicaset {one(there, stable).name} -n shop"
    assert waiting(there).message.endswith(delete)

    there = settled(deleted(there, stable))
    assert (there.status.phase, sizes(there)) == (Phase.PAUSED, {current: 4})
