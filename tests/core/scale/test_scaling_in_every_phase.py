"""Promise: people and autoscalers may change `replicas` at any time, and every phase follows without losing its place.

An autoscaler is told of no more pods than `replicas`, and finds all pods that serve: an update alone scales nothing
(tests/e2e/test_tools_people_use.py has a real one). Whose bound was moved past the pods that there are has not settled.
"""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.core.model.rollout import BlueGreen, Canary, Strategy, TrafficRouting
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import (
    MatchTrafficWeight,
    PauseUntilPromoted,
    SetCanaryReplicas,
    SetCanaryScalePercent,
    SetWeight,
    Step,
)
from rollouts.core.scale.settling import Unsettled, is_settled, unsettled
from tests.core.autoscalers import autoscaler
from tests.core.model import annotated
from tests.core.updates import GATE, routed, updating
from tests.core.worlds import edited, running, settled, sizes, steps_of

STEPS = (SetWeight(50), PauseUntilPromoted())
RATIO = Canary(steps=STEPS)
ROUTED = Canary(steps=STEPS, traffic_routing=TrafficRouting())
PREVIEW = BlueGreen(active_service="cart", preview_service="cart-preview", auto_promotion_enabled=False)


@pytest.mark.parametrize(
    ("strategy", "at_4", "at_7", "at_2"),
    [
        (RATIO, {"a": 2, "b": 2}, {"a": 4, "b": 4}, {"a": 1, "b": 1}),
        (ROUTED, {"a": 4, "b": 2}, {"a": 7, "b": 4}, {"a": 2, "b": 1}),
        (PREVIEW, {"a": 4, "b": 4}, {"a": 7, "b": 7}, {"a": 2, "b": 2}),
    ],
)
def test_both_sides_follow_at_a_gate(
    strategy: Strategy, at_4: dict[str, int], at_7: dict[str, int], at_2: dict[str, int]
) -> None:
    """4 → 7 → 2 in the middle of a step, which stays what it was. After an abort the stable side serves, so it scales."""
    there = updating(strategy)
    assert sizes(there) == at_4
    for replicas, wanted in ((7, at_7), (2, at_2), (4, at_4)):
        step = there.status.step_index
        there = settled(edited(there, replicas=replicas))
        assert (sizes(there), there.status.step_index, there.status.phase) == (wanted, step, Phase.PAUSED)

    there = settled(edited(settled(annotated(there, "abort", "b")), replicas=9))
    assert (sizes(there), there.status.phase) == ({"a": 9}, Phase.ABORTED)


@pytest.mark.parametrize("replicas", [2, 3, 4, 6])
@pytest.mark.parametrize(
    "steps",
    [
        (MatchTrafficWeight(), SetWeight(75), GATE, SetCanaryScalePercent(25), GATE),
        (SetCanaryReplicas(9), SetWeight(75), GATE, SetCanaryReplicas(1), GATE),
    ],
)
def test_a_step_of_few_pods_goes_on_where_the_weight_keeps_more_of_them(steps: tuple[Step, ...], replicas: int) -> None:
    """3 of 4 pods serve 75 % of the requests: `setCanaryScale: 25 %` takes none of them, and the update waited for ever."""
    there = settled(edited(updating(routed(*steps)), replicas=replicas))
    enough = -(-3 * replicas // 4)
    for _gate in range(2):
        there = settled(annotated(there, "promote", f"b@{there.status.step_index}"))
        assert there.status.phase in {Phase.PAUSED, Phase.HEALTHY}, there.status.message
        assert sizes(there)["b"] >= enough
    assert (there.status.phase, sizes(there)) == (Phase.HEALTHY, {"b": replicas})


@pytest.mark.parametrize("how", ["spec", "annotation"])
def test_an_autoscaler_acts_during_a_hold(how: str) -> None:
    """Argo Rollouts issue 4261: a paused canary did not scale at all."""
    there = updating(RATIO)
    there = annotated(there, "pause", "true") if how == "annotation" else edited(there, paused=True)

    there = settled(edited(there, replicas=8), seconds=60)

    assert sum(sizes(there).values()) == 8
    assert there.status.phase is Phase.PAUSED


FEW = (SetWeight(5), PauseUntilPromoted(), SetWeight(50), PauseUntilPromoted())
FEW_BY_RATIO = Canary(steps=FEW, max_surge=1, max_unavailable=0)
FEW_ROUTED = Canary(steps=FEW, traffic_routing=TrafficRouting(), scale_down_delay_s=600)


@pytest.mark.parametrize("strategy", [FEW_BY_RATIO, FEW_ROUTED, PREVIEW])
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


@pytest.mark.parametrize("strategy", [FEW_BY_RATIO, FEW_ROUTED])
def test_usage_is_measured_in_all_pods_of_a_canary(strategy: Strategy) -> None:
    """They share the requests: an average of some of them would say nothing of the others. Fewer are told as they are."""
    there = updating(strategy, replicas=20)
    assert there.status.selector == there.rollout.spec.selector_text

    for there in steps_of(edited(running(strategy), replicas=9)):
        assert there.status.hpa_replicas == min(9, there.status.replicas)
    assert there.status.hpa_replicas == 9


NOW_S = 1_790_000_000.0


@pytest.mark.parametrize(
    ("bounds", "why"),
    [
        ({"max_replicas": 3}, "4 pods, its maximum is 3"),
        ({"min_replicas": 5}, "4 pods, its minimum is 5"),
        ({"max_replicas": 4}, None),
        ({"min_replicas": 4}, None),
    ],
)
def test_a_bound_past_the_pods_is_told(bounds: dict[str, Any], why: str | None) -> None:
    """Nobody knows when the autoscaler has followed, so there is no time at which it is over by itself.

    At its bound it has settled: how far it is from there is `minHeadroomPercent`.
    """
    seen = autoscaler(pods=4, **bounds)

    assert unsettled(seen, now_s=NOW_S, replicas=4) == (None if why is None else Unsettled(why))
    assert is_settled(seen, now_s=NOW_S) is (why is None)
