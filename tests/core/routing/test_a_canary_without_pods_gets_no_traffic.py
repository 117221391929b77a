"""Promise: traffic that no canary pod could answer goes back to the stable revision; one dead pod of several moves nothing."""

from __future__ import annotations

from fractions import Fraction

import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import SetCanaryReplicas, SetWeight
from rollouts.core.model.traffic import ALL_TO_STABLE, Split
from tests.core.model import annotated
from tests.core.routing.test_traffic_moves_by_weights import ASKED, GATE, canary, plane
from tests.core.updates import updating, waiting, waits_for
from tests.core.worlds import (
    gateways_caught_up,
    pods_unready,
    reconciled,
    replica_sets_caught_up,
    settled,
    sizes,
)


def test_canary_pods_that_die_do_not_move_the_weight_by_themselves() -> None:
    """Health is the analysis' and the deadline's business; a weight that follows readiness would flap."""
    there = updating(canary(SetWeight(50), GATE))
    there = settled(replica_sets_caught_up(pods_unready(replace(there, bad=frozenset("b")), "b", limit=1)), seconds=5)

    assert plane(there) == Split(Fraction(1, 2))


def test_pods_that_have_died_take_no_more_weight_while_the_slices_still_show_them() -> None:
    """S1: a slice says what it last heard; the ReplicaSet's counts may know sooner that a pod is not there."""
    steps = (SetCanaryReplicas(2), SetWeight(50), GATE, SetWeight(75), GATE)
    there = updating(canary(*steps))

    there = replica_sets_caught_up(pods_unready(replace(there, bad=frozenset("b")), "b", limit=1))
    assert there.services["cart-canary"].ready_by_revision == {"b": 2}
    there = annotated(there, "promote", "b@2")
    for _ in range(10):
        there = reconciled(gateways_caught_up(there))

    assert there.routes[ASKED].split == Split(Fraction(1, 2))
    assert waits_for(there) is Reason.PODS_NOT_AVAILABLE
    assert plane(settled(replace(there, bad=frozenset()))) == Split(Fraction(3, 4))


@pytest.mark.parametrize("dynamic", [False, True])
def test_with_no_canary_pod_left_traffic_goes_back_to_stable_at_once(dynamic: bool) -> None:
    """A pause may last an hour, and nobody could answer the requests meanwhile. When all pods are back, so is the weight."""
    there = updating(canary(SetWeight(75), GATE, dynamic_stable_scale=dynamic))
    assert plane(there) == Split(Fraction(3, 4))
    there = replica_sets_caught_up(pods_unready(replace(there, bad=frozenset("b")), "b"))

    gone = settled(there, seconds=5)
    assert plane(gone) == ALL_TO_STABLE
    assert (gone.status.step_index, sizes(gone)["a"]) == (1, 4)
    assert "revision b has 3 pods and none is available" in waiting(gone).message

    back = settled(replace(gone, bad=frozenset()), seconds=5)
    assert (plane(back), back.status.phase) == (Split(Fraction(3, 4)), Phase.PAUSED)
