"""Promise: a copy of a ConfigMap has the Rollout as its owner, and with `retain` it has not, whenever somebody sets that."""

from __future__ import annotations

import pytest

from rollouts.core.decide import decide
from rollouts.core.model.config import CopySeen
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AdoptConfigCopy, CreateConfigCopy, ReleaseConfigCopy
from rollouts.core.model.rollout import Canary
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.config_worlds import REFS, copies_moved, retained, source_removed, source_written
from tests.core.model import World, snapshot, world
from tests.core.worlds import edited, later, settled

CANARY = Canary(steps=(SetWeight(50), PauseUntilPromoted()))


def _v2() -> World:
    """A canary with the second content waits; each content has a copy."""
    there = later(settled(source_written(world(CANARY, config_refs=REFS), "v1")), 3600.0)
    return replace(settled(source_written(there, "v2")), writes=())


def _owners(there: World) -> list[bool]:
    return [each.owned for each in there.configs.copies]


def _changes(seen: Snapshot) -> list[AdoptConfigCopy | ReleaseConfigCopy | CreateConfigCopy]:
    made = (AdoptConfigCopy, ReleaseConfigCopy, CreateConfigCopy)
    return [each for each in decide(seen).intents if isinstance(each, made)]


def _with_copies(there: World, **changes: object) -> Snapshot:
    seen = snapshot(there)
    copies: list[CopySeen] = [replace(each, **changes) for each in seen.copies]  # type: ignore[arg-type]
    return replace(seen, copies=tuple(copies))


def test_retain_set_later_takes_the_owner_from_copies_that_exist() -> None:
    """Each write is bound to what was seen: an owner's place among others may have changed."""
    there = retained(_v2(), retain=True)

    assert _changes(snapshot(there)) == [
        ReleaseConfigCopy(name=each.name, uid=each.uid, resource_version=each.resource_version, owner_index=0)
        for each in there.configs.copies
    ]
    assert _owners(settled(there)) == [False, False]
    assert _changes(snapshot(settled(there))) == []


def test_retain_taken_away_gives_copies_their_owner_whatever_their_sources_say() -> None:
    """The first content is in no source any more."""
    there = retained(settled(retained(_v2(), retain=True)), retain=False)

    assert _owners(settled(there)) == [True, True]
    assert _owners(settled(source_removed(there))) == [True, True]
    assert _changes(snapshot(settled(there))) == []


def test_a_copy_that_lost_its_owner_gets_one_though_the_template_names_no_source() -> None:
    """Without an owner it would outlive the Rollout, which is what `retain` asks for."""
    there = copies_moved(settled(edited(_v2(), config_refs=(), revision="b")), owned=False)

    assert _owners(settled(there)) == [True, True]


def test_other_owners_stay() -> None:
    """Somebody else lets the copy go with an object of theirs, too."""
    adopted = _changes(_with_copies(_v2(), owned=False, owners=1, owner_index=-1))
    released = _changes(_with_copies(retained(_v2(), retain=True), owners=2, owner_index=1))

    assert [each.has_owners for each in adopted if isinstance(each, AdoptConfigCopy)] == [True, True]
    assert [each.owner_index for each in released if isinstance(each, ReleaseConfigCopy)] == [1, 1]


@pytest.mark.parametrize("changes", [{"deleting": True}, {"problem": "not ours"}, {"claimed": True}])
def test_a_copy_that_goes_or_is_not_ours_gets_no_owner(changes: dict[str, object]) -> None:
    """An earlier Rollout of that name takes it along, or it is somebody else's."""
    seen = _with_copies(_v2(), owned=False, owners=1, owner_index=-1, **changes)

    assert not [each for each in _changes(seen) if isinstance(each, AdoptConfigCopy)]
