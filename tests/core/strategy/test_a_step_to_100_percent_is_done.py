"""Promise: a step `setWeight: 100` is done as soon as all that may move has moved, whatever Services still need a stable pod."""

from __future__ import annotations

import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import Canary, TrafficRouting
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.updates import updating
from tests.core.worlds import sizes

STEPS = (SetWeight(50), SetWeight(100), PauseUntilPromoted())
RATIO = Canary(steps=STEPS, max_surge=1, max_unavailable=0)
SERVICES = replace(RATIO, stable_service="cart", canary_service="cart-canary")
STRATEGIES: dict[str, Canary] = {
    "by the ratio of pods": RATIO,
    "with Services": SERVICES,
    "with Services and no surge": replace(SERVICES, max_surge=0, max_unavailable=1),
    "with a stable Service alone": replace(SERVICES, canary_service=None),
    "routed": replace(SERVICES, traffic_routing=TrafficRouting()),
    "routed, dynamic stable": replace(SERVICES, traffic_routing=TrafficRouting(dynamic_stable_scale=True)),
}


@pytest.mark.parametrize("replicas", [1, 2, 4])
@pytest.mark.parametrize("name", STRATEGIES)
def test_it_comes_to_the_gate_behind_it_and_to_its_end(name: str, replicas: int) -> None:
    """Many canaries end in a step to 100: it must not wait for a pod that the stable Service keeps until the steps are over."""
    at_gate = updating(STRATEGIES[name], replicas=replicas)

    assert (at_gate.status.step_index, at_gate.status.phase) == (2, Phase.PAUSED)

    done = updating(replace(STRATEGIES[name], steps=STEPS[:2]), replicas=replicas)

    assert (done.status.phase, sizes(done)) == (Phase.HEALTHY, {"b": replicas})
