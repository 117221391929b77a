"""Promise: a Prometheus that fails once or twice, within the limits of a metric, changes no verdict and no update."""

from __future__ import annotations

from functools import partial

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
from tests.behaviour.analysed import ANALYSED, IN_ANY_LANE, undisturbed
from tests.behaviour.branches import ForkingQuestions, branched
from tests.behaviour.stage import Run

FAULTS: tuple[PrometheusFault, ...] = (
    Hangs(),
    Unreachable(),
    HttpError(503),
    Replaced("NaN"),
    Empty(),
    StatusError("execution", status=200),
)


def played(name: str, faults: ForkingQuestions) -> Run:
    return ANALYSED[name].play(prometheus=faults)


@pytest.mark.parametrize("times", (1, 2))
@pytest.mark.parametrize("name", IN_ANY_LANE)
def test_a_fault_of_any_question_ends_as_without(name: str, times: int) -> None:
    """Every question of a run, with each fault: neither a success comes of it, nor an abort."""
    disturbed = list(branched(partial(played, name), partial(ForkingQuestions, times=times), dict.fromkeys(FAULTS)))

    assert len(disturbed) == undisturbed(name).questions * len(FAULTS)
    for branch in disturbed:
        run, where = branch.outcome, str(branch)
        assert run.questions > branch.place, where
        assert run.end == undisturbed(name).end, where
        assert (run.violations, run.unexpected) == ([], []), where
