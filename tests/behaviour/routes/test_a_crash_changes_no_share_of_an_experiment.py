"""Promise: whatever becomes of the controller, an Experiment with requests loses none, and the update ends as it would."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.sim.faults import CrashAfter, CrashBefore, DropReply, Fault, FaultTape
from tests.behaviour.routed import Outcome, Users, play_routed, world
from tests.behaviour.routes.test_an_experiment_gets_requests import STEPS, backends, sizes_of_experiments
from tests.behaviour.stage import Stage

pytestmark = pytest.mark.long


def played(faults: dict[int, Fault]) -> tuple[Outcome, dict[str, Any], int]:
    """The update with these faults of the first controller's writes; what is there at the end, and how many writes there were."""
    seen: dict[str, Any] = {}
    tape = FaultTape(faults)

    async def script(stage: Stage, users: Users) -> None:
        del users
        stage.image("2")
        await stage.until_phase("Healthy", "2")
        await stage.until(lambda: set(sizes_of_experiments(stage)) == {0})
        seen["backends"] = backends(stage)

    return play_routed(world(*STEPS), script, tape=tape), seen, tape.seen


@pytest.mark.parametrize("fault", [CrashBefore(), CrashAfter(), DropReply()], ids=lambda each: type(each).__name__)
def test_no_request_is_lost_after_any_single_fault(fault: Fault) -> None:
    """A crash between any two writes: the status with a share, the route with it, the end, and what lets the pods go."""
    _, _, writes = played({})

    assert writes >= 30
    for number in range(10, writes):  # the first revision has its own tests
        outcome, seen, _ = played({number: fault})
        outcome.run.assert_clean()
        assert outcome.users.lost == 0, (number, outcome.users.causes)
        assert seen["backends"] == {"stable": 100, "canary": 0}
