"""Promise: the invariant about the load has teeth: a step that ends against any part of the last answer is found."""

from __future__ import annotations

import pytest

from rollouts.core.model.autoscaling import ScalingCondition
from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import BlueGreen, Canary
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.status import RolloutStatus
from rollouts.core.model.steps import SetWeight
from tests.core.autoscalers import Load
from tests.core.load_moves import GATES
from tests.core.model import snapshot
from tests.core.worlds import edited, running, settled
from tests.invariants.autoscaling import no_step_ends_against_the_load

CANARY = Canary(steps=(SetWeight(25), SetWeight(50)))
GREEN = BlueGreen(active_service="cart")
BURNING = Load(percent={"b": 200})


def _held(load: Load) -> Snapshot:
    there = replace(running(CANARY, autoscaling=GATES[0]), load=load)
    return snapshot(settled(edited(there, revision="b"), seconds=100))


def _next_step(seen: Snapshot) -> RolloutStatus:
    return replace(seen.status, step_index=seen.status.step_index + 1)


@pytest.mark.parametrize(
    "load",
    [
        BURNING,
        Load(changes={"desired": 7}),
        Load(changes={"max_replicas": 4}),
        Load(changes={"scaling_active": ScalingCondition()}),
        Load(none=True),
        Load(unread=True),
        Load(unmeasured=True),
        Load(measured=0),
        Load(requests=0.0),
        Load(percent={"b": -1.0}),
        Load(percent={"b": float("nan")}),
        Load(lag_s=3600.0),
    ],
    ids=repr,
)
def test_a_step_that_ends_against_the_answer_is_found(load: Load) -> None:
    """Each part of the gate alone is enough."""
    seen = _held(load)

    assert {each.rule for each in no_step_ends_against_the_load(seen, _next_step(seen))} == {"S21"}


def test_a_step_without_an_answer_or_with_an_old_one_is_found() -> None:
    """No evidence is never a pass."""
    seen = _held(BURNING)

    for blind in (replace(seen, autoscaling=None), replace(seen, now_s=seen.now_s + 3600)):
        assert no_step_ends_against_the_load(blind, _next_step(blind)) != []


def test_a_preview_and_a_promotion_against_the_answer_are_found() -> None:
    """The same gate, at the end of another strategy, and at the end of all steps."""
    there = replace(running(GREEN, autoscaling=GATES[0]), load=BURNING)
    seen = snapshot(settled(edited(there, revision="b"), seconds=100))
    assert no_step_ends_against_the_load(seen, replace(seen.status, gate_passed=True)) != []

    seen = _held(BURNING)
    seen = replace(seen, status=replace(seen.status, step_index=2))
    assert no_step_ends_against_the_load(seen, replace(seen.status, stable_revision="b")) != []


def test_nothing_is_found_where_nothing_is_asked() -> None:
    """An oracle that cries without a cause is switched off."""
    seen = _held(BURNING)
    unasked = replace(seen, rollout=replace(seen.rollout, spec=replace(seen.rollout.spec, autoscaling=None)))

    assert no_step_ends_against_the_load(unasked, _next_step(unasked)) == []
    assert no_step_ends_against_the_load(seen, seen.status) == []
