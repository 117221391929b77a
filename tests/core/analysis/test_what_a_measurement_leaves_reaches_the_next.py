"""Promise: what a measurement leaves for the next one is kept in its metric's result, whatever becomes of the measurement."""

from __future__ import annotations

import pytest

from rollouts.core.analysis.measurement import Measurement, MetricResult, RunStatus
from rollouts.core.analysis.metric import MetricRules
from rollouts.core.analysis.run import RunDecision, decide_run
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.frozen import replace

RULES = MetricRules(name="m", interval_s=30.0, count=1, kept=1)
FIRST = (("looks", "1"),)


def _look(status: RunStatus, measured: Measurement | None, *, now_s: float) -> RunDecision:
    found = {} if measured is None else {"m": measured}
    return decide_run((RULES,), status, measured=found, asked=(), terminate="", now_s=now_s)


def _measurement(phase: AnalysisPhase, at_s: float, carried: tuple[tuple[str, str], ...] = ()) -> Measurement:
    return Measurement(phase=phase, started_at_s=at_s, finished_at_s=at_s, carried=carried)


def _result(decision: RunDecision) -> MetricResult:
    (result,) = decision.status.results
    return result


def test_the_next_measurement_gets_it() -> None:
    """Also where no measurement is kept that had it."""
    begun = _look(RunStatus(), None, now_s=100.0)
    open_still = _look(begun.status, _measurement(AnalysisPhase.PENDING, 100.0, FIRST), now_s=100.0)

    (due,) = _look(open_still.status, None, now_s=130.0).due

    assert begun.due[0].carried == ()
    assert (due.carried, due.number) == (FIRST, 1)
    assert _result(open_still).measurements[0].carried == ()


@pytest.mark.parametrize("phase", [AnalysisPhase.ERROR, AnalysisPhase.PENDING, AnalysisPhase.SUCCESSFUL])
def test_one_that_leaves_nothing_changes_nothing(phase: AnalysisPhase) -> None:
    """A server that does not answer takes away no evidence."""
    before = _look(RunStatus(), _measurement(AnalysisPhase.PENDING, 100.0, FIRST), now_s=100.0)

    after = _look(before.status, _measurement(phase, 130.0), now_s=130.0)

    assert _result(after).carried == FIRST


def test_the_same_measurement_twice_is_as_once() -> None:
    """The answer to the write that recorded it may be lost; then it comes again."""
    look = _measurement(AnalysisPhase.PENDING, 100.0, FIRST)
    once = _look(RunStatus(), look, now_s=100.0)

    assert _look(once.status, replace(look), now_s=101.0).status == once.status
