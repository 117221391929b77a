"""Promise: when nothing is in flight any more a drain ends early; what could not be asked is never taken for nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollouts.core.context.pass_context import context_of
from rollouts.core.decide import decide
from rollouts.core.drain.cutover import IDLE_POLLS, POLLS_APART_S, drain_questions
from rollouts.core.model.drain import DrainSpec, EnvoyProbe, OnTimeout
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import AskDrained, PatchReplicaSet
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen
from rollouts.core.model.snapshot import DrainSeen
from rollouts.core.model.status import Cutover, Idle
from tests.core.model import World, snapshot
from tests.core.worlds import edited, quiet, reconciled, running, sizes, steps_of

LAG_S = 3.0
DRAIN = DrainSpec(max_request_s=20.0, probes=(EnvoyProbe(name="requests"),))
STREAMS = replace(DRAIN, probes=(EnvoyProbe(name="requests"), EnvoyProbe(name="sockets", max_s=30.0)))
CUT_SHORT = replace(DRAIN, timeout_s=10.0, on_timeout=OnTimeout.CONTINUE)
ONLY_STREAMS = replace(DRAIN, max_request_s=5.0, probes=(EnvoyProbe(name="sockets", max_s=30.0),))
GREEN = BlueGreen(active_service="cart", preview_service="cart-preview", scale_down_delay_s=0)

NOTHING = DrainSeen(0.0, 0, streams=0)
BUSY = DrainSeen(0.0, 7, streams=2)
STREAMING = DrainSeen(0.0, 0, streams=2)
UNKNOWN = DrainSeen(0.0, None, "envoy 10.0.0.7:19000: refused", streams=None)


def _worlds(drain: DrainSpec, *answers: tuple[float, DrainSeen]) -> Iterator[World]:
    """An update; from so many seconds after its cutover was confirmed on the probes find this."""
    there = edited(running(GREEN, drain=drain), revision="b")
    for _ in range(400):
        after = next(steps_of(there), None)
        if after is None:
            return
        there = _told(after, answers)
        yield there


def _told(there: World, answers: tuple[tuple[float, DrainSeen], ...]) -> World:
    confirmed_at_s = _cutover(there).confirmed_at_s if there.status.cutovers else None
    if confirmed_at_s is None:
        return there
    for after_s, answer in answers:
        if there.now_s >= confirmed_at_s + after_s:
            there = replace(there, probed=answer)
    return there


def _cutover(there: World) -> Cutover:
    return there.status.cutovers[-1]


def _end(drain: DrainSpec, *answers: tuple[float, DrainSeen]) -> tuple[World, float]:
    """The world at the end, and how long the old pods were kept."""
    worlds = list(_worlds(drain, *answers))
    gone_s = [after.now_s for before, after in pairwise(worlds) if "a" in sizes(before) and "a" not in sizes(after)][-1]
    cutover = _cutover(worlds[-1])
    assert cutover.confirmed_at_s is not None
    return worlds[-1], gone_s - cutover.confirmed_at_s


@pytest.mark.parametrize(("probes", "revisions"), [(1, 1), (4, 1), (8, 1), (8, 2), (8, 5)])
def test_no_rollout_asks_more_than_four_times_a_second(probes: int, revisions: int) -> None:
    """Proxies and Prometheus are everybody's; the count of polls still goes on, as they are less than five seconds apart."""
    drain = replace(DRAIN, probes=tuple(EnvoyProbe(name=f"p{at}") for at in range(probes)))
    there = next(each for each in _worlds(drain, (0.0, BUSY)) if each.status.cutovers and each.drains)
    cutover, old = _cutover(there), next(each for each in there.replica_sets if each.revision == "a")
    names = [f"a{at}" for at in range(revisions)]
    there = replace(
        there,
        status=replace(there.status, cutovers=tuple(replace(cutover, from_revision=name) for name in names)),
        replica_sets=(*there.replica_sets, *(replace(old, name=n, uid=n, revision=n) for n in names)),
        drains={},
    )
    asked: list[tuple[float, str]] = []
    start_s = there.now_s
    while there.now_s < start_s + 12.0:
        seen = snapshot(there)
        for each in drain_questions(context_of(seen, seen.status)):
            asked.append((there.now_s, each.revision))
            there = replace(there, drains={**there.drains, each.revision: replace(BUSY, at_s=there.now_s)})
        there = replace(there, now_s=there.now_s + 0.1)

    assert len(asked) * probes <= 4 * 12 + 2 * probes  # the first ones come at once
    for name in {revision for _, revision in asked}:
        times = [at_s for at_s, revision in asked if revision == name]
        assert len(times) >= 3
        assert max(after - before for before, after in pairwise(times)) < POLLS_APART_S


Told = tuple[tuple[float, DrainSeen], ...]
ENDS: dict[str, tuple[DrainSpec, Told, float, tuple[bool, int | None, int | None]]] = {
    "nothing in flight, on three polls a second apart": (DRAIN, ((0.0, NOTHING),), 5.0, (True, 0, None)),
    "nothing in flight, and a timeout": (CUT_SHORT, ((0.0, NOTHING),), 5.0, (True, 0, None)),
    "requests in flight when the timeout is over": (CUT_SHORT, ((0.0, BUSY),), 10.0, (False, 7, None)),
    "requests in flight": (DRAIN, ((0.0, BUSY),), 23.0, (False, 7, None)),
    "a probe that does not answer": (DRAIN, ((0.0, UNKNOWN),), 23.0, (False, None, None)),
    "one that says NaN of requests": (DRAIN, ((0.0, replace(UNKNOWN, streams=0)),), 23.0, (False, None, None)),
    "samples that may be 6 s older": (DRAIN, ((0.0, replace(NOTHING, age_s=6.0)),), 11.0, (True, 0, None)),
    "a busy poll between two": (DRAIN, ((0.0, NOTHING), (4.5, BUSY), (5.5, NOTHING)), 8.0, (True, 0, None)),
    "streams, for their own time": (STREAMS, ((0.0, STREAMING),), 33.0, (False, 0, 2)),
    "streams that end": (STREAMS, ((0.0, STREAMING), (10.0, NOTHING)), 12.0, (True, 0, 0)),
    "no streams says nothing of requests": (ONLY_STREAMS, ((0.0, DrainSeen(0.0, None, streams=0)),), 8.0, (True, None, 0)),
}  # fmt: skip


@pytest.mark.parametrize(("drain", "answers", "after_s", "record"), ENDS.values(), ids=list(ENDS))
def test_what_the_probes_find_ends_the_wait(
    drain: DrainSpec, answers: Told, after_s: float, record: tuple[bool, int | None, int | None]
) -> None:
    """A probe can shorten the wait, never lengthen it: what it cannot say is waited for by time, and so is what is in flight.

    Of three polls, the first is made when no proxy sends anything new. `timeoutSeconds` holds for what is in flight.
    """
    there, kept_s = _end(drain, *answers)
    cutover = _cutover(there)

    assert after_s - 0.1 <= kept_s <= after_s + (1.6 if cutover.drained else 0.1)
    assert (cutover.drained, cutover.in_flight, cutover.streams) == record
    assert cutover.timed_out is (drain is CUT_SHORT and not cutover.drained)
    assert cutover.message.endswith("ended early: nothing was in flight on 3 polls in a row") is cutover.drained
    assert (30.0 in (each.max_s for each in drain.probes)) is ("s for the longest stream" in cutover.message)


def test_the_wait_tells_what_is_in_flight() -> None:
    """`kubectl get` during the wait shows a number that falls, or why there is none."""
    messages = {
        there.status.waiting_for.message
        for answer in (BUSY, UNKNOWN)
        for there in _worlds(STREAMS, (0.0, answer))
        if there.status.waiting_for is not None and there.status.waiting_for.reason is Reason.DRAINING
    }

    assert any(each.endswith("; in flight: 7 requests, 2 streams") for each in messages)
    assert any(each.endswith("; envoy 10.0.0.7:19000: refused") for each in messages)


def test_the_probes_are_asked_once_a_second_while_a_confirmed_cutover_is_open() -> None:
    """Not in every pass, not before the slices confirmed it, and not afterwards."""
    asked: list[float] = []
    for there in _worlds(DRAIN, (0.0, BUSY)):
        questions = [each for each in decide(snapshot(there)).intents if isinstance(each, AskDrained)]
        if questions:
            (cutover,) = there.status.cutovers
            assert questions == [AskDrained("a")]
            assert cutover.confirmed_at_s is not None
            assert cutover.until_s is not None
            assert there.now_s < cutover.until_s
            asked.append(there.now_s)

    assert len(asked) >= 20
    assert all(after - before >= 0.9 for before, after in pairwise(asked))


def test_a_long_wait_for_streams_is_not_a_write_a_second() -> None:
    """The count of quiet polls stops at three; what is in flight meanwhile is told with what can wait."""
    there = edited(running(GREEN, drain=STREAMS), revision="b")
    *_, there = steps_of(replace(there, patient=True, writes=(), probed=STREAMING))

    assert there.writes.count("Status") <= 12


def test_what_was_counted_survives_a_restart_and_a_hole_in_the_polls_starts_it_anew() -> None:
    """A restart costs at most what a wait without probes takes, and never ends a wait on fewer than three polls."""
    one, two = _quiet(1), _quiet(2)

    assert _cutover(_next_poll(two, seconds=1.0)).drained
    late = _cutover(_next_poll(two, seconds=8.0))
    assert (late.drained, late.idle and late.idle.polls) == (False, 1)
    assert _cutover(_next_poll(one, seconds=0.2)).idle == Idle(1, _polled_at_s(one)), "not a second apart"


def _polled_at_s(there: World) -> float:
    idle = _cutover(there).idle
    assert idle is not None
    return idle.at_s


def _quiet(polls: int) -> World:
    """So many polls in a row have found nothing in flight."""
    worlds = (there for there in _worlds(DRAIN, (0.0, NOTHING)) if there.status.cutovers)
    return next(there for there in worlds if (idle := _cutover(there).idle) is not None and idle.polls == polls)


def _next_poll(there: World, *, seconds: float) -> World:
    """So long after a crash the new process has asked once, and has passed on what it knows since."""
    at_s = _polled_at_s(there) + seconds
    return reconciled(replace(there, now_s=at_s, drains={"a": replace(there.probed, at_s=at_s)}))


def test_quiet_polls_end_nothing_while_proxies_may_still_send_requests() -> None:
    """Gateways turned out to be slower than when the polls were counted: what was quiet then may be called until they follow."""
    worlds = (there for there in _worlds(STREAMS, (0.0, STREAMING)) if there.status.cutovers)
    there = next(there for there in worlds if (idle := _cutover(there).idle) is not None and idle.polls == IDLE_POLLS)
    seen = snapshot(edited(there, drain=DRAIN))  # streams no longer count, so nothing else is waited for

    assert decide(seen).status.cutovers[-1].drained
    assert not decide(replace(seen, proxy=replace(seen.proxy, gateway_lag_s=15.0))).status.cutovers[-1].drained


def test_the_end_is_recorded_before_pods_go() -> None:
    """A crash between the two would leave a record of a wait that never was."""
    two = _quiet(2)
    at_s = _polled_at_s(two) + 1.0
    seen = snapshot(replace(two, now_s=at_s, drains={"a": replace(NOTHING, at_s=at_s)}))

    decision = decide(seen)

    assert decision.status.cutovers[-1].drained
    assert not any(isinstance(each, PatchReplicaSet) and each.replicas is not None for each in decision.intents)


def test_an_answer_from_an_earlier_cutover_says_nothing() -> None:
    """A → B → A → B within a minute: what was found at A's pods the first time is not asked for twice."""
    there = next(there for there in _worlds(DRAIN, (0.0, BUSY)) if there.drains)
    old = replace(NOTHING, at_s=there.now_s - 60.0)
    seen = replace(snapshot(there), drains={"a": old})

    assert decide(seen).status.cutovers[-1].idle is None
    assert AskDrained("a") in decide(seen).intents


def test_probes_taken_out_of_the_spec_leave_the_wait_as_it_is_without_them() -> None:
    """What was counted is forgotten, so that probes that come back start anew."""
    two = _quiet(2)

    without = reconciled(edited(two, drain=replace(DRAIN, probes=())))

    assert _cutover(without).idle is None
    assert not _cutover(without).drained


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_a_crash_never_ends_a_wait_before_three_polls_after_the_lag(writes: int) -> None:
    """Every other pass dies after so many writes, and with it what nobody has written down."""
    there = replace(edited(running(GREEN, drain=DRAIN), revision="b"), probed=NOTHING)
    left_s = gone_s = None
    for number in range(400):
        before = there
        there = reconciled(there, writes=writes if number % 2 else None)
        there = quiet(there) if there == before else there
        if there == before:
            wake_s = decide(snapshot(there)).requeue_at_s
            there = replace(there, now_s=max(wake_s or 0.0, there.now_s + 0.01))
        if left_s is None and there.services["cart"].ready_by_revision.get("a", 0) == 0:
            left_s = there.now_s
        if "a" in sizes(before) and "a" not in sizes(there):
            gone_s = there.now_s
            break

    assert left_s is not None
    assert gone_s is not None
    assert LAG_S + 2.0 <= gone_s - left_s + 0.01 <= LAG_S + 20.0 + 0.1


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(answers=st.lists(st.sampled_from([NOTHING, NOTHING, NOTHING, BUSY, UNKNOWN]), min_size=30, max_size=30))
def test_whatever_the_probes_say_the_wait_ends_on_three_quiet_polls_or_at_its_time(answers: list[DrainSeen]) -> None:
    """One answer for each second: pods never go on fewer, nor before the lag, nor later than without probes."""
    there, kept_s = _end(DRAIN, *enumerate(answers))

    if _cutover(there).drained:
        seconds = range(math.ceil(kept_s - 2.1), math.floor(kept_s) + 1)
        assert kept_s >= LAG_S + 2.0
        assert {answers[second] for second in seconds} == {NOTHING}
    else:
        assert kept_s == pytest.approx(LAG_S + 20.0, abs=0.01)
