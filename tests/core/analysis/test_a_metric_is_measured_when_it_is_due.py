"""Promise: a metric is measured when its delay, its interval or its provider says so, and never twice at once.

What a measurement leaves for the next one is kept in its metric's result, whatever becomes of the measurement.
"""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.core.analysis.measurement import Measurement, MetricResult, RunStatus
from rollouts.core.analysis.metric import MetricRules
from rollouts.core.analysis.run import TERMINATED, RunDecision, Task, decide_run
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.frozen import replace
from tests.core.analysis.tapes import T0, finished, play, running

BEGUN = RunStatus(phase=AnalysisPhase.RUNNING, started_at_s=T0)


def _begun(last: Measurement | None, **more: Any) -> RunStatus:
    result = MetricResult(name="m", phase=AnalysisPhase.RUNNING, measurements=(last,) if last else (), **more)
    return RunStatus(phase=AnalysisPhase.RUNNING, started_at_s=T0, results=(result,))


def _decided(rules: dict[str, Any], status: RunStatus, at_s: float, **more: Any) -> RunDecision:
    given: dict[str, Any] = {"measured": {}, "asked": (), "terminate": "", **more}
    return decide_run((MetricRules(name="m", **rules),), status, now_s=T0 + at_s, **given)


DUE: list[tuple[str, dict[str, Any], RunStatus, float, float | None]] = [
    ("at once", {}, BEGUN, 0.0, None),
    ("before the delay", {"initial_delay_s": 20.0}, BEGUN, 10.0, 20.0),
    ("after the delay", {"initial_delay_s": 20.0}, BEGUN, 20.0, None),
    ("the delay is the first one's", {"initial_delay_s": 90.0, "interval_s": 60.0}, _begun(finished("S")), 60.0, None),
    ("within the interval", {"interval_s": 60.0}, _begun(finished("S")), 50.0, 60.0),
    ("after the interval", {"interval_s": 60.0}, _begun(finished("S")), 60.0, None),
    ("an error without interval", {}, _begun(finished("E"), error=1), 9.0, 10.0),
    ("10 s after it", {}, _begun(finished("E"), error=1), 10.0, None),
    ("an error before its interval", {"interval_s": 300.0}, _begun(finished("E"), error=1), 10.0, None),
    ("no verdict, within the interval", {"interval_s": 60.0}, _begun(finished("W")), 30.0, 60.0),
    ("no verdict, no interval", {}, _begun(finished("W")), 9.0, 10.0),
    ("in flight, not yet", {}, _begun(running(T0, T0 + 30)), 29.0, 30.0),
    ("in flight, now", {}, _begun(running(T0, T0 + 30)), 30.0, None),
    ("in flight, with no time", {}, _begun(running(T0)), 0.0, None),
]


@pytest.mark.parametrize(("rules", "status", "at_s", "wake_s"), [row[1:] for row in DUE], ids=[row[0] for row in DUE])
def test_a_metric_is_due_by_initial_delay_or_interval(
    rules: dict[str, Any], status: RunStatus, at_s: float, wake_s: float | None
) -> None:
    """Either it is measured now, or the run looks again at the very time."""
    decision = _decided(rules, status, at_s)

    assert [due.metric for due in decision.due] == (["m"] if wake_s is None else [])
    assert decision.wake_at_s == (None if wake_s is None else T0 + wake_s)


def test_the_run_wakes_for_the_first_of_its_metrics() -> None:
    """A late metric must not make another one late."""
    rules = tuple(MetricRules(name=name, initial_delay_s=delay_s) for name, delay_s in (("a", 90.0), ("b", 30.0)))

    decision = decide_run(rules, RunStatus(), measured={}, asked=(), terminate="", now_s=T0)

    assert decision.wake_at_s == T0 + 30
    assert decision.status.started_at_s == T0


def test_all_metrics_that_are_due_are_measured_together() -> None:
    """None waits for another one's answer."""
    decision = decide_run(
        (MetricRules(name="a"), MetricRules(name="b")), BEGUN, measured={}, asked=(), terminate="", now_s=T0
    )

    assert [(due.metric, due.task, due.number) for due in decision.due] == [("a", Task.TAKE, 1), ("b", Task.TAKE, 1)]


def test_what_is_asked_is_not_asked_again() -> None:
    """A second look while an answer is awaited would measure twice."""
    decision = _decided({}, BEGUN, 5.0, asked={"m"})

    assert decision.due == ()
    assert decision.wake_at_s is None
    assert decision.status.results[0].phase is AnalysisPhase.PENDING


def test_a_measurement_that_goes_on_is_resumed_with_what_is_known_of_it() -> None:
    """A Job is found again by what its provider recorded of it."""
    job = Measurement(phase=AnalysisPhase.RUNNING, started_at_s=T0, resume_at_s=T0 + 5, metadata=(("job", "m-1"),))
    recorded = _decided({}, BEGUN, 0.0, measured={"m": job}).status

    (due,) = _decided({}, recorded, 5.0).due

    assert (due.task, due.number, due.measurement) == (Task.RESUME, 1, job)


def test_one_that_gives_no_time_is_looked_at_after_the_interval() -> None:
    """Else it would be looked at without a rest."""
    recorded = _decided({"interval_s": 60.0}, BEGUN, 7.0, measured={"m": running()})

    assert recorded.due == ()
    assert recorded.wake_at_s == T0 + 67


def test_a_measurement_that_was_lost_is_taken_again_under_its_number() -> None:
    """A crash before the status was written must not start a second Job for the same measurement."""
    status = _begun(finished("S"), count=1, successful=1)
    first = _decided({"interval_s": 60.0}, status, 60.0)
    again = _decided({"interval_s": 60.0}, first.status, 61.0)

    assert [due.number for due in (*first.due, *again.due)] == [2, 2]


def test_errors_have_numbers_too() -> None:
    """The Job of a measurement that failed to be taken exists, perhaps; the next one needs another name."""
    played = play((MetricRules(name="m"),), {"m": "EES"})

    assert [(at_s, due.number) for at_s, due in played.asked] == [(0.0, 1), (10.0, 2), (20.0, 3)]


def test_a_run_that_ends_stops_what_is_in_flight_whatever_its_time() -> None:
    """A Job that runs for an hour would else hold the end of the run for an hour."""
    status = _begun(running(T0, T0 + 3600))
    decision = _decided({}, status, 1.0, terminate=TERMINATED)

    assert [due.task for due in decision.due] == [Task.STOP]
    assert not decision.status.phase.over


def test_a_run_that_ends_waits_for_what_was_asked() -> None:
    """A Job that is being made at that moment would else be left behind."""
    ending = _decided({}, BEGUN, 1.0, asked={"m"}, terminate=TERMINATED)
    assert not ending.status.phase.over

    stopped = _decided({}, ending.status, 2.0, measured={"m": running(T0)}, terminate=TERMINATED)
    assert [due.task for due in stopped.due] == [Task.STOP]

    over = _decided({}, stopped.status, 3.0, measured={"m": finished("W")}, terminate=TERMINATED)
    assert over.status.phase is AnalysisPhase.INCONCLUSIVE
    assert over.due == ()


def test_what_had_succeeded_when_it_was_stopped_counts() -> None:
    """The truth came before the end."""
    status = _begun(running(T0, T0 + 3600))

    over = _decided({}, status, 1.0, measured={"m": finished("S")}, terminate=TERMINATED)

    assert over.status.phase is AnalysisPhase.SUCCESSFUL


def test_nothing_new_is_measured_once_a_metric_has_failed() -> None:
    """The verdict is known; each further question costs somebody a server."""
    rules = (MetricRules(name="a"), MetricRules(name="b", interval_s=60.0))
    status = RunStatus(
        phase=AnalysisPhase.RUNNING,
        started_at_s=T0,
        results=(
            MetricResult(name="a", phase=AnalysisPhase.FAILED, failed=1, count=1, measurements=(finished("F"),)),
            MetricResult(name="b", phase=AnalysisPhase.RUNNING, successful=1, count=1, measurements=(finished("S"),)),
        ),
    )

    decision = decide_run(rules, status, measured={}, asked=(), terminate="", now_s=T0 + 600)

    assert decision.due == ()
    assert decision.status.phase is AnalysisPhase.FAILED


ONE = {"interval_s": 30.0, "count": 1, "kept": 1}
FIRST = (("looks", "1"),)
LOOK = Measurement(phase=AnalysisPhase.PENDING, started_at_s=T0, finished_at_s=T0, carried=FIRST)


def test_the_next_measurement_gets_what_one_has_left() -> None:
    """Also where no measurement is kept that had it."""
    begun = _decided(ONE, RunStatus(), 0.0)
    open_still = _decided(ONE, begun.status, 0.0, measured={"m": LOOK})

    (due,) = _decided(ONE, open_still.status, 30.0).due

    assert begun.due[0].carried == ()
    assert (due.carried, due.number) == (FIRST, 1)
    assert open_still.status.results[0].measurements[0].carried == ()


@pytest.mark.parametrize("letter", "EWS")
def test_one_that_leaves_nothing_changes_nothing(letter: str) -> None:
    """A server that does not answer takes away no evidence."""
    before = _decided(ONE, RunStatus(), 0.0, measured={"m": LOOK})

    after = _decided(ONE, before.status, 30.0, measured={"m": finished(letter, T0 + 30)})

    assert after.status.results[0].carried == FIRST


def test_the_same_measurement_twice_is_as_once() -> None:
    """The answer to the write that recorded it may be lost; then it comes again."""
    once = _decided(ONE, RunStatus(), 0.0, measured={"m": LOOK})

    assert _decided(ONE, once.status, 1.0, measured={"m": replace(LOOK)}).status == once.status
