"""Promise: whatever becomes of the controller or of one of its requests, a step with an Experiment ends as it would have anyway.

Each scene is played once without a fault, and then once for every write of the update and every fault.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rollouts.objects import Manifest
from rollouts.sim.faults import Fault, FaultTape
from tests.behaviour.analysis import experiment_steps as steps
from tests.controller.analysis.stage import FAULTS, Script, Stage, metric, play
from tests.controller.experiments.stage import analysis_template, uses

REST_S = 900.0
JUDGED: Manifest = {"experiment": {"templates": steps.both(), "analyses": [uses("good")]}}
GOOD = metric("good", count=2, interval="30s")
SCENES: dict[str, tuple[Script, dict[str, Any]]] = {
    "good": ({}, {"phase": "Healthy", "experiments": ["Successful"], "promoted": True}),
    "failed": ({"good": lambda _: 0.0}, {"phase": "Aborted", "experiments": ["Failed"], "promoted": False}),
}


def played(script: Script, faults: dict[int, Fault]) -> tuple[dict[str, Any], int]:
    """What is there at the end, and how many writes the update had."""
    ends: list[dict[str, Any]] = []
    tape = FaultTape(faults)

    async def scenario(stage: Stage) -> None:
        async with stage.controller():
            await steps.deploy(stage, steps.rollout(JUDGED, {"setWeight": 50}), analysis_template("good", GOOD))
        steps.change_image(stage, "web:2")
        stop = asyncio.Event()
        running = asyncio.create_task(stage.keep_running(stop, tape))
        await asyncio.sleep(REST_S)
        stop.set()
        await running
        ends.append(steps.end(stage))

    play(scenario, script)
    return ends[0], tape.seen


@pytest.mark.parametrize("name", SCENES)
def test_the_end_is_the_same_after_every_single_fault(name: str) -> None:
    """A crash between any two writes, a lost request and a lost answer are one case: a prefix of the writes happened."""
    script, wanted = SCENES[name]
    without, writes = played(script, {})

    assert {key: without[key] for key in wanted} == wanted
    assert writes >= 10
    for number in range(writes):
        for fault in FAULTS:
            found, _ = played(script, {number: fault})
            assert found == without, (number, fault)
