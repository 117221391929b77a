"""Promise: while requests are refused and allowed again, at any moment, people's moves leave the right pods, and status the right
counts; each command is answered at once, and no refused request is repeated without a pause.

`ROLLOUTS_MOVES=2000` plays so many moves in each world, as for the moves without refusals.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from rollouts.sim.storage.history import CommittedWrite
from tests.behaviour.moves import LATE_S, MOVES, STEPS, WORLDS, Move, Play, World, played_at_random
from tests.behaviour.refused import INGRESS_CRD, Refused, Refusing, ingress, ingressed, noted
from tests.behaviour.scenarios import STABLE_AND_CANARY
from tests.behaviour.stage import Stage, play
from tests.behaviour.test_random_moves_leave_the_right_pods import IN_A_SEQUENCE, SEQUENCES

SIZES = Refused("replicasets")
PARTS = (
    SIZES,
    Refused("replicasets", method="POST", said="exceeded quota: small"),
    Refused("services"),
    Refused("httproutes"),
    Refused("ingresses", method="DELETE"),
)
REFUSED_WORLDS = {
    **{name: WORLDS[name] for name in ("with Services", "with a route", "blue-green")},
    "with an Ingress": World(
        manifests=(*STABLE_AND_CANARY, ingress(), ingressed(*STEPS, replicas=3)),
        pinned=2,
        options={"more_crds": (INGRESS_CRD,)},
    ),
}
ERRORS = ("ApiForbidden", "Unroutable")
"""What a refused write, and a route that cannot take the step, are counted as; they stop nothing else."""
MOST_IN_A_MINUTE = 60
"""Refused requests: each is tried again after a minute, and at once for what changes; a pass that repeats itself makes hundreds
a second."""


class RefusedPlay(Play):
    """Moves on a cluster that refuses some of them."""

    def __init__(self, stage: Stage, world: World, server: Refusing) -> None:
        super().__init__(stage, world)
        self.server = server
        self._sized_s = -LATE_S

    def toggle(self, rng: random.Random) -> None:
        """One part is refused from now on, or nothing is."""
        self._sized_s = asyncio.get_running_loop().time() if SIZES in self.server.refused else self._sized_s
        self.server.refused = {rng.choice(PARTS)} if rng.random() < 0.6 else set()

    def _made(self, write: CommittedWrite) -> None:
        """While sizes cannot be changed, a ReplicaSet makes again what it has too much of."""
        if SIZES not in self.server.refused and asyncio.get_running_loop().time() > self._sized_s + 60 + LATE_S:
            super()._made(write)


def _toggled(play: Play, rng: random.Random) -> None:
    assert isinstance(play, RefusedPlay)
    play.toggle(rng)


TOGGLES: dict[str, Move] = {f"a part is refused, or allowed again ({number})": _toggled for number in range(1, 5)}
MOVES_AND_REFUSALS = {**MOVES, **TOGGLES}


@pytest.mark.parametrize("seed", range(SEQUENCES))
@pytest.mark.parametrize("world", REFUSED_WORLDS)
def test_random_moves_with_refusals_leave_the_right_pods(world: str, seed: int) -> None:
    """Once all is allowed again, the Rollout comes to the same rest as without refusals."""
    of, rng = REFUSED_WORLDS[world], random.Random(f"refusals {world} {seed}")  # noqa: S311 - a test's seed
    servers: list[Refusing] = []
    wrong: list[str] = []
    done: list[str] = []

    async def script(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        acts = RefusedPlay(stage, of, servers[-1])
        mend = servers[-1].allow_all
        await played_at_random(acts, MOVES_AND_REFUSALS, rng, count=IN_A_SEQUENCE, done=done, mend=mend)
        wrong.extend(acts.wrong)

    run = play(of.manifests, script, seed=seed, grace_s=5.0, behind=of.behind, between=noted(servers), **of.options)

    minutes = Counter(int(at_s // 60) for at_s in servers[-1].refused_at_s)
    most = {minute: count for minute, count in minutes.items() if count > MOST_IN_A_MINUTE}
    wrong += [f"refused requests by minutes: {most}"] if most else []
    unexpected = [each for each in run.unexpected if not any(f'error="{name}"' in each for name in ERRORS)]
    assert (wrong, run.violations, unexpected) == ([], [], []), done
