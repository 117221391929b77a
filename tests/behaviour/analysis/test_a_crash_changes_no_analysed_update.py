"""Promise: wherever the controller dies in an update with an analysis, the next one ends in the same place.

Every write of a pass and of a look at a run is a place: the process ends before the request is sent, and after it took effect.
"""

from __future__ import annotations

from functools import partial

import pytest

from tests.behaviour.analysed import ANALYSED, IN_ANY_LANE, played, undisturbed
from tests.behaviour.branches import CRASHES, each_fault, places


@pytest.mark.parametrize("name", ANALYSED)
def test_without_a_crash_the_update_ends_as_it_should(name: str) -> None:
    """What the crashed runs are compared with is itself right: the verdicts, whose pods serve, and that they are whole."""
    scenario, run = ANALYSED[name], undisturbed(name)

    sizes = {tag: (replicas, available) for tag, replicas, available, *_ in run.end["replicaSets"].values()}
    other = {"1": "2", "2": "1"}[scenario.tag]
    assert (run.end["status"]["phase"], sizes) == (scenario.phase, {scenario.tag: (2, 2), other: (0, 0)})
    assert tuple(phase for _, phase, *_ in run.end["runs"]) == scenario.verdicts
    assert (run.violations, run.unexpected, run.senders) == ([], [], {"first"})


@pytest.mark.parametrize("name", IN_ANY_LANE)
def test_a_crash_at_any_write_ends_as_without(name: str) -> None:
    """What was asked of Prometheus and is not in a run's status is asked again; a verdict on record stays."""
    for branch in each_fault(partial(played, name), places(undisturbed(name), CRASHES)):
        run, where = branch.outcome, str(branch)
        assert run.senders == {"first", "second"}, where
        assert run.end == undisturbed(name).end, where
        assert (run.violations, run.unexpected) == ([], []), where
