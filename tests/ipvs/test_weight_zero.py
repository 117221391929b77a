"""An endpoint that is taken out gets weight 0 and stays in the table until its connections are gone; nothing open is cut."""

from __future__ import annotations

from tests.ipvs.plan import Measured, Waits, given

CHECKED_EVERY_S = 60.0  # `rsCheckDeleteInterval` of kube-proxy
SLACK_S = 5.0  # for a guest with one processor
CLOSE_S = 10.0  # the kernel keeps an entry so long after a reset
TIME_WAIT_S = 120.0  # the kernel keeps an entry so long after both sides closed


def test_open_connections_carry_on_at_weight_0_and_new_ones_go_elsewhere(measured: Measured) -> None:
    """This is what makes a drain possible: only the requests of connections that are open reach the pod that leaves."""
    seen = given(measured.linger)
    assert seen.kept >= 3
    assert seen.asked == seen.answered > 50 * seen.kept
    assert (seen.new_staying, seen.new_leaving, seen.new_failed) == (20, 0, {})


def test_weight_0_comes_before_the_wait_is_over(measured: Measured, waits: Waits) -> None:
    """The wait is twice the lag that was seen before; new connections reach the pod for as long as the lag lasts."""
    lags_s = [measured.load["whole"].weight_zero_s, *(one.weight_zero_s for one in measured.reuse.values())]
    assert len(lags_s) == 6
    assert max(lags_s) < waits.wait_s


def test_a_server_with_open_connections_outlives_the_check_of_every_minute(measured: Measured) -> None:
    """The check looks for connections, not for age. After a reset an entry lives 10 s; the next check then finds none."""
    seen = given(measured.linger)
    assert seen.listed_s >= CHECKED_EVERY_S
    assert seen.listed_s >= seen.ended_s - SLACK_S
    assert CLOSE_S - 1 <= seen.deleted_s - seen.ended_s <= CLOSE_S + CHECKED_EVERY_S + SLACK_S


def test_closed_connections_keep_a_server_for_two_minutes_more(measured: Measured) -> None:
    """TIME_WAIT counts as a connection: 120 s, and up to 60 s more until the check."""
    seen = given(measured.closed)
    assert seen.closed >= 2
    assert seen.weight_zero_seen
    assert TIME_WAIT_S - 2 <= seen.time_wait_expires_s <= TIME_WAIT_S
    lived_s = seen.deleted_s - seen.closed_s
    assert TIME_WAIT_S - 1 <= lived_s <= TIME_WAIT_S + CHECKED_EVERY_S + SLACK_S


def test_a_server_without_connections_goes_at_once(measured: Measured, waits: Waits) -> None:
    """It never has weight 0: nothing waits for the check of every minute where there is nothing to wait for."""
    seen = given(measured.unused)
    assert not seen.weight_zero_seen
    assert seen.deleted_s <= waits.wait_s


def test_an_endpoint_that_comes_back_serves_again_and_keeps_its_connections(measured: Measured) -> None:
    """An abort switches selectors back; kube-proxy must take the server off its list of those to delete."""
    seen = given(measured.returned)
    assert seen.kept >= 2
    assert seen.answered == seen.kept
    assert (seen.new_sent, seen.new_to_it) == (10, 5)


def test_a_client_that_sticks_to_a_pod_moves_when_the_pod_leaves(measured: Measured) -> None:
    """`sessionAffinity: ClientIP` lasts three hours by default; `expire_quiescent_template` ends it at weight 0."""
    seen = given(measured.affinity)
    assert seen.before == seen.sent_before
    assert seen.moved == seen.sent_after
    assert seen.kept_answered
