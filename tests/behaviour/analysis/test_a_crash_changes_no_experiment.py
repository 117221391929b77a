"""Promise: whatever becomes of the controller or of one of its requests, an Experiment ends as it would have ended anyway.

Each scene is played once without a fault, and then once for every write and every fault.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from rollouts.objects import Manifest
from rollouts.sim.faults import Fault
from tests.controller.analysis.stage import FAULTS, Script, metric, played_with
from tests.controller.experiments.stage import analysis_template, edit, end, experiment, group, uses

REST_S = 1_200.0


@dataclass(frozen=True)
class Scene:
    """What is there at the beginning, and what is done to it.

    Args:
        terminate_s: when the Experiment is told to end; None for never.
    """

    objects: tuple[Manifest, ...]
    phase: str
    script: Script = field(default_factory=dict)
    terminate_s: float | None = None

    def play(self, faults: dict[int, Fault]) -> tuple[dict[str, Any], int]:
        """What is there at the end, and how many writes there were."""
        return played_with(
            faults, self.objects, self.script, edit=edit, end=end, terminate_s=self.terminate_s, rest_s=REST_S
        )


SCENES = {
    "served": Scene((experiment(group("blue", port=80, service={"name": "blue"}), group("green")),), "Successful"),
    "judged": Scene(
        (
            analysis_template("good", metric("good", count=2, interval="2m")),
            analysis_template("late", metric("late", interval="2m")),
            experiment(duration="9m", analyses=[uses("good", requiredForCompletion=False), uses("late")]),
        ),
        "Successful",
    ),
    "failed": Scene(
        (
            analysis_template("bad", metric("bad", initialDelay="2m")),
            analysis_template("other", metric("other", interval="4m")),
            experiment(analyses=[uses("bad"), uses("other")]),
        ),
        "Failed",
        {"bad": lambda _: 0.0},
    ),
    "late": Scene((experiment(group("blue", image="web:bad"), progressDeadlineSeconds=240),), "Failed"),
    "terminated": Scene(
        (
            analysis_template("good", metric("good", interval="2m")),
            experiment(duration="1h", analyses=[uses("good")]),
        ),
        "Successful",
        terminate_s=330,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SCENES)
def test_the_end_is_the_same_after_every_single_fault(name: str) -> None:
    """A crash between any two writes, a lost request and a lost answer are one case: a prefix of the writes happened."""
    scene = SCENES[name]
    without, writes = scene.play({})

    (told,) = without["experiments"]
    assert told["phase"] == scene.phase
    assert (without["pods"], without["services"], set(without["sizes"])) == ([], [], {0})
    assert writes >= 6
    for number in range(writes):
        for fault in FAULTS:
            found, _ = scene.play({number: fault})
            assert found == without, (number, fault)
