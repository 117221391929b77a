"""Promise: a Prometheus that fails once or twice, within the limits of a metric, changes no verdict and no update."""

from __future__ import annotations

import pytest

from rollouts.sim.network.prometheus.faults import (
    Empty,
    Hangs,
    HttpError,
    PrometheusFault,
    Replaced,
    StatusError,
    Unreachable,
)
from tests.behaviour.analysed import ANALYSED, IN_ANY_LANE, faults_at, undisturbed

FAULTS: dict[str, PrometheusFault] = {
    "hangs": Hangs(),
    "refused": Unreachable(),
    "503": HttpError(503),
    "NaN": Replaced("NaN"),
    "empty": Empty(),
    "error with 200": StatusError("execution", status=200),
}


@pytest.mark.parametrize("times", (1, 2))
@pytest.mark.parametrize("name", IN_ANY_LANE)
def test_a_fault_of_any_question_ends_as_without(name: str, times: int) -> None:
    """Every question of a run, with each fault: neither a success comes of it, nor an abort."""
    for place in range(undisturbed(name).questions):
        for what, fault in FAULTS.items():
            run = ANALYSED[name].play(prometheus=faults_at(place, *[fault] * times))

            where = f"{what} at question {place}"
            assert run.questions > place, where
            assert run.end == undisturbed(name).end, where
            assert (run.violations, run.unexpected) == ([], []), where
