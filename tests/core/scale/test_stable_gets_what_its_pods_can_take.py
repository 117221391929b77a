"""Promise: traffic goes by the pods that are there, also where a manifest of Argo Rollouts says that fewer pods are enough."""

from __future__ import annotations

from fractions import Fraction

import pytest

from rollouts.core.model.rollout import Percent, ProgressThreshold
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from rollouts.core.model.traffic import ALL_TO_STABLE, Split
from tests.core.model import World, annotated
from tests.core.updates import ASKED, routed, updating
from tests.core.worlds import steps_of


def at_weight(percent: int, *, dynamic: bool = False, threshold: ProgressThreshold | None = None) -> World:
    """Four replicas that wait with the canary at this weight."""
    gate = PauseUntilPromoted()
    there = updating(
        routed(SetWeight(percent), gate, dynamic=dynamic, max_unavailable=0, replica_progress_threshold=threshold)
    )
    assert said(there) == Split(Fraction(percent, 100))
    return there


def said(there: World) -> Split:
    """What the route says."""
    split = there.routes[ASKED].split
    assert split is not None
    return split


def ready(there: World, revision: str) -> int:
    """Its ready pods."""
    return sum(pod.ready for pod in there.pods if pod.revision == revision)


def test_a_progress_threshold_is_for_steps_and_not_for_what_comes_back_to_stable() -> None:
    """Argo Rollouts brings everything back as soon as the threshold is met, to a quarter of the pods here."""
    there = at_weight(75, dynamic=True, threshold=ProgressThreshold(Percent(25)))

    for film in steps_of(annotated(there, "abort", "true")):
        there = film
        assert (1 - said(there).share) * 4 <= max(ready(there, "a"), 1), f"{said(there)} with {ready(there, 'a')} pods"

    assert said(there) == ALL_TO_STABLE


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_full_promotion_holds_the_weight_until_every_pod_is_there(dynamic: bool) -> None:
    """With dynamicStableScale Argo Rollouts lets it grow pod by pod; a weight that is held is a weight that was looked at."""
    there = at_weight(25, dynamic=dynamic)
    shares = set()

    for film in steps_of(annotated(there, "promote", "b@full")):
        there = film
        if ready(there, "b") < 4:
            shares.add(said(there).share)

    assert shares == {Fraction(1, 4)}
    assert (there.status.stable_revision, said(there)) == ("b", ALL_TO_STABLE)
