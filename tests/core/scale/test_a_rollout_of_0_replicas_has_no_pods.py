"""Promise: `replicas: 0` is 0 pods of every revision, whatever a step, a preview or a delay asks for; then all sizes come back.

Argo Rollouts issue 4950: a canary at `setCanaryScale: {replicas: 2}` kept its 2 pods forever.
"""

from __future__ import annotations

import pytest

from rollouts.core.model.drain import DrainSpec
from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Canary, Strategy, TrafficRouting
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import PauseUntilPromoted, SetCanaryReplicas, SetWeight
from rollouts.core.model.traffic import ALL_TO_STABLE
from tests.core.model import annotated
from tests.core.updates import routed, updating, waiting, waits_for, with_services
from tests.core.worlds import edited, running, settled, sizes, steps_of

STEPS = (SetWeight(50), PauseUntilPromoted())
PINNED_STEPS = (SetCanaryReplicas(2), SetWeight(50), PauseUntilPromoted())
RATIO = Canary(steps=STEPS)
SERVICES = with_services(*STEPS, max_surge=2)
PINNED = Canary(steps=PINNED_STEPS, traffic_routing=TrafficRouting(min_pods_per_replica_set=2))
ROUTED = routed(*PINNED_STEPS, dynamic=True)
PING_PONG = replace(ROUTED, ping_pong=True)
PREVIEW = BlueGreen(
    active_service="cart", preview_service="cart-preview", preview_replica_count=1, auto_promotion_enabled=False
)
EVERY = (RATIO, SERVICES, PINNED, ROUTED, PING_PONG, PREVIEW)


@pytest.mark.parametrize("strategy", EVERY)
def test_scaled_to_0_in_the_middle_of_an_update_no_pod_is_left_and_the_sizes_come_back(strategy: Strategy) -> None:
    """The step stays what it was. Whoever aborts what is switched off gets the old version in the morning."""
    there = updating(strategy)
    step = there.status.step_index

    off = settled(edited(there, replicas=0))
    assert (sizes(off), off.status.step_index, off.status.phase) == ({}, step, Phase.PAUSED)

    again = settled(edited(off, replicas=4))
    assert (sizes(again), again.status.step_index) == (sizes(there), step)
    assert again.planes == there.planes

    aborted = settled(annotated(off, "abort", "b"))
    assert (sizes(aborted), aborted.status.phase) == ({}, Phase.ABORTED)
    back = settled(edited(aborted, replicas=3))
    assert sizes(back) == {"a": 3}
    assert list(back.planes.values()) == [ALL_TO_STABLE] * len(back.planes)


@pytest.mark.parametrize("strategy", EVERY)
def test_an_update_of_0_replicas_makes_no_pod_and_comes_back_whole(strategy: Strategy) -> None:
    """Neither at its gate nor after its promotion: a Rollout that is switched off overnight."""
    there = settled(edited(running(strategy), replicas=0))
    for after in steps_of(edited(there, revision="b")):
        assert sizes(after) == {}
        there = after
    for after in steps_of(annotated(there, "promote", "b@full")):
        assert sizes(after) == {}
        there = after
    assert (there.status.stable_revision, there.status.phase) == ("b", Phase.HEALTHY)
    assert sizes(settled(edited(there, replicas=3))) == {"b": 3}


@pytest.mark.parametrize("strategy", EVERY)
@pytest.mark.parametrize("replicas", [1, 4])
def test_a_hold_keeps_no_pod_at_0(strategy: Strategy, replicas: int) -> None:
    """Somebody who pauses the steps does not take `replicas` away from its owner."""
    there = edited(updating(strategy, replicas=replicas), paused=True)

    there = settled(edited(settled(there, seconds=30), replicas=0), seconds=600)

    assert (sizes(there), there.status.phase) == ({}, Phase.PAUSED)


@pytest.mark.parametrize("strategy", [SERVICES, ROUTED, PREVIEW])
def test_a_missing_service_keeps_no_pod_at_0(strategy: Strategy) -> None:
    """It is not known where requests go, and nobody wants pods to go to. The missing Service is told all the same."""
    there = updating(strategy)
    there = replace(there, services={name: each for name, each in there.services.items() if name != "cart"}, answers={})

    there = settled(edited(there, replicas=0), seconds=600)

    assert sizes(there) == {}
    assert waits_for(there) is Reason.SERVICE_NOT_FOUND


@pytest.mark.parametrize("strategy", [PINNED, ROUTED, replace(PREVIEW, preview_replica_count=None)])
def test_a_scale_down_delay_keeps_no_old_pod_at_0(strategy: Strategy) -> None:
    """The delay is for a quick way back of those who serve."""
    there = updating(replace(strategy, scale_down_delay_s=3600))
    there = settled(annotated(there, "promote", "b@full"), seconds=900)
    assert there.status.stable_revision == "b"

    off = settled(edited(there, replicas=0), seconds=900)

    assert (sizes(off), off.status.phase) == ({}, Phase.HEALTHY)


def test_a_drain_that_is_under_way_is_told_and_then_its_pods_go() -> None:
    """The requests in flight are not ours to cut; what waits for them says until when."""
    drain = DrainSpec(max_request_s=120.0)
    there = updating(replace(PREVIEW, scale_down_delay_s=30), drain=drain)
    there = settled(annotated(there, "promote", "b@full"), seconds=20)
    assert there.status.stable_revision == "b"
    assert sizes(there) == {"a": 4, "b": 4}

    off = settled(edited(there, replicas=0), seconds=20)

    assert sizes(off) == {"a": 4}
    assert waits_for(off) is Reason.DRAINING
    assert waiting(off).deadline_s is not None
    assert sizes(settled(off)) == {}
