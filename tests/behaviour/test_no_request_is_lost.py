"""Promise: with pods that end gracefully, users' requests are answered all through an update, however it goes.

Constant traffic through the Services, while EndpointSlices are written 0.3 s late and the proxies follow up to 1.3 s later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from rollouts.objects import Manifest
from tests.behaviour.faults.under_load import RATE_PER_S, SETTLING_S, SLICE_LAG_S, Watched, watched
from tests.behaviour.scenarios import (
    HALF,
    MANUAL,
    SHORT,
    aborted_and_retried,
    aborted_and_taken_back,
    blue_green,
    canary,
    scaled,
    superseded,
    updated,
)
from tests.behaviour.stage import Script

LATE_S = 40.0
"""Slices of a control plane that is busy or restarts."""

GRACEFUL_S = 5  # preStop sleep, well above slice lag and proxy lag together


@dataclass(frozen=True)
class Update:
    """An update under traffic; users call its services."""

    strategy: Manifest
    services: tuple[str, ...]
    script: Script


WITH_SERVICES = ("stable", "canary")
ROUTED = {"trafficRouting": {}, "scaleDownDelaySeconds": 0}
UPDATES = {
    "canary": Update(canary(HALF, SHORT), ("web",), updated),
    "canary aborted": Update(canary(HALF, MANUAL), ("web",), aborted_and_retried),
    "canary scaled": Update(canary(HALF, MANUAL), ("web",), scaled),
    "canary superseded": Update(canary(HALF, MANUAL), ("web",), superseded),
    "canary with services": Update(canary(HALF, SHORT, services=True), WITH_SERVICES, updated),
    "canary with services aborted": Update(canary(HALF, MANUAL, services=True), WITH_SERVICES, aborted_and_taken_back),
    "canary with services retried": Update(canary(HALF, MANUAL, services=True), WITH_SERVICES, aborted_and_retried),
    "canary with services superseded": Update(canary(HALF, MANUAL, services=True), WITH_SERVICES, superseded),
    "blue-green": Update(blue_green(autoPromotionSeconds=1), ("active",), updated),
    "blue-green aborted": Update(blue_green(autoPromotionEnabled=False), ("active",), aborted_and_retried),
    "blue-green superseded": Update(blue_green(autoPromotionEnabled=False), ("active",), superseded),
}
ALONE = {
    "routed canary": Update(canary(HALF, services=True, **ROUTED), ("stable",), updated),
    "blue-green": Update(blue_green(autoPromotionSeconds=1, scaleDownDelaySeconds=0), ("active",), updated),
}
"""Updates in which pods lose all of their traffic by a switch before any of them goes."""


def played(update: Update, *, seed: int = 1, **options: Any) -> Watched:
    """The update under requests of the users, within the rules."""
    seen = watched(update.strategy, update.script, *update.services, replicas=2, seed=seed, **options)
    assert seen.run.violations == []
    return seen


@pytest.mark.parametrize("seed", (1, 2))
@pytest.mark.parametrize("name", UPDATES)
def test_no_request_is_lost_by_our_doing(name: str, seed: int) -> None:
    """The first of the three promises of this project, with an app that stops at once and a manifest that says nothing."""
    seen = played(UPDATES[name], seed=seed)

    assert seen.sent > RATE_PER_S * SETTLING_S
    assert seen.lost == 0


@pytest.mark.parametrize(
    "name", ("canary", "canary aborted", "canary superseded", "canary with services", "canary with services superseded")
)
def test_pods_that_stop_at_once_do_lose_requests(name: str) -> None:
    """The proof that the tests above can see a loss: the same updates with `drain.mode: Off`, pods gone before proxies know."""
    assert played(UPDATES[name], drain={"mode": "Off"}).lost > 0


@pytest.mark.parametrize("name", ("canary", "canary with services", "blue-green"))
def test_a_sleep_of_the_users_own_is_as_good(name: str) -> None:
    """Who has written a preStop loses nothing by our leaving it alone."""
    assert played(UPDATES[name], pre_stop_s=GRACEFUL_S).lost == 0


@pytest.mark.parametrize("slice_lag_s", [SLICE_LAG_S, LATE_S])
@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize(("drain", "kept"), [({}, True), ({"timeoutSeconds": 1}, False), ({"mode": "Off"}, False)])
def test_slow_requests_end_before_their_pods_do(name: str, drain: Manifest, slice_lag_s: float, *, kept: bool) -> None:
    """Requests of 10 s, longer than any sleep, with pods that end at SIGTERM: the wait after the switch is what keeps them.

    With a wait that is cut short they are lost, which shows that it is no longer than it must be, and that this test sees it. The
    wait begins when the slices show the old pods no more, so slices that are later than the whole wait change nothing.
    """
    slow = {"preStop": "Off", "maxRequestSeconds": 10, **drain}
    seen = played(ALONE[name], duration_s=10.0, slice_lag_s=slice_lag_s, drain=slow)

    assert (seen.lost == 0) == kept
