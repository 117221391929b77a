"""Pods are replaced under load, by every move that replaces pods, and no client notices: not one request fails."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.node.cutover import Seen, Trial
from tests.node.lanes import seen_of
from tests.node.moves import BLUE_GREEN, CANARY, CANARY_SERVICES, MOVES
from tests.node.real_node import Proxy

IPTABLES, NFTABLES = PROXIES = (Proxy("iptables"), Proxy("nftables"))
SLOW_PROXY = Proxy("iptables", min_sync_period_s=10)
DIES: dict[str, Any] = {"app": "dies", "connections": "new"}
SLOW_REQUESTS: dict[str, Any] = {"ask": "/?delay=3s", "rate": 40}
UPDATES = (CANARY, CANARY_SERVICES, BLUE_GREEN)
ROUNDS = range(int(os.environ.get("ROLLOUTS_NODE_ROUNDS", "1")))
"""Each move is made once, or as often as the environment says: 7 makes over 200 rollouts."""


def each_move(**fields: Any) -> pytest.MarkDecorator:
    """All moves behind both proxies, in each round."""
    return seen_of(
        *(
            Trial(move=move, proxy=proxy, number=number, **fields)
            for proxy in PROXIES
            for number in ROUNDS
            for move in MOVES
        )
    )


@each_move(**DIES)
def test_an_app_that_dies_on_sigterm_loses_no_request_on_new_connections(seen: Seen) -> None:
    """The app was not written for Kubernetes and cannot be changed: what it lacks the cutover has to make up for."""
    assert seen.outcome.failed == {}, seen.outcome.failures


@each_move(app="graceful", connections="kept")
def test_an_app_that_closes_its_connections_loses_no_request_on_kept_ones(seen: Seen) -> None:
    """Only the app can end a kept connection between two requests; when it does, nothing is lost at all."""
    assert seen.outcome.failed == {}, seen.outcome.failures


@seen_of(
    *(Trial(move=move, proxy=proxy, **DIES, drain="off") for proxy in PROXIES for move in (CANARY, CANARY_SERVICES)),
    # Where kube-proxy is faster than the kubelet a blue-green's short requests are all answered in time; long ones are not.
    *(Trial(move=BLUE_GREEN, proxy=proxy, **DIES, **SLOW_REQUESTS, drain="off") for proxy in PROXIES),
)
def test_without_draining_requests_are_lost(seen: Seen) -> None:
    """The clients can see a loss, so that the zeros of the other tests mean something."""
    assert sum(seen.outcome.failed.values()) > 0


@seen_of(
    # In a large cluster kube-proxy changes its rules late; the waits follow its configuration.
    *(Trial(move=move, proxy=SLOW_PROXY, **DIES) for move in UPDATES),
    # An HTTP/2 connection is moved by the server's GOAWAY, and the streams that it had are finished.
    Trial(move=CANARY, proxy=NFTABLES, app="graceful", connections="kept", protocol="h2c"),
)
def test_neither_a_late_proxy_nor_http2_loses_a_request(seen: Seen) -> None:
    """Ten seconds late, and with clients that have one connection for everything."""
    assert seen.outcome.failed == {}, seen.outcome.failures


@seen_of(*(Trial(move=move, proxy=IPTABLES, **DIES, **SLOW_REQUESTS) for move in UPDATES))
def test_requests_of_three_seconds_are_answered_by_the_pod_that_began_them(seen: Seen) -> None:
    """Work that has begun is finished, also by an app that would drop it when told to end."""
    assert seen.outcome.failed == {}, seen.outcome.failures
    assert set(seen.outcome.versions) == {"1", "2"}


@seen_of(Trial(move=CANARY, proxy=IPTABLES, app="dies", connections="kept"))
def test_kept_connections_to_an_app_that_dies_lose_only_what_was_in_flight(seen: Seen) -> None:
    """No proxy below HTTP can move a kept connection: it breaks with its pod, at most one request each; no new one fails."""
    assert set(seen.outcome.failed) <= {"cut", "reset"}
