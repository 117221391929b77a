"""Promise: a promotion acts on the revision and the step that it names, or that a person saw; on no other, ever."""

from __future__ import annotations

import pytest

from rollouts.core.model.autoscaling import AutoscalingGate, ContainerLimit, ContainerMetric
from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Canary
from rollouts.core.model.status import Phase, Verb
from rollouts.core.model.steps import Pause, PauseUntilPromoted, SetWeight
from tests.core.autoscalers import Load
from tests.core.model import World, annotated
from tests.core.updates import updating, waits_for
from tests.core.worlds import edited, running, settled, sizes

GATES = Canary(steps=(SetWeight(25), PauseUntilPromoted(), SetWeight(50), PauseUntilPromoted()))


def _waits_for(there: World) -> tuple[int, Reason | None]:
    """The step, and the reason why it is not complete."""
    return there.status.step_index, waits_for(there)


def _problem(there: World) -> str:
    return next((f"{each.reason}" for each in there.status.conditions if each.type == "InvalidCommand"), "")


@pytest.mark.parametrize(("value", "index"), [("b", 3), ("b@1", 3), ("b@full", 4), ("true", 3), ("b@3", 1)])
def test_a_promotion_passes_the_gate_it_names(value: str, index: int) -> None:
    """`<revision>`, `<revision>@<step>`, `<revision>@full`, `true`; another step's name passes nothing."""
    there = settled(annotated(updating(GATES), "promote", value))

    assert there.status.step_index == index
    assert _problem(there) == ""


def _waiting_for_the_autoscaler() -> World:
    """Revision `b` at step 0, whose pods use more than the autoscaler's gate allows; a pause comes after it."""
    limit = ContainerLimit(container="app", resource=ContainerMetric.CPU, max_utilization_percent=90)
    there = running(GATES, autoscaling=AutoscalingGate(container=limit))
    return settled(edited(replace(there, load=Load(percent={"b": 200})), revision="b"), seconds=60)


@pytest.mark.parametrize("value", ["b", "b@0", "true"])
def test_a_promotion_passes_the_autoscalers_gate_where_status_shows_it_and_no_pause_with_it(value: str) -> None:
    """It had bound to the pause ahead: the update went on waiting, and the pause that nobody had meant was passed later."""
    there = _waiting_for_the_autoscaler()
    assert _waits_for(there) == (0, Reason.CONTAINER_OVER_LIMIT)

    there = settled(annotated(there, "promote", value), seconds=60)

    assert _waits_for(there) == (1, Reason.PROMOTION_NEEDED)


def test_a_promotion_that_came_with_the_template_is_for_the_first_pause_ahead() -> None:
    """Whoever wrote it saw no wait for the autoscaler, so it must not stand in for that evidence."""
    there = replace(_waiting_for_the_autoscaler(), bad=frozenset("c"), load=Load(percent={"c": 200}))

    there = settled(annotated(edited(there, revision="c"), "promote", "c"), seconds=5)
    there = settled(replace(there, bad=frozenset()), seconds=60)

    assert _waits_for(there) == (0, Reason.CONTAINER_OVER_LIMIT)
    assert there.status.commands[-1].step == 1


def test_a_promotion_of_an_older_revision_stays_without_effect_for_ever() -> None:
    """GitOps values are not removed: `promote: b@full` must not let revision `c` through."""
    there = settled(annotated(updating(GATES), "promote", "b@full"))
    assert there.status.stable_revision == "b"

    there = settled(edited(there, revision="c"))

    assert (there.status.step_index, there.status.phase, _problem(there)) == (1, Phase.PAUSED, "")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("a", Reason.COMMAND_INVALID),
        ("nobody", Reason.UNKNOWN_REVISION),
        ("nobody@full", Reason.UNKNOWN_REVISION),
        ("b@soon", Reason.COMMAND_INVALID),
    ],
)
def test_what_is_not_understood_is_a_condition_and_an_event_never_a_guess(value: str, reason: Reason) -> None:
    """And it is told once, not in every pass."""
    there = settled(annotated(updating(GATES), "promote", value))

    assert (there.status.step_index, _problem(there)) == (1, reason)
    assert [each.reason for each in there.notices].count(reason) == 1
    assert _problem(settled(annotated(there, "promote", None))) == ""


def test_a_timed_pause_can_be_ended_early() -> None:
    """Promoting means "this gate", whether or not time would open it."""
    there = settled(edited(running(Canary(steps=(SetWeight(25), Pause(3600)))), revision="b"), seconds=60)

    there = settled(annotated(there, "promote", "b@1"), seconds=60)

    assert there.status.phase is Phase.HEALTHY


def test_a_blue_green_gate_is_step_zero() -> None:
    """`<revision>` and `<revision>@0` name it; another number does not."""
    strategy = BlueGreen(active_service="cart", auto_promotion_enabled=False)
    there = updating(strategy)
    assert there.status.phase is Phase.PAUSED

    assert settled(annotated(there, "promote", "b@1")).status.phase is Phase.PAUSED
    assert settled(annotated(there, "promote", "b@0")).status.stable_revision == "b"
    assert settled(annotated(there, "promote", "true")).status.stable_revision == "b"


def test_spent_commands_do_not_pile_up() -> None:
    """A Rollout that is restarted every night keeps a status of bounded size."""
    there = running(GATES)
    for _ in range(5):
        there = settled(annotated(there, "restart", "true"))

    assert [each.verb for each in there.status.commands].count(Verb.RESTART) <= 1
    assert sizes(there) == {"a": 4}
