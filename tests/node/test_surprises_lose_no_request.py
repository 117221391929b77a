"""What nobody planned happens in the middle of a move, and no request fails by the controller's doing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.node.cutover import Seen, Trial
from tests.node.real_node import Proxy
from tests.node.surprises import (
    AFTER_THE_END_S,
    CRASHED,
    FROZEN,
    REPLACED,
    SLOW_BLUE_GREEN,
    SLOW_CANARY,
)

IPTABLES = Proxy("iptables")
DIES: dict[str, Any] = {"proxy": IPTABLES, "app": "dies", "connections": "new", "rate": 300}
LONG_REQUESTS: dict[str, Any] = {"ask": "/?delay=6s", "rate": 20, "patience_s": 30}


@pytest.mark.parametrize(
    "seen", [Trial(move=move, **DIES) for move in (SLOW_CANARY, SLOW_BLUE_GREEN)], indirect=True, ids=str
)
def test_the_only_pod_is_replaced_before_it_goes(seen: Seen) -> None:
    """It takes ten seconds until its replacement is ready: evicted first, it would leave nobody to answer."""
    assert seen.outcome.failed == {}, seen.outcome.failures


@pytest.mark.parametrize("seen", [Trial(move=FROZEN, **DIES, alone=True)], indirect=True, ids=str)
def test_no_pod_goes_while_the_controller_manager_stands_still(seen: Seen) -> None:
    """For twenty seconds nobody would replace it, nor tell the proxies that it is going."""
    assert seen.outcome.failed == {}, seen.outcome.failures


@pytest.mark.parametrize("seen", [Trial(move=REPLACED, **{**DIES, **LONG_REQUESTS})], indirect=True, ids=str)
def test_a_service_that_is_replaced_in_a_drain_starts_the_wait_again(seen: Seen) -> None:
    """Its plain manifest selects the old pods once more: what they get then is finished, too."""
    assert seen.outcome.failed == {}, seen.outcome.failures


@pytest.mark.parametrize("seen", [Trial(move=CRASHED, **{**DIES, "connections": "fresh"})], indirect=True, ids=str)
def test_the_old_pods_serve_again_when_the_promoted_ones_have_crashed(seen: Seen) -> None:
    """Requests fail while the app that was promoted crashes, and none that is sent after somebody has gone back.

    From fresh ports: the connection tracker would send one from a port of an unanswered request to the pod of that request.
    """
    failing = [bool(second["failed"]) for second in seen.outcome.seconds]
    versions = [set(second["versions"]) for second in seen.outcome.seconds]

    assert any("2" in answered for answered in versions), "the new revision served before it crashed"
    assert not any(failing[-AFTER_THE_END_S + 1 :])
    assert all(answered <= {"1"} for answered in versions[-AFTER_THE_END_S + 1 :])
