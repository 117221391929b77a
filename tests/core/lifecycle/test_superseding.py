"""Promise: a new template in the middle of an update takes its place, and traffic is never sent where pods are missing."""

from __future__ import annotations

import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Canary, Strategy, TrafficRouting
from rollouts.core.model.status import Outcome, Phase
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.model import annotated
from tests.core.updates import updating
from tests.core.worlds import edited, one, running, settled, sizes, steps_of

MOST = Canary(steps=(SetWeight(90), PauseUntilPromoted()), max_surge=1, max_unavailable=0)
DYNAMIC = replace(
    MOST, traffic_routing=TrafficRouting(dynamic_stable_scale=True), stable_service="cart", canary_service="cart-canary"
)


@pytest.mark.parametrize("strategy", [MOST, DYNAMIC, replace(DYNAMIC, stable_service=None, canary_service=None)])
def test_p14_a_second_update_at_a_large_weight_keeps_every_pod_that_serves(strategy: Canary) -> None:
    """Argo Rollouts issue 3372: the traffic went to a stable revision that had been scaled down."""
    there = updating(strategy, replicas=10)
    assert sizes(there) == {"a": 1, "b": 9}

    lowest = 10
    for after in steps_of(edited(there, revision="c")):
        lowest = min(lowest, sum(min(each.available, each.spec_replicas) for each in after.replica_sets))
        there = after

    assert lowest == 10
    assert (there.status.current_revision, sizes(there)) == ("c", {"a": 1, "c": 9})


def test_the_one_superseded_is_remembered_as_such() -> None:
    """History and an Event tell what became of it."""
    there = updating(MOST)

    there = settled(edited(there, revision="c"))

    assert [(each.revision, each.outcome) for each in there.status.history][-1] == ("b", Outcome.SUPERSEDED)
    assert Reason.ROLLOUT_NOT_COMPLETED in {each.reason for each in there.notices}


@pytest.mark.parametrize(
    "strategy", [MOST, DYNAMIC, BlueGreen(active_service="cart", preview_service="cart-preview", auto_promotion_s=60)]
)
def test_p24_a_fix_goes_through_while_the_stable_revision_is_wholly_down(strategy: Strategy) -> None:
    """Flagger issue 639: a broken primary blocked the release that would have mended it."""
    there = running(strategy)
    there = replace(there, bad=frozenset("a"), pods=tuple(replace(pod, ready=False) for pod in there.pods))

    there = settled(edited(there, revision="b"))
    if there.status.phase is Phase.PAUSED:
        there = settled(annotated(there, "promote", "b@full"))

    assert (there.status.phase, there.status.stable_revision, sizes(there)) == (Phase.HEALTHY, "b", {"b": 4})


def test_a_new_revision_starts_at_the_first_step_and_the_first_weight() -> None:
    """The weight of the one before is not inherited."""
    strategy = Canary(steps=(SetWeight(0), PauseUntilPromoted(), SetWeight(90), PauseUntilPromoted()))
    there = settled(annotated(updating(strategy), "promote", "b@1"))
    assert there.status.weight_percent == 90

    there = settled(edited(there, revision="c"))

    assert (there.status.step_index, there.status.weight_percent, sizes(there)) == (1, 0, {"a": 4})
    assert one(there, "c").spec_replicas == 0
