"""Promise: a new template in the middle of an update takes its place, and traffic is never sent where pods are missing.

Going back is fast, by the template or by a verb, and the verb does nothing to any later revision.
"""

from __future__ import annotations

import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Canary, Strategy, TrafficRouting
from rollouts.core.model.status import Outcome, Phase
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.model import World, annotated, deleted
from tests.core.updates import condition, updating
from tests.core.worlds import edited, later, one, running, settled, sizes, steps_of

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

    assert (condition(there, "InvalidCommand").reason, there.status.stable_revision) == (Reason.UNKNOWN_REVISION, "b")


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
