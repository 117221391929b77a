"""Promise: wherever the controller dies or a write fails, a routed canary ends in the same place, and users notice nothing.

Every write from the change of the image on is a place: the process ends before it is sent, after it took effect, or the write
meets a fault. Between what the route says and what the proxies do there is no moment at which memory would be needed.
"""

from __future__ import annotations

from functools import cache, partial

import pytest

from rollouts.sim.faults import DropReply, Fault, FaultTape
from rollouts.sim.network.gateway import GatewaySettings
from tests.behaviour.branches import CRASHES, each_fault, places
from tests.behaviour.routed import BETA_ROUTE, Outcome, Users, play_routed, weight, world
from tests.behaviour.scenarios import MANUAL
from tests.behaviour.stage import Run, Stage

FAULTS: tuple[Fault, ...] = (*CRASHES, DropReply())
HELD_UP_S = 4.0
STEPS = (BETA_ROUTE, weight(50), MANUAL)
LAGGING = GatewaySettings(route_lag_s=(0.1, 1.0))


async def promoted(stage: Stage, users: Users) -> None:
    """Half of the traffic on image 2, then all of it, then it is stable."""
    stage.image("2")
    await stage.until_phase("Paused", "2")
    stage.annotate("promote", f"{stage.status['currentRevision']}@full")
    await stage.until_phase("Healthy", "2")


async def aborted(stage: Stage, users: Users) -> None:
    """Half of the traffic on image 2, then none."""
    stage.image("2")
    await stage.until_phase("Paused", "2")
    stage.annotate("abort", stage.status["currentRevision"])
    await stage.until_phase("Aborted", "2")


SCRIPTS = {"promoted": promoted, "aborted": aborted}


def played(name: str, tape: FaultTape | None = None) -> Outcome:
    """The scenario, with or without a fault."""
    options = {"abortScaleDownDelaySeconds": 1}
    return play_routed(
        world(*STEPS, replicas=2, strategy=options), SCRIPTS[name], settings=LAGGING, tape=tape, grace_s=HELD_UP_S
    )


@cache
def undisturbed(name: str) -> Outcome:
    """The scenario without a fault."""
    return played(name)


def what_users_met(name: str, tape: FaultTape) -> tuple[Run, dict[int, int]]:
    """The run, and what each lost request met."""
    outcome = played(name, tape)
    return outcome.run, outcome.users.causes


@pytest.mark.long
@pytest.mark.parametrize("name", ["promoted", "aborted"])
def test_a_fault_of_any_one_write_ends_as_without(name: str) -> None:
    """The same objects, route and status; no invariant broken on the way, at the proxies neither; no request lost."""
    without = undisturbed(name)
    assert without.run.violations == []

    for branch in each_fault(partial(what_users_met, name), places(without.run, FAULTS)):
        (run, causes), where = branch.outcome, str(branch)
        assert run.end == without.run.end, where
        assert run.violations == [], where
        assert run.unexpected == [], where
        assert causes == {}, where
