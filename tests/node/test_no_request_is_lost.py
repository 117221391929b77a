"""Pods are replaced under load, by every move that replaces pods, and no client notices: not one request fails."""

from __future__ import annotations

import os

import pytest

from tests.node.cutover import Cutover
from tests.node.moves import BLUE_GREEN, CANARY, CANARY_SERVICES, MOVES, Move
from tests.node.real_node import Proxy

PROXIES = (Proxy("iptables"), Proxy("nftables"))
SLOW = Proxy("iptables", min_sync_period_s=10)
ROUNDS = range(int(os.environ.get("ROLLOUTS_NODE_ROUNDS", "1")))
"""Each move is made once, or as often as the environment says: 7 makes over 200 rollouts."""

each_proxy = pytest.mark.parametrize("proxy", PROXIES, indirect=True, ids=str)
each_move = pytest.mark.parametrize("move", MOVES, ids=lambda move: move.name)
each_update = pytest.mark.parametrize("move", (CANARY, CANARY_SERVICES, BLUE_GREEN), ids=lambda move: move.name)
each_round = pytest.mark.parametrize("number", ROUNDS)


@each_round
@each_move
@each_proxy
def test_an_app_that_dies_on_sigterm_loses_no_request_on_new_connections(
    cutover: Cutover, move: Move, number: int
) -> None:
    """The app was not written for Kubernetes and cannot be changed: what it lacks the cutover has to make up for."""
    outcome = cutover.under_load(move, app="dies", connections="new")

    assert outcome.failed == {}, outcome.failures


@each_round
@each_move
@each_proxy
def test_an_app_that_closes_its_connections_loses_no_request_on_kept_ones(
    cutover: Cutover, move: Move, number: int
) -> None:
    """Only the app can end a kept connection between two requests; when it does, nothing is lost at all."""
    outcome = cutover.under_load(move, app="graceful", connections="kept")

    assert outcome.failed == {}, outcome.failures


@each_update
@each_proxy
def test_without_draining_requests_are_lost(cutover: Cutover, move: Move) -> None:
    """The clients can see a loss, so that the zeros of the other tests mean something."""
    outcome = cutover.under_load(move, app="dies", connections="new", drain="off")

    assert sum(outcome.failed.values()) > 0


@each_update
@pytest.mark.parametrize("proxy", [SLOW], indirect=True, ids=str)
def test_a_proxy_that_is_ten_seconds_behind_loses_nothing(cutover: Cutover, move: Move) -> None:
    """In a large cluster kube-proxy changes its rules late; the waits follow its configuration."""
    outcome = cutover.under_load(move, app="dies", connections="new")

    assert outcome.failed == {}, outcome.failures


@each_update
@pytest.mark.parametrize("proxy", [PROXIES[0]], indirect=True, ids=str)
def test_requests_of_three_seconds_are_answered_by_the_pod_that_began_them(cutover: Cutover, move: Move) -> None:
    """Work that has begun is finished, also by an app that would drop it when told to end."""
    outcome = cutover.under_load(move, app="dies", connections="new", ask="/?delay=3s", rate=40)

    assert outcome.failed == {}, outcome.failures
    assert set(outcome.versions) == {"1", "2"}


@pytest.mark.parametrize("proxy", [PROXIES[1]], indirect=True, ids=str)
def test_http2_clients_are_moved_without_a_loss(cutover: Cutover) -> None:
    """An HTTP/2 connection is moved by the server's GOAWAY, and the streams that it had are finished."""
    outcome = cutover.under_load(CANARY, app="graceful", connections="kept", protocol="h2c")

    assert outcome.failed == {}, outcome.failures


@pytest.mark.parametrize("proxy", [PROXIES[1]], indirect=True, ids=str)
def test_streams_are_ended_in_order_by_an_app_that_knows_how(cutover: Cutover) -> None:
    """Server-sent events that last longer than any wait: the app ends them when it is told to, and none is cut."""
    outcome = cutover.under_load(
        CANARY, app="graceful", connections="new", ask="/events?for=15s", rate=5, patience_s=30
    )

    assert outcome.failed == {}, outcome.failures


@pytest.mark.parametrize("proxy", [PROXIES[1]], indirect=True, ids=str)
def test_streams_of_an_app_that_dies_are_kept_for_the_wait_and_then_counted(cutover: Cutover) -> None:
    """No wait can be as long as a stream without end; those that had not ended by then are cut, and nobody is refused."""
    outcome = cutover.under_load(CANARY, app="dies", connections="new", ask="/events?for=20s", rate=5, patience_s=30)

    assert set(outcome.failed) <= {"cut", "reset"}
    assert sum(outcome.failed.values()) > 0


@pytest.mark.parametrize("proxy", [PROXIES[0]], indirect=True, ids=str)
def test_kept_connections_to_an_app_that_dies_lose_only_what_was_in_flight(cutover: Cutover) -> None:
    """No proxy below HTTP can move a kept connection: it breaks with its pod, at most one request each; no new one fails."""
    outcome = cutover.under_load(CANARY, app="dies", connections="kept")

    assert set(outcome.failed) <= {"cut", "reset"}
