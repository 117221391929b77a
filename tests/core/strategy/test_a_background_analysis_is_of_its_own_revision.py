"""Promise: an analysis beside the steps begins with the first requests of its own revision."""

from __future__ import annotations

from rollouts.core.model.analysis import Analysis
from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import Canary, TrafficRouting
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.model import router
from tests.core.worlds import edited, running, settled

CHECK = Analysis(path="spec.strategy.canary.analysis", settings={}, templates=("success-rate",))
ROUTED = Canary(
    steps=(SetWeight(25), PauseUntilPromoted()),
    analysis=CHECK,
    stable_service="cart",
    canary_service="cart-canary",
    traffic_routing=TrafficRouting(routers=(router("gatewayAPI", "asked-cart"),)),
)


def test_requests_of_the_revision_before_are_not_taken_for_those_of_the_new_one() -> None:
    """A fix comes while a bad version has 25 %: its run began at once, and could be judged by the errors of the other."""
    there = settled(edited(replace(running(ROUTED), unmeasured=True), revision="b"))
    assert [each.revision for each in there.runs] == ["b"]

    there = settled(edited(replace(there, bad=frozenset("c")), revision="c"), seconds=60)
    assert [each.revision for each in there.runs] == ["b"]

    there = settled(replace(there, bad=frozenset()))
    assert [each.revision for each in there.runs] == ["b", "c"]
