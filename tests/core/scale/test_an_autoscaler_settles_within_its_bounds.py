"""Promise: an autoscaler whose bound was moved past the pods that there are has not settled, whatever its status says.

It scales them at its next look, and until then its status wants the old number: nothing tells that it has not looked.
"""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.core.scale.settling import Unsettled, is_settled, unsettled
from tests.core.autoscalers import autoscaler

NOW_S = 1_790_000_000.0


@pytest.mark.parametrize(
    ("bounds", "why"),
    [({"max_replicas": 3}, "4 pods, its maximum is 3"), ({"min_replicas": 5}, "4 pods, its minimum is 5")],
)
def test_a_bound_past_the_pods_is_told(bounds: dict[str, Any], why: str) -> None:
    """Nobody knows when the autoscaler has followed, so there is no time at which it is over by itself."""
    seen = autoscaler(pods=4, **bounds)

    assert unsettled(seen, now_s=NOW_S, replicas=4) == Unsettled(why)
    assert not is_settled(seen, now_s=NOW_S)


@pytest.mark.parametrize("bounds", [{"max_replicas": 4}, {"min_replicas": 4}])
def test_at_its_bound_it_has_settled(bounds: dict[str, Any]) -> None:
    """What it may not exceed holds no step; how far it is from there is `minHeadroomPercent`."""
    assert is_settled(autoscaler(pods=4, **bounds), now_s=NOW_S)
