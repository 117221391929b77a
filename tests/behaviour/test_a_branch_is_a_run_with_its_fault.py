"""Promise: what a branch says is what a run with the same fault from the beginning says, to the byte."""

from __future__ import annotations

from dataclasses import replace
from threading import Lock

import pytest

from rollouts.sim.faults import CrashAfter, CrashBefore, DropRequest, Fault, FaultTape, Slow, Unavailable
from rollouts.sim.network.prometheus.faults import HttpError, PrometheusFault
from tests.behaviour import branches
from tests.behaviour.analysed import ANALYSED
from tests.behaviour.branches import DEEP, ForkingQuestions, branched, each_fault
from tests.behaviour.scenarios import SCENARIOS
from tests.behaviour.stage import Run, play

SCENARIO = SCENARIOS["canary-with-services-by-time"]
FAULTS: tuple[Fault, ...] = (CrashAfter(), Slow(3.0))
FIRST = 9


def played(tape: FaultTape) -> Run:
    """The scenario with the faults of a tape."""
    return play(SCENARIO.manifests, SCENARIO.script, tape=tape, grace_s=4.0)


def test_a_fault_of_a_write_is_the_same_in_a_branch() -> None:
    """Every place from the first one on, each fault of it once, with the same requests and answers."""
    writes = played(FaultTape({})).faultable

    found = list(each_fault(played, *FAULTS, places=range(FIRST, writes)))

    wanted = [(place, fault) for place in range(FIRST, writes) for fault in FAULTS]
    assert [(each.place, each.fault) for each in found] == wanted
    assert [each.outcome for each in found] == [played(FaultTape({place: fault})) for place, fault in wanted]


def test_a_fault_of_questions_is_the_same_in_a_branch() -> None:
    """A fault that lasts for two questions, too."""
    scenario = ANALYSED["canary bad"]
    fault: PrometheusFault = HttpError(503)

    found = list(branched(lambda forks: scenario.play(prometheus=ForkingQuestions(forks, times=2)), [fault]))

    assert [each.outcome for each in found] == [
        scenario.play(prometheus=dict.fromkeys((number, number + 1), fault)) for number in range(len(found))
    ]
    assert found


def _comparable(run: Run) -> Run:
    """Without the number of the request that was never sent, and the order of all."""
    return replace(run, faultable=0, seamless=frozenset(), digest="")


SHOWN = SCENARIOS if DEEP else ["canary-with-services-by-time", "blue-green-superseded"]


@pytest.mark.parametrize("name", SHOWN)
def test_a_crash_before_a_seamless_write_is_the_crash_after_the_write_before(name: str) -> None:
    """So one of the two is played where nothing has happened between them.

    Up to the order of what is due in one instant, such as two Events: a heap of timers gives that, and none is the right one.
    """
    scenario = SCENARIOS[name]

    def one(tape: FaultTape) -> Run:
        return play(scenario.manifests, scenario.script, tape=tape)

    seamless = sorted(one(FaultTape({})).seamless)
    before = each_fault(one, CrashBefore(), places=seamless)
    after = each_fault(one, CrashAfter(), places=[place - 1 for place in seamless])

    assert [_comparable(each.outcome) for each in before] == [_comparable(each.outcome) for each in after]
    assert seamless


@pytest.mark.parametrize("name", SHOWN)
def test_a_lost_request_is_what_a_5xx_is(name: str) -> None:
    """To the byte, at every write: neither took effect, and the sender learns no more of it."""
    scenario = SCENARIOS[name]

    def one(tape: FaultTape) -> Run:
        return play(scenario.manifests, scenario.script, tape=tape, grace_s=4.0)

    every = range(one(FaultTape({})).faultable)
    lost = each_fault(one, DropRequest(), places=every)
    failed = each_fault(one, Unavailable(500), places=every)

    assert [each.outcome for each in lost] == [each.outcome for each in failed]


def test_what_a_branch_raises_is_raised() -> None:
    """With its fault and its traceback: nothing that goes wrong in a branch is lost with its process."""

    def fails(tape: FaultTape) -> Run:
        run = played(tape)
        assert len(run.senders) == 1, "there were two"
        return run

    with pytest.raises(AssertionError, match=r"(?s)CrashAfter\(\) at 9:.*there were two"):
        list(each_fault(fails, CrashAfter(), places=[FIRST]))


def test_a_branch_that_stands_still_ends_and_says_where(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A lock that a thread of the parent held is locked in the branch for good; whoever waits for its answer would wait too."""
    monkeypatch.setattr(branches, "BRANCH_LIMIT_S", 1.0)
    last = played(FaultTape({})).faultable - 1

    def stands_still(tape: FaultTape) -> Run:
        run = played(tape)
        if len(run.senders) > 1:
            locked = Lock()
            locked.acquire()
            locked.acquire()
        return run

    with pytest.raises(AssertionError, match="has ended without an answer"):
        list(each_fault(stands_still, CrashAfter(), places=[last]))
    assert "stands_still" in capfd.readouterr().err
