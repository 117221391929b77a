"""Promise: wherever the controller dies, the next one ends in the same place, and no write on the way breaks an invariant.

Every write of every scenario is a place: the process ends before the request is sent, and after it took effect. Whether the
dead process had read the answer makes no difference to anybody else; that a live one misses it is a fault of its own
(`test_a_fault_of_the_api_is_survived.py`).
"""

from __future__ import annotations

from functools import partial

import pytest

from tests.behaviour.branches import CRASHES, each_fault, places
from tests.behaviour.scenarios import SCENARIOS, played


@pytest.mark.parametrize("name", SCENARIOS)
def test_without_a_crash_the_scenario_ends_as_it_should(name: str) -> None:
    """What the crashed runs are compared with is itself right, and takes one controller only."""
    scenario = SCENARIOS[name]

    run = played(name)

    sizes = {tag: replicas for tag, replicas, *_ in run.end["replicaSets"].values()}
    assert (run.end["status"].get("phase", ""), sizes) == (scenario.phase, scenario.sizes)
    assert run.violations == []
    assert run.unexpected == []
    assert run.senders == {"first"}


@pytest.mark.long
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_crash_at_any_write_ends_as_without(name: str) -> None:
    """All memory is in the API: whichever write was the last one, who comes next sees what was done and does the rest."""
    without = played(name)

    for branch in each_fault(partial(played, name), places(without, CRASHES)):
        run, where = branch.outcome, str(branch)
        assert run.senders == {"first", "second"}, where
        assert run.end == without.end, where
        assert run.violations == [], where
        assert run.unexpected == [], where
