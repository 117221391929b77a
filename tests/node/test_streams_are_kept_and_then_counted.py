"""Streams that last longer than any wait: each is kept until its pod's wait is over, and then it is the app's."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.node.cutover import Seen, Trial
from tests.node.lanes import seen_of
from tests.node.moves import CANARY
from tests.node.real_node import Proxy
from tests.node.traffic import Protocol
from tests.node.workload import MAX_REQUEST_S, App

STREAMS: Sequence[tuple[Protocol, str]] = (("http1", "/events?for="), ("websocket", "/socket?for="))
"""Server-sent events and websockets; the app ends one in order after the time in its address."""


def streams_of(app: App, *, last_s: int) -> pytest.MarkDecorator:
    """Five new streams a second while a canary replaces the pods."""
    chosen = [
        Trial(
            move=CANARY,
            proxy=Proxy("nftables"),
            app=app,
            connections="new",
            protocol=protocol,
            ask=f"{ask}{last_s}s",
            rate=5,
            patience_s=last_s + 15,
        )
        for protocol, ask in STREAMS
    ]
    return seen_of(*chosen)


@streams_of("graceful", last_s=15)
def test_streams_are_ended_in_order_by_an_app_that_knows_how(seen: Seen) -> None:
    """The app ends them on SIGTERM, a websocket by its close frame, and none is cut."""
    assert seen.outcome.failed == {}, seen.outcome.failures


@streams_of("dies", last_s=20)
def test_streams_of_an_app_that_dies_are_kept_for_the_wait_and_then_counted(seen: Seen) -> None:
    """No wait can be as long as a stream without end: none is refused or cut before the longest request's time, some after."""
    cut = seen.outcome.failures or []
    assert set(seen.outcome.failed) <= {"cut", "reset"}
    assert cut != []
    assert min(one["after_ms"] for one in cut) >= MAX_REQUEST_S * 1000
