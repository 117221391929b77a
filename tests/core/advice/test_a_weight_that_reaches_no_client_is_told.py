"""Promise: where the weights of a canary do not reach the clients of the Service that it switches, somebody says so beforehand.

Argo's users write `stableService` and `canaryService` without a router, send their clients to the first one, and take `setWeight`
for a share of requests (argo-rollouts issue 1760). At 90 % one of ten pods takes all of them.
"""

from __future__ import annotations

import pytest

from rollouts.core.advice.findings import Severity
from rollouts.core.advice.weight_findings import service_without_weight, weight_findings
from rollouts.core.decide import decide
from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Canary, Strategy, TrafficRouting
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.model import snapshot, spec
from tests.core.worlds import running, settled

BY_PODS = Canary(steps=(SetWeight(90), PauseUntilPromoted()), max_surge=1, max_unavailable=0)
WITH_SERVICES = replace(BY_PODS, stable_service="cart", canary_service="cart-canary")


@pytest.mark.parametrize(
    ("strategy", "service"),
    [
        (WITH_SERVICES, "cart"),
        (replace(BY_PODS, stable_service="cart"), "cart"),
        (BY_PODS, None),
        (replace(BY_PODS, canary_service="cart-canary"), None),
        (replace(WITH_SERVICES, steps=(PauseUntilPromoted(),)), None),
        (replace(WITH_SERVICES, steps=(SetWeight(0), SetWeight(100))), None),
        (replace(WITH_SERVICES, traffic_routing=TrafficRouting()), None),
        (BlueGreen(active_service="cart"), None),
    ],
)
def test_which_weights_reach_nobody(strategy: Strategy, service: str | None) -> None:
    """Those between 0 and 100 % of a strategy that switches a Service and names no router."""
    assert service_without_weight(spec(strategy)) == service
    assert bool(weight_findings(spec(strategy), severity=Severity.WARNING)) is (service is not None)


@pytest.mark.parametrize(("strategy", "told"), [(WITH_SERVICES, True), (BY_PODS, False)])
def test_a_condition_says_it_and_what_to_write(strategy: Canary, told: bool) -> None:
    """It is there before the first step: whoever looks at the Rollout sees it, and nothing is held up by it."""
    there = settled(running(strategy))
    status = decide(snapshot(there)).status

    found = [each for each in status.conditions if each.type == "WeightWithoutEffect"]
    assert [(each.status, each.reason) for each in found] == [(True, Reason.WEIGHT_WITHOUT_EFFECT)] * told
    assert all("Service cart selects the stable revision alone" in each.message for each in found)
    assert all("name the router" in each.message for each in found)
    assert status.phase == "Healthy"
