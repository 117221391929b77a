"""Promise: whatever people do, and in whatever order, there are never more pods than the spec asks for, and none at 0 replicas;
status counts those that there are, and each command is answered at once.

`ROLLOUTS_MOVES=2000` plays so many moves in each world. The name of a test has its world and its seed: `-k "blue-green and 17"`
plays that one again.
"""

from __future__ import annotations

import os
import random

import pytest

from rollouts.objects import POD
from tests import build
from tests.behaviour.moves import MOVES, WORLDS, Play, played_at_random
from tests.behaviour.stage import KEY, Stage, play

IN_A_SEQUENCE = 18
SEQUENCES = -(-int(os.environ.get("ROLLOUTS_MOVES", "54")) // IN_A_SEQUENCE)
REFUSED = 'rollouts_pass_errors_total{error="Unroutable"}'
"""A pass that meets a route that cannot take the step is counted; it stops nothing else."""


@pytest.mark.parametrize("seed", range(SEQUENCES))
@pytest.mark.parametrize("world", WORLDS)
def test_random_moves_leave_the_right_pods(world: str, seed: int) -> None:
    """Scaled to 0 and back, aborted, promoted, rolled back, held, with Services and templates that go and come back."""
    of, rng = WORLDS[world], random.Random(f"{world} {seed}")  # noqa: S311 - a test's seed
    wrong: list[str] = []
    done: list[str] = []

    async def script(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        acts = Play(stage, of)
        await played_at_random(acts, MOVES, rng, count=IN_A_SEQUENCE, done=done)
        wrong.extend(acts.wrong)

    run = play(of.manifests, script, seed=seed, grace_s=5.0, behind=of.behind, **of.options)

    unexpected = [each for each in run.unexpected if not each.startswith(REFUSED)]
    assert (wrong, run.violations, unexpected) == ([], [], []), done


def test_planted_mistakes_are_seen() -> None:
    """A pod at 0 replicas, and a status that tells another number."""
    of = WORLDS["by the ratio of pods"]
    wrong: list[str] = []

    async def script(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        acts = Play(stage, of)
        labels = acts.pods()[0]["metadata"]["labels"]
        with acts.watched():
            acts.scale(0)
            await stage.until_quiet()
            spec = {"containers": [{"name": "app", "image": "web:1"}]}
            stage.cluster.apply(build.manifest(POD, "stray", KEY.namespace, metadata={"labels": labels}, spec=spec))
            acts.at_rest()
        wrong.extend(acts.wrong)

    play(of.manifests, script)

    assert [each.partition(" ")[0] for each in wrong] == ["a", "at", "Healthy", "at"], wrong
