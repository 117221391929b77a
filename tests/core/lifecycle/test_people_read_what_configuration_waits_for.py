"""Promise: status says what a Rollout waits for while its configuration is not known, missing or just changed, and what helps."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rollouts.core.decide import decide
from rollouts.core.lifecycle.progress import STALLED_AFTER_S
from rollouts.core.model.config import SETTLE_S
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import Decision
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.config_worlds import REFS, source_removed, source_written, with_configs
from tests.core.model import World, annotated, snapshot, world
from tests.core.updates import condition, waits_for
from tests.core.worlds import edited, later, reconciled, settled

CANARY = Canary(steps=(SetWeight(50), PauseUntilPromoted()))


def _healthy() -> World:
    there = settled(source_written(world(CANARY, config_refs=REFS), "v1"))
    return replace(later(there, 3600.0), notices=())


def _paused() -> World:
    return settled(source_written(_healthy(), "v2"))


def _told(there: World) -> Decision:
    """What the next pass records."""
    return decide(snapshot(there))


def test_a_new_rollout_says_that_it_reads_and_not_that_it_is_healthy() -> None:
    """Its generation counts as observed only when it is known what it means."""
    there = source_written(world(CANARY, config_refs=REFS), "v1")
    decision = _told(there)

    assert (decision.status.phase, waits_for(decision)) == (Phase.PROGRESSING, Reason.CONFIG_NOT_READ)
    assert decision.status.observed_generation == 0
    assert condition(decision, "Ready").message == "reading the ConfigMaps and Secrets that the template names"
    assert _told(reconciled(there)).status.observed_generation == 1


@pytest.mark.parametrize(
    ("there", "reason", "words"),
    [
        (lambda: world(CANARY, config_refs=REFS), Reason.CONFIG_NOT_FOUND, "ConfigMap conf does not exist: create it"),
        (lambda: with_configs(_healthy(), forbidden=True), Reason.CONFIG_FORBIDDEN, "grant get, list and watch of configmaps"),
    ],
    ids=["a source is missing", "a right is missing"],
)  # fmt: skip
def test_what_needs_a_person_is_stalled_and_says_what_helps(
    there: Callable[[], World], reason: Reason, words: str
) -> None:
    """It goes on by itself as soon as somebody has mended it."""
    decision = _told(later(reconciled(there()), STALLED_AFTER_S))

    assert (decision.status.phase, waits_for(decision)) == (Phase.DEGRADED, reason)
    assert words in condition(decision, "Stalled").message


def test_a_read_that_was_just_asked_for_changes_nothing_that_people_see() -> None:
    """The answer comes in a moment; a new generation counts as observed with it."""
    there = edited(source_written(_healthy(), "v2"), revision_history_limit=5)
    decision = _told(there)

    assert (decision.status.phase, decision.status.waiting_for) == (Phase.HEALTHY, None)
    assert decision.status.observed_generation == there.rollout.generation - 1
    assert {each.observed_generation for each in decision.status.conditions} == {there.rollout.generation - 1}


def test_a_read_that_fails_is_told_with_its_error() -> None:
    """The revision on record goes on serving; the generation is observed, as this is what is known of it."""
    there = edited(
        source_written(with_configs(_healthy(), trouble="etcdserver: leader changed"), "v2"), revision_history_limit=5
    )
    decision = _told(there)

    assert (decision.status.phase, waits_for(decision)) == (Phase.PROGRESSING, Reason.CONFIG_NOT_READ)
    assert condition(decision, "Ready").message == "etcdserver: leader changed"
    assert decision.status.observed_generation == there.rollout.generation


def test_a_change_says_until_when_it_settles() -> None:
    """And a pass comes then."""
    there = reconciled(source_written(_healthy(), "v2"))
    decision = _told(there)

    assert waits_for(decision) is Reason.CONFIG_SETTLING
    assert decision.requeue_at_s == there.now_s + SETTLE_S
    assert condition(decision, "Ready").message.startswith("ConfigMap conf has changed: waiting for other changes")


def test_an_unfinished_update_keeps_its_own_reason_and_says_the_other_too() -> None:
    """What to do about it is the same as before. A pass comes when the change has settled, though the pause has no end."""
    there = reconciled(source_written(_paused(), "v3"))
    decision = _told(there)

    assert (decision.status.phase, waits_for(decision)) == (Phase.PAUSED, Reason.PROMOTION_NEEDED)
    assert "ConfigMap conf has changed" in decision.status.message
    assert "ConfigMap conf has changed" not in condition(decision, "Paused").message
    assert decision.requeue_at_s == there.now_s + SETTLE_S


def test_a_hold_sends_no_event_about_a_pause_that_people_know() -> None:
    """Only what changes about the pause is news."""
    there = replace(_paused(), notices=())

    assert reconciled(reconciled(source_written(there, "v3"))).notices == ()


@pytest.mark.parametrize("phase", [Phase.ABORTED, Phase.ROLLED_BACK])
def test_a_revision_that_was_held_back_still_says_so(phase: Phase) -> None:
    """How to go forward is the first thing to know; a missing source comes second."""
    there = annotated(_paused(), "abort", _paused().status.current_revision)
    if phase is Phase.ROLLED_BACK:
        there = settled(annotated(_paused(), "rollback", f"previous@{_paused().status.current_revision}"))
        there = settled(annotated(there, "promote", f"{there.status.current_revision}@full"))
    decision = _told(source_removed(settled(there)))

    assert "ConfigMap conf does not exist" in decision.status.message
    held = {Phase.ABORTED: "Aborted", Phase.ROLLED_BACK: "RolledBack"}[phase]
    assert "does not exist" not in condition(decision, held).message
    assert condition(decision, held).status


def test_a_wait_for_a_source_stops_the_progress_clock() -> None:
    """It says nothing about the revision: no abort follows, however long it lasts."""
    there = edited(_paused(), progress_deadline_s=60.0, progress_deadline_abort=True)
    there = settled(source_removed(there), seconds=600.0)

    assert there.status.abort is None
    assert there.status.phase is Phase.PAUSED


def test_an_event_tells_a_missing_source_once() -> None:
    """With what helps; not again with each pass."""
    there = settled(source_removed(_healthy()), seconds=600.0)
    told = [(each.message, each.warning) for each in there.notices if each.reason is Reason.CONFIG_NOT_FOUND]

    assert told == [("ConfigMap conf does not exist: create it, or make its references optional", True)]
