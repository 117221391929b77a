"""Promise: a run is decided by its seed, to the byte: what fails once can be made to fail again."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.behaviour.routed import BETA_ROUTE, Users, play_routed, weight, world
from tests.behaviour.scenarios import SCENARIOS
from tests.behaviour.stage import Stage, play

ROOT = Path(__file__).parent.parent.parent
NAMES = ("canary-with-services-superseded", "blue-green-aborted-and-retried")
PROGRAM = f"""
import logging, structlog
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
from tests.behaviour.scenarios import SCENARIOS
from tests.behaviour.stage import play
from tests.behaviour.test_same_seed_same_run import routed_digest
print(routed_digest(seed=7))
for name in {NAMES!r}:
    print(play(SCENARIOS[name].manifests, SCENARIOS[name].script, seed=7).digest)
"""


def digest(name: str, *, seed: int) -> str:
    """Over time, content and answer of every request."""
    return play(SCENARIOS[name].manifests, SCENARIOS[name].script, seed=seed).digest


def routed_digest(*, seed: int) -> str:
    """The same of a canary by a route, with what its users sent where and lost."""

    async def script(stage: Stage, users: Users) -> None:
        await stage.update("2", "Healthy")

    outcome = play_routed(world(BETA_ROUTE, weight(50)), script, seed=seed)
    tally = outcome.users.plain.tally
    return f"{outcome.run.digest} {sorted(tally.sent.items())} {sorted(tally.sent_by_second.items())[-5:]} {outcome.users.lost}"


def test_another_seed_gives_another_run() -> None:
    """Or the digest would tell nothing: lags, connections and the choice of pods are drawn from the seed too."""
    assert routed_digest(seed=7) != routed_digest(seed=8)
    assert all(digest(name, seed=7) != digest(name, seed=8) for name in NAMES)


async def _history_is_forgotten(stage: Stage) -> None:
    while True:
        await asyncio.sleep(1.0)
        stage.cluster.api.compact()
        stage.cluster.api.end_watches()


@pytest.mark.parametrize("name", NAMES)
def test_watches_that_end_together_come_back_in_one_order(name: str) -> None:
    """Not in that of their addresses, which differ from run to run: all list again, and the first one to be heard decides."""
    scenario = SCENARIOS[name]
    runs = [play(scenario.manifests, scenario.script, seed=7, alongside=_history_is_forgotten) for _ in range(3)]

    assert runs[0].digest == runs[1].digest == runs[2].digest


def test_the_same_seed_gives_the_same_run_in_any_process() -> None:
    """Byte by byte, whatever its hash seed: the order of a set must not decide what is written first."""

    def printed(hash_seed: str) -> list[str]:
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        said = subprocess.check_output([sys.executable, "-c", PROGRAM], env=env, cwd=ROOT, text=True, timeout=120)
        return said.splitlines()

    here = [routed_digest(seed=7), *(digest(name, seed=7) for name in NAMES)]
    assert printed("1") == here
    assert printed("2") == here
