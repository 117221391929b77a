"""Promise: what status says of the revision that takes the traffic is what is there: nobody is told that a broken one serves."""

from __future__ import annotations

import pytest

from rollouts.core.model.analysis import Analysis, AnalysisPhase, OnFailure
from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import BlueGreen, Canary, TrafficRouting
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import Analyze, PauseUntilPromoted, SetWeight
from tests.core.measured_runs import runs_measured
from tests.core.model import World, annotated, router
from tests.core.updates import measuring, updating
from tests.core.worlds import (
    pods_unready,
    reconciled,
    replica_sets_caught_up,
    settled,
)

BY_RATIO = Canary(steps=(SetWeight(50), PauseUntilPromoted()))
ROUTED = replace(
    BY_RATIO,
    stable_service="cart",
    canary_service="cart-canary",
    traffic_routing=TrafficRouting(routers=(router("gatewayAPI", "asked-cart"),)),
)
BLUE_GREEN = BlueGreen(active_service="cart", preview_service="cart-preview", auto_promotion_enabled=False)
WHOLE, NONE, FEW = (
    "takes its place;",
    "takes its place, and no pod of it is available",
    "takes its place, with fewer than",
)


def _said(there: World) -> set[str]:
    """What the conditions of an abort say."""
    return {
        each.message for each in there.status.conditions if each.type in ("Aborted", "Ready", "Stalled", "Progressing")
    }


def _aborted(strategy: Canary | BlueGreen, *, broken: int) -> World:
    """Revision b is aborted, and so many pods of the stable one are not ready."""
    there = updating(strategy)
    there = settled(annotated(there, "abort", "b"))
    there = replace(there, bad=frozenset("a"), patient=False)
    return settled(replica_sets_caught_up(pods_unready(there, "a", limit=broken)), seconds=1)


@pytest.mark.parametrize("strategy", [BY_RATIO, ROUTED, BLUE_GREEN], ids=["ratio", "routed", "blue-green"])
@pytest.mark.parametrize(("broken", "words"), [(0, WHOLE), (3, FEW), (4, NONE)])
def test_an_abort_says_whether_the_stable_revision_can_serve(
    strategy: Canary | BlueGreen, broken: int, words: str
) -> None:
    """Argo Rollouts issue 777: stable had 0 of 4 pods ready, and the conditions said that it serves."""
    there = _aborted(strategy, broken=broken)

    assert there.status.phase is Phase.ABORTED
    assert [each for each in _said(there) if words not in each] == []
    assert "serves" not in " ".join((*_said(there), there.status.message))


def test_a_canary_without_pods_says_where_its_traffic_is() -> None:
    """The proxies still send it requests for a moment, and the stable revision may have no pod either."""
    there = updating(ROUTED)
    lost = replica_sets_caught_up(pods_unready(replace(there, bad=frozenset("ab")), "b", limit=9))

    going = reconciled(lost)
    gone = settled(going, seconds=1)
    both = settled(replica_sets_caught_up(pods_unready(gone, "a", limit=9)), seconds=1)

    assert "its traffic goes back to the stable revision" in going.status.message
    assert "its traffic is at the stable revision" in gone.status.message
    assert "its traffic is at the stable revision, and no pod of it is available" in both.status.message


def test_a_weight_that_goes_back_is_there_only_when_the_proxies_have_it() -> None:
    """A failed verdict took it back: until the data plane says so, the clients still get the old share."""
    failed = Analyze(Analysis(path="", settings={}, templates=("rate",), on_failure=OnFailure.STEP_BACK))
    steps = (SetWeight(25), SetWeight(50), failed)
    there = measuring(replace(ROUTED, steps=steps))
    going = reconciled(reconciled(runs_measured(there, AnalysisPhase.FAILED)))
    there = settled(going)

    assert "the weight goes back to 25 %" in going.status.message
    assert "the weight is back at 25 %" in there.status.message
