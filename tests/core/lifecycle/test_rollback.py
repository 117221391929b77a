"""Promise: going back is fast, by the template or by a verb, and the verb does nothing to any later revision."""

from __future__ import annotations

import pytest

from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Canary
from rollouts.core.model.status import Outcome, Phase
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.model import World, annotated, deleted
from tests.core.updates import updating
from tests.core.worlds import edited, later, running, settled, sizes

STEPS = Canary(steps=(SetWeight(50), PauseUntilPromoted()))


def _finished(there: World, revision: str) -> World:
    there = settled(edited(there, revision=revision))
    return settled(later(annotated(there, "promote", f"{revision}@full"), 1))


def test_the_old_template_in_the_middle_of_an_update_goes_back_without_steps() -> None:
    """It is stable already: there is nothing to prove."""
    there = updating(STEPS)

    there = settled(edited(there, revision="a"))

    assert (there.status.phase, there.status.stable_revision, sizes(there)) == (Phase.HEALTHY, "a", {"a": 4})


@pytest.mark.parametrize(("window", "phase"), [(None, Phase.PAUSED), (1, Phase.HEALTHY), (0, Phase.PAUSED)])
def test_a_rollback_window_skips_the_steps(window: int | None, phase: Phase) -> None:
    """`rollbackWindow.revisions`: going back one revision needs no new proof, if the user says so."""
    there = _finished(later(running(STEPS, rollback_window_revisions=window), 10), "b")
    there = annotated(there, "promote", None)

    there = settled(edited(later(there, 10), revision="a"))

    assert there.status.phase is phase
    if phase is Phase.HEALTHY:
        assert there.status.history[-1].outcome is Outcome.ROLLED_BACK


@pytest.mark.parametrize("value", ["true", "a", "previous@b"])
def test_the_verb_goes_back_without_a_change_of_the_template(value: str) -> None:
    """Until Git follows: the spec still says `b`, the pods are `a`'s."""
    there = _finished(running(STEPS, rollback_window_revisions=3), "b")

    there = settled(annotated(later(there, 5), "rollback", value))
    there = settled(annotated(there, "promote", "a@full"))

    assert (there.status.stable_revision, sizes(there), there.rollout.spec.revision) == ("a", {"a": 4}, "b")
    assert settled(later(there, 3600)).status.stable_revision == "a"


@pytest.mark.parametrize("value", ["nobody", "previous@nobody"])
def test_an_unknown_target_is_a_condition(value: str) -> None:
    """Never a guess."""
    there = settled(annotated(_finished(running(STEPS), "b"), "rollback", value))

    problem = next(each for each in there.status.conditions if each.type == "InvalidCommand")
    assert (problem.reason, there.status.stable_revision) == (Reason.UNKNOWN_REVISION, "b")


def test_a_target_whose_replica_set_was_deleted_gives_way_to_the_template() -> None:
    """Only the ReplicaSet has the old template; without it the spec's is what there is."""
    there = settled(annotated(_finished(running(STEPS), "b"), "rollback", "a"))
    there = settled(deleted(there, "a"))

    assert (there.status.current_revision, there.status.stable_revision, sizes(there)) == ("b", "b", {"b": 4})


def test_blue_green_goes_back_at_once_while_the_old_side_is_kept() -> None:
    """Within `scaleDownDelaySeconds` its pods are all there: no gate, one switch."""
    strategy = BlueGreen(active_service="cart", auto_promotion_enabled=False, scale_down_delay_s=300)
    there = settled(edited(later(running(strategy), 10), revision="b"))
    there = settled(annotated(there, "promote", "b"), seconds=60)
    assert sizes(there) == {"a": 4, "b": 4}

    there = settled(edited(there, revision="a"), seconds=5)

    assert (there.status.phase, there.services["cart"].revision) == (Phase.HEALTHY, "a")
