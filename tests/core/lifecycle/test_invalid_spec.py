"""Promise: a spec that cannot be carried out is reported in full, and what runs goes on as it is."""

from __future__ import annotations

from rollouts.core.decide import decide_invalid
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import Decision
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary
from rollouts.core.model.status import Phase, RolloutStatus
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from rollouts.errors import SpecProblem
from tests.core.model import T0
from tests.core.worlds import edited, reconciled, running, settled

PROBLEMS = (SpecProblem("spec.replicas", "is negative"), SpecProblem("spec.strategy", "names nothing"))


def _told(status: RolloutStatus) -> Decision:
    return decide_invalid(status=status, generation=9, problems=PROBLEMS, now_s=T0 + 50)


def test_every_problem_is_in_the_condition_and_in_one_event() -> None:
    """Not only the first: people mend them all at once."""
    decision = _told(running(Canary()).status)

    condition = next(each for each in decision.status.conditions if each.type == "InvalidSpec")
    assert condition.message == "spec.replicas: is negative; spec.strategy: names nothing"
    assert (condition.status, condition.observed_generation, decision.status.phase) == (True, 9, Phase.DEGRADED)
    assert [(each.reason, each.warning) for each in decision.notices] == [(Reason.INVALID_SPEC, True)]


def test_nothing_is_done_about_it() -> None:
    """The running revision is left as it is, and so is all memory of the update."""
    there = settled(edited(running(Canary(steps=(SetWeight(50), PauseUntilPromoted()))), revision="b"))

    decision = _told(there.status)

    assert decision.intents == ()
    kept = (
        "current_revision",
        "stable_revision",
        "step_index",
        "step_started_at_s",
        "history",
        "commands",
        "weight_percent",
    )
    assert [getattr(decision.status, name) for name in kept] == [getattr(there.status, name) for name in kept]


def test_it_is_told_once() -> None:
    """The second look changes nothing and sends no Event."""
    first = _told(running(Canary()).status)

    second = _told(first.status)

    assert (second.status, second.notices) == (first.status, ())


def test_a_first_spec_that_is_wrong_is_told_too() -> None:
    """There is no status yet."""
    assert _told(RolloutStatus()).status.phase is Phase.DEGRADED


def test_a_mended_spec_goes_on_where_it_was() -> None:
    """The conditions about the wrong one are gone."""
    there = running(Canary())
    there = reconciled(replace(there, status=_told(there.status).status))

    assert there.status.phase is Phase.HEALTHY
    assert {"InvalidSpec", "Stalled"}.isdisjoint({each.type for each in there.status.conditions})
