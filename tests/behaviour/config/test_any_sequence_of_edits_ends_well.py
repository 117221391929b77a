"""Promise: whatever people do with a ConfigMap and the Rollout, and wherever the controller dies, every pod keeps its value.

`ROLLOUTS_DEEP=1` plays 2,000 sequences.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable

import pytest

from rollouts.objects import CONFIG_MAP, POD
from rollouts.sim.faults import CrashAfter, CrashBefore, Fault, FaultTape
from tests.behaviour.configured import (
    CONF,
    config_map,
    configured,
    copies,
    copies_named,
    crash_a_pod,
    healthy,
    owners_of_copies,
    ready_pods,
    touch,
    until_all_answer,
    watched,
    write,
)
from tests.behaviour.stage import KEY, Stage, play

SEQUENCES = 2_000 if os.environ.get("ROLLOUTS_DEEP") == "1" else 6
MOVES = 12
PAUSES_S = (0.0, 0.1, 1.0, 4.0, 20.0, 70.0)

Move = Callable[[Stage, random.Random], object]


def _if_there(act: Move) -> Move:
    """Does it only while the source is there."""
    return lambda stage, rng: act(stage, rng) if stage.cluster.get(CONFIG_MAP, KEY.namespace, CONF) else None


def _crash(stage: Stage, _rng: random.Random) -> None:
    leaving = any("deletionTimestamp" in each["metadata"] for each in stage.cluster.list(POD, KEY.namespace))
    if ready_pods(stage) and not leaving:
        crash_a_pod(stage)


def _lose_a_copy(stage: Stage, rng: random.Random) -> None:
    """Somebody deletes a copy whose content the source has."""
    source = stage.cluster.get(CONFIG_MAP, KEY.namespace, CONF)
    same = [name for name, value in copies(stage).items() if source is not None and source["data"]["key"] == value]
    if same:
        stage.remove(CONFIG_MAP, rng.choice(same))


def _person(verb: str) -> Move:
    return lambda stage, _rng: stage.annotate(verb, "true")


VERBS = ("promote", "abort", "retry", "rollback")
MOVES_OF: dict[str, Move] = {
    "edit": lambda stage, rng: write(stage, rng.choice(("v1", "v2", "v3"))),
    "edit again": lambda stage, rng: write(stage, rng.choice(("v1", "v2", "v3"))),
    "touch": _if_there(lambda stage, rng: touch(stage, rng.randrange(100))),
    "delete": _if_there(lambda stage, _rng: stage.remove(CONFIG_MAP, CONF)),
    "image": lambda stage, rng: stage.image(rng.choice(("1", "2"))),
    "promote again": _person("promote"),
    **{verb: _person(verb) for verb in VERBS},
    "history": lambda stage, rng: stage.edit({"spec": {"revisionHistoryLimit": rng.randrange(3)}}),
    "scale": lambda stage, rng: stage.edit({"spec": {"replicas": rng.randrange(1, 4)}}),
    "crash of a pod": _crash,
    "a copy is deleted": _lose_a_copy,
    "retain, or not": lambda stage, rng: stage.edit({"spec": {"configVersioning": {"retain": rng.random() < 0.5}}}),
}


async def _ended_well(stage: Stage) -> None:
    """People leave it alone: the source is there, nobody holds the Rollout, and what stands at a gate is promoted."""
    for verb in VERBS:
        stage.annotate(verb, None)
    write(stage, "v9")
    versioning = {"retain": False}
    stage.edit({"spec": {"replicas": 2, "revisionHistoryLimit": 0, "configVersioning": versioning}})
    promoted = asyncio.ensure_future(_promote_all(stage))
    await until_all_answer(stage, "v9")
    await stage.until(lambda: stage.status.get("phase") == "Healthy")
    promoted.cancel()
    await stage.until(lambda: len(copies(stage)) == 1)
    assert set(copies(stage)) == copies_named(stage)
    assert owners_of_copies(stage) == [[KEY.name]]


async def _promote_all(stage: Stage) -> None:
    """Somebody promotes each revision that stands at its gate, until cancelled."""
    while True:
        await stage.until(lambda: stage.status.get("phase") == "Paused")
        stage.annotate("promote", f"{stage.status['currentRevision']}@full")
        await stage.until(lambda: stage.status.get("phase") != "Paused")


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_any_sequence_of_edits_ends_well(seed: int) -> None:
    """Edits, deletions, reverts, updates, promotions, aborts, rollbacks, crashes, and copies that nobody needs any more."""
    rng = random.Random(seed)  # noqa: S311 - a test's seed
    crash: Fault = rng.choice((CrashBefore(), CrashAfter()))
    tape = FaultTape({rng.randrange(2, 60): crash})

    async def script(stage: Stage) -> None:
        await healthy(stage)
        for _ in range(MOVES):
            MOVES_OF[rng.choice(sorted(MOVES_OF))](stage, rng)
            await asyncio.sleep(rng.choice(PAUSES_S))
        await _ended_well(stage)

    play(
        (config_map("v1"), configured()), script, seed=seed, tape=tape, grace_s=5.0, alongside=watched()
    ).assert_clean()
