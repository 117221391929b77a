"""Promise: while nobody knows which weight the proxies follow, every one that is possible counts."""

from __future__ import annotations

from fractions import Fraction

import pytest

from rollouts.core.context.effective_weight import effective_weight
from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import Canary
from rollouts.core.model.status import GivenBack, Traffic
from rollouts.core.model.traffic import Route, RouteSeen, RouteUnasked, Split
from tests.core.model import snapshot
from tests.core.updates import ASKED, routed
from tests.core.worlds import running

HALF = Split(Fraction(1, 2))


def route(split: Split | None, *, named: bool = True) -> RouteSeen:
    """The route of a Rollout, or one that it names no more."""
    seen = snapshot(running(routed())).routes[ASKED]
    assert isinstance(seen, RouteSeen)
    return replace(seen, split=split, named=named)


MOVING = Traffic(desired_percent=50, observed_percent=20)
UNSEEN = Traffic(desired_percent=50)
ASIDE = GivenBack(route=None, percent=75, settle_s=60.0)


@pytest.mark.parametrize(
    ("traffic", "seen_as", "given_back", "least", "most"),
    [
        (None, None, [], 0, 0),
        (None, route(HALF), [], 0, 100),
        (None, route(HALF, named=False), [], 0, 50),
        (None, RouteUnasked(ASKED, named=False), [], 0, 100),
        (UNSEEN, route(HALF), [], 0, 100),
        (UNSEEN, route(None), [], 0, 100),
        (MOVING, route(HALF), [], 20, 50),
        (MOVING, route(Split(Fraction(9, 10))), [], 20, 90),
        (MOVING, RouteUnasked(ASKED), [], 0, 100),
        (Traffic(desired_percent=50, observed_percent=50), route(HALF), [], 50, 50),
        (Traffic(desired_percent=50, observed_percent=50), route(HALF), [ASIDE], 0, 75),
    ],
    ids=[
        "no router", "a wiped status", "a route to give back", "one that was not read yet", "never found live",
        "it cannot be read", "on its way", "somebody wrote another weight", "its answer is too old", "at rest",
        "another one was given back",
    ],
)  # fmt: skip
def test_every_weight_that_some_proxy_may_follow_counts(
    traffic: Traffic | None, seen_as: Route | None, given_back: list[GivenBack], least: int, most: int
) -> None:
    """Pods stay for the most, and an abort waits for the least."""
    seen = snapshot(running(Canary()))
    status = replace(seen.status, traffic=traffic, given_back=tuple(given_back))
    seen = replace(seen, status=status, routes={ASKED: seen_as} if seen_as else {})

    found = effective_weight(seen)

    assert (found.least_percent, found.most_percent) == (least, most)
