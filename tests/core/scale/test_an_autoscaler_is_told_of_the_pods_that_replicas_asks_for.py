"""Promise: an autoscaler is told of no more pods than `replicas`, and finds all pods that serve: an update alone scales nothing.

What a real one makes of it is in tests/e2e/test_tools_people_use.py.
"""

from __future__ import annotations

import pytest

from rollouts.core.model.rollout import BlueGreen, Canary, Strategy, TrafficRouting
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.model import annotated
from tests.core.updates import updating
from tests.core.worlds import edited, running, settled, steps_of

STEPS = (SetWeight(5), PauseUntilPromoted(), SetWeight(50), PauseUntilPromoted())
RATIO = Canary(steps=STEPS, max_surge=1, max_unavailable=0)
ROUTED = Canary(steps=STEPS, traffic_routing=TrafficRouting(), scale_down_delay_s=600)
PREVIEW = BlueGreen(active_service="cart", auto_promotion_enabled=False)


@pytest.mark.parametrize("strategy", [RATIO, ROUTED, PREVIEW])
def test_no_pod_of_an_update_counts_on_top(strategy: Strategy) -> None:
    """A queue for 20 pods, scaled by its average, made 21 of them at a canary of 5 %: 21 is within an HPA's tolerance."""
    there = edited(running(strategy, replicas=20), revision="b")
    most = 0
    for each in (*steps_of(there), *steps_of(annotated(settled(there), "promote", "b@full"))):
        assert each.status.hpa_replicas <= 20
        most = max(most, sum(one.replicas for one in each.replica_sets))
        there = each

    assert most > 20
    assert there.status.hpa_replicas == 20


def test_fewer_pods_than_asked_for_are_told_as_they_are() -> None:
    """As of a Deployment."""
    there = running(RATIO, replicas=4)
    for each in steps_of(edited(there, replicas=9)):
        assert each.status.hpa_replicas == min(9, each.status.replicas)
        there = each

    assert there.status.hpa_replicas == 9


@pytest.mark.parametrize("strategy", [RATIO, ROUTED])
def test_usage_is_measured_in_all_pods_of_a_canary(strategy: Strategy) -> None:
    """They share the requests: an average of some of them would say nothing of the others."""
    there = updating(strategy, replicas=20)

    assert there.status.selector == there.rollout.spec.selector_text
