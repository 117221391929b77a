"""Promise: what a branch says is what a run with the same fault from the beginning says, to the byte."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from threading import Lock

import pytest

from rollouts.core.model.frozen import replace
from rollouts.sim.faults import CrashAfter, CrashBefore, DropRequest, Fault, FaultTape, Slow, Unavailable
from rollouts.sim.network.prometheus.faults import HttpError, PrometheusFault
from tests.behaviour import scenarios
from tests.behaviour.analysed import ANALYSED
from tests.behaviour.branches import DEEP, ForkingQuestions, ForkingTape, branched, each_fault
from tests.behaviour.scenarios import SCENARIOS
from tests.behaviour.stage import Run

pytestmark = pytest.mark.long

FAULTS: tuple[Fault, ...] = (CrashAfter(), Slow(3.0))
FIRST = 9


def played(tape: FaultTape) -> Run:
    """The scenario with the faults of a tape."""
    return scenarios.played("canary-with-services-by-time", tape, grace_s=4.0)


def test_a_fault_of_a_write_is_the_same_in_a_branch() -> None:
    """Every place from the first one on, each fault of it once, with the same requests and answers."""
    writes = played(FaultTape({})).faultable

    found = list(each_fault(played, dict.fromkeys(FAULTS, range(FIRST, writes))))

    wanted = [(place, fault) for place in range(FIRST, writes) for fault in FAULTS]
    assert [(each.place, each.fault) for each in found] == wanted
    assert [each.outcome for each in found] == [played(FaultTape({place: fault})) for place, fault in wanted]


def judged(faults: Mapping[int, PrometheusFault]) -> Run:
    """An update with an analysis, and with these faults of Prometheus."""
    return ANALYSED["canary bad"].play(prometheus=faults)


def test_a_fault_of_questions_is_the_same_in_a_branch() -> None:
    """A fault that lasts for two questions, too."""
    fault: PrometheusFault = HttpError(503)

    found = list(branched(judged, partial(ForkingQuestions, times=2), {fault: None}))

    assert [each.outcome for each in found] == [
        judged(dict.fromkeys((number, number + 1), fault)) for number in range(len(found))
    ]
    assert found


def _comparable(run: Run) -> Run:
    """Without the number of the request that was never sent, and the order of all.

    How many requests there were depends on that order too: what a controller that has just begun reads beside its first pass may
    or may not be asked in the instant in which it dies. Writes are counted apart (`accepted`, `refused`, `effects`).
    """
    return replace(run, faultable=0, seamless=frozenset(), requests=0, digest="")


def fails(tape: FaultTape) -> Run:
    """Takes a second controller for a fault."""
    run = played(tape)
    assert len(run.senders) == 1, "there were two"
    return run


def fails_without_a_fault(tape: FaultTape) -> Run:
    """Fails in the run itself, which has no second controller."""
    run = played(tape)
    assert len(run.senders) == 2, "there were two"
    return run


def ends(tape: FaultTape) -> Run:
    os._exit(3)


def stands_still(tape: FaultTape) -> Run:
    """Waits for itself when there was a second controller."""
    run = played(tape)
    if len(run.senders) > 1:
        locked = Lock()
        locked.acquire()
        locked.acquire()
    return run


SHOWN = SCENARIOS if DEEP else ["canary-with-services-by-time", "blue-green-superseded"]


@pytest.mark.parametrize("name", SHOWN)
def test_a_crash_before_a_seamless_write_is_the_crash_after_the_write_before(name: str) -> None:
    """So one of the two is played where nothing has happened between them.

    Up to the order of what is due in one instant, such as two Events: a heap of timers gives that, and none is the right one.
    """
    one = partial(scenarios.played, name)
    seamless = sorted(one(FaultTape({})).seamless)
    before = each_fault(one, {CrashBefore(): seamless})
    after = each_fault(one, {CrashAfter(): [place - 1 for place in seamless]})

    assert [_comparable(each.outcome) for each in before] == [_comparable(each.outcome) for each in after]
    assert seamless


@pytest.mark.parametrize("name", SHOWN)
def test_a_lost_request_is_what_a_5xx_is(name: str) -> None:
    """To the byte, at every write: neither took effect, and the sender learns no more of it."""
    one = partial(scenarios.played, name, grace_s=4.0)
    every = range(one(FaultTape({})).faultable)
    lost = each_fault(one, {DropRequest(): every})
    failed = each_fault(one, {Unavailable(500): every})

    assert [each.outcome for each in lost] == [each.outcome for each in failed]


def test_what_a_branch_raises_is_raised() -> None:
    """With its fault and its traceback: nothing that goes wrong in a branch is lost with its process."""
    with pytest.raises(AssertionError, match=r"(?s)CrashAfter\(\) at 9:.*there were two"):
        list(each_fault(fails, {CrashAfter(): [FIRST]}))


def test_what_the_run_itself_raises_is_raised() -> None:
    """Without a branch, too: the process that plays it is another one than the test's."""
    with pytest.raises(AssertionError, match=r"(?s)Traceback.*there were two"):
        list(each_fault(fails_without_a_fault, {CrashAfter(): []}))


def test_a_process_that_ends_without_a_word_fails_the_test() -> None:
    """Killed for its memory, or crashed in a library: nobody waits for an answer that cannot come."""
    with pytest.raises(EOFError):
        list(each_fault(ends, {CrashAfter(): [FIRST]}))


def test_a_branch_that_stands_still_ends_and_says_where() -> None:
    """Whoever waits for its answer would wait too."""
    last = played(FaultTape({})).faultable - 1
    places: dict[Fault, list[int]] = {CrashAfter(): [last]}

    with pytest.raises(AssertionError, match=r"(?s)has ended without an answer:.*in stands_still"):
        list(branched(stands_still, ForkingTape, places, limit_s=1.0))
