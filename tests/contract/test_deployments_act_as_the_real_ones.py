"""Promise: a simulated Deployment comes to the same ReplicaSets, sizes, owners and conditions as one of a real control plane."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

import pytest

from rollouts.cluster.connection import connect
from rollouts.sim.actors.kubelet import KubeletSettings
from rollouts.sim.clock import run_virtual
from rollouts.sim.cluster import SimulatedCluster
from tests.contract.conversation import Conversation
from tests.contract.deployments.cases import CASES, RACES
from tests.contract.deployments.handed_over import HANDED_OVER
from tests.contract.deployments.stage import Act, played, watching
from tests.lab.control_plane import ControlPlane

AT_ONCE = KubeletSettings(startup_s=(0.0, 0.0))
SEEDS = range(12)
REAL_PLAYS = 4
LANES = 8
"""So many Deployments at a time: more of them only wait for each other."""
REAL_QUIET_S, QUIET_S = 1.5, 5.0

PLAYS = {**CASES, **HANDED_OVER}
ACTS = {name: [act for act, _ in case] for name, case in PLAYS.items()}
LINES = {name: [line for _, line in case] for name, case in PLAYS.items()}


@pytest.mark.parametrize("seed", [0, 1])
def test_every_case_comes_to_its_lines_in_the_simulation(seed: int) -> None:
    """After each act, when nothing changes any more."""
    assert _simulated(ACTS, seed=seed) == LINES


@pytest.mark.controlplane
def test_every_case_comes_to_its_lines_on_a_control_plane(control_plane: ControlPlane, namespace: str) -> None:
    """The lines are measured ones."""
    assert _real(control_plane, namespace, ACTS) == LINES


@pytest.mark.parametrize("name", RACES)
def test_a_race_ends_in_every_way_in_the_simulation(name: str) -> None:
    """Who relies on one of its ends fails with some seed."""
    acts, lines = RACES[name]

    assert {_simulated({name: acts}, seed=seed)[name][-1] for seed in SEEDS} == lines


@pytest.mark.controlplane
def test_a_race_ends_in_no_other_way_on_a_control_plane(control_plane: ControlPlane, namespace: str) -> None:
    """Nobody can order which end it is."""
    acts = {f"{number} {name}": acts for name, (acts, _) in RACES.items() for number in range(REAL_PLAYS)}
    ends = _real(control_plane, namespace, acts)

    others = {name: lines[-1] for name, lines in ends.items() if lines[-1] not in RACES[name.partition(" ")[2]][1]}
    assert others == {}


def _simulated(acts: Mapping[str, Sequence[Act]], *, seed: int) -> dict[str, list[str]]:
    async def run() -> dict[str, list[str]]:
        async with SimulatedCluster(seed=seed, kubelet=AT_ONCE) as cluster:
            talk = Conversation(cluster.api, "default", is_simulated=True)
            return await _all_played(acts, talk, quiet_s=QUIET_S)

    return run_virtual(run())


def _real(plane: ControlPlane, namespace: str, acts: Mapping[str, Sequence[Act]]) -> dict[str, list[str]]:
    async def run() -> dict[str, list[str]]:
        connection = await connect(kubeconfig=plane.kubeconfig_admin, context=None, user_agent="contract/1")
        try:
            talk = Conversation(connection, namespace, is_simulated=False)
            return await _all_played(acts, talk, quiet_s=REAL_QUIET_S)
        finally:
            await connection.aclose()

    return asyncio.run(run())


async def _all_played(acts: Mapping[str, Iterable[Act]], talk: Conversation, *, quiet_s: float) -> dict[str, list[str]]:
    """The lines of each case; all in one namespace, each with a Deployment of its own."""
    lanes = asyncio.Semaphore(LANES)

    async with watching(talk, quiet_s=quiet_s) as watched:

        async def lines(number: int, of_case: Iterable[Act]) -> list[str]:
            async with lanes:
                return await played(f"app-{number}", of_case, watched)

        async with asyncio.TaskGroup() as group:
            tasks = {
                name: group.create_task(lines(number, of_case)) for number, (name, of_case) in enumerate(acts.items())
            }
    return {name: task.result() for name, task in tasks.items()}
