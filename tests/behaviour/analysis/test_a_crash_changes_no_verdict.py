"""Promise: whatever becomes of the controller or of one of its requests, a run ends as it would have ended anyway.

Each scenario is played once without a fault, and then once for every write and every fault.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from rollouts.objects import ANALYSIS_RUN, Manifest
from rollouts.sim.faults import Fault, Slow
from tests.controller.analysis.stage import FAULTS, Outcome, Script, Stage, analysis_run, metric, play, played_with

REST_S = 1_200.0


def falls(number: int) -> Callable[[int], Outcome]:
    """A metric that is bad from that measurement on, however often one is taken again."""
    return lambda each: 1.0 if each < number else 0.5


def down(*numbers: int) -> Callable[[int], Outcome]:
    """A server that gives no answer for these measurements."""
    return lambda each: None if each in numbers else 1.0


@dataclass(frozen=True)
class Scenario:
    """Runs that are there at the beginning, and what is done to them.

    Args:
        terminate_s: when the run named `run` is told to end; None for never.
    """

    runs: tuple[Manifest, ...]
    script: Script = field(default_factory=dict)
    terminate_s: float | None = None

    def play(self, faults: dict[int, Fault]) -> tuple[dict[str, Any], int]:
        """What is there at the end, and how many writes there were."""
        return played_with(
            faults, self.runs, self.script, edit=Stage.edit, end=Stage.end, terminate_s=self.terminate_s, rest_s=REST_S
        )


SCENARIOS = {
    "success": Scenario((analysis_run("run", metric(count=3, interval="2m")),)),
    "failure": Scenario((analysis_run("run", metric(count=4, interval="2m", failureLimit=1)),), {"good": falls(2)}),
    "outage": Scenario((analysis_run("run", metric(count=3, interval="3m")),), {"good": down(2, 3, 4)}),
    "terminated": Scenario((analysis_run("run", metric(interval="2m"), metric("late", initialDelay="1h")),),
                           terminate_s=330),
    "several": Scenario(
        (
            analysis_run("run", metric("one", count=2, interval="2m"), metric("two", initialDelay="90s")),
            analysis_run("wrong", metric(count=5)),
            analysis_run("dry", metric("bad"), metric("good"), dryRun=[{"metricName": "bad"}]),
        ),
        {"bad": lambda _: 0.0},
    ),
    "expires": Scenario(
        (
            analysis_run("run", metric(), ttlStrategy={"secondsAfterSuccess": 60}),
            analysis_run("kept", metric("bad"), ttlStrategy={"secondsAfterSuccess": 60}),
        ),
        {"bad": lambda _: 0.0},
    ),
}  # fmt: skip
VERDICTS = {
    "success": {"run": "Successful"},
    "failure": {"run": "Failed"},
    "outage": {"run": "Successful"},
    "terminated": {"run": "Inconclusive"},
    "several": {"run": "Successful", "wrong": "Error", "dry": "Successful"},
    "expires": {"kept": "Failed"},
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_end_is_the_same_after_every_single_fault(name: str) -> None:
    """A crash between any two writes, a lost request and a lost answer are one case: a prefix of the writes happened."""
    without, writes = SCENARIOS[name].play({})

    assert {run: status["phase"] for run, status in without.items()} == VERDICTS[name]
    assert writes >= len(SCENARIOS[name].runs)
    for number in range(writes):
        for fault in FAULTS:
            end, _ = SCENARIOS[name].play({number: fault})
            assert end == without, (number, fault)


@pytest.mark.parametrize("seed", range(12))
def test_the_end_is_the_same_after_many_faults(seed: int) -> None:
    """Faults come together: a server that throttles loses requests too."""
    rng = random.Random(seed)  # noqa: S311 - a test's seed
    name = rng.choice(sorted(SCENARIOS))
    faults = [each for each in FAULTS if not isinstance(each, Slow)]
    tape = {number: rng.choice(faults) for number in range(12) if rng.random() < 0.4}

    end, _ = SCENARIOS[name].play(dict(tape))

    assert end == SCENARIOS[name].play({})[0], (name, tape)


def test_no_write_but_of_status_and_the_end_of_a_run() -> None:
    """The controller changes nothing of a run but its status, which people have no right to write."""
    seen: list[str] = []
    short = {"secondsAfterCompletion": 5}

    async def scenario(stage: Stage) -> None:
        stage.cluster.apply(analysis_run("run", metric(count=2, interval="10s"), ttlStrategy=short))
        before = stage.run()
        assert before is not None
        async with stage.controller():
            await stage.until_over()
            after = stage.run()
            assert after is not None
            assert after["spec"] == before["spec"]
            assert after["metadata"]["generation"] == before["metadata"]["generation"]
            await stage.cluster.until(
                lambda found: found is None, kind=ANALYSIS_RUN, namespace="default", name="run", deadline_s=10
            )
            seen.append("gone")

    play(scenario)
    assert seen == ["gone"]
