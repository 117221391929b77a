"""Promise: Flagger's documented webhooks, as `migrate` writes them, take an update to the end that Flagger takes it to.

The server answers by a script. When it is asked for the first time, the controller dies after its next write, and another one
goes on: so nothing that a gate has said may live in its memory.
"""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from rollouts.cli.migrate.migrated import migrated
from rollouts.metrics.requests import HttpAnswer, HttpRequest, MetricAnswer, NoAnswer
from rollouts.objects import ROLLOUT
from rollouts.ports import Request
from rollouts.sim.faults import CrashAfter, Fault, FaultTape, is_rollout_write
from rollouts.sim.network.prometheus.server import SimPrometheus
from tests.behaviour.stage import KEY, Stage, play
from tests.behaviour.test_what_migrates_plays_to_its_end import CRDS, SETTINGS, accepting, world
from tests.cli.migration_inputs import canary, deployment

URL = "http://gate.test"
HANGS = 0
"""In place of a status: the server never answers."""


class Asked(NamedTuple):
    """What the cluster was when the server was asked, and what it answered: pods of the new image, None without a ReplicaSet."""

    status: int
    pods: int | None
    weight: float


class DeathAtTheFirstQuestion(FaultTape):
    """The controller that has asked dies after its next write."""

    def __init__(self) -> None:
        super().__init__({})
        self.asked = self.dead = False

    def next_fault(self, request: Request) -> Fault | None:
        """See `FaultTape`."""
        dies = self.asked and not self.dead and is_rollout_write(request)
        self.dead = self.dead or dies
        return CrashAfter() if dies else super().next_fault(request)


class Gate(SimPrometheus):
    """Answers with one status after the other, the last one again and again."""

    def __init__(self, stage: Stage, tape: DeathAtTheFirstQuestion, statuses: list[int]) -> None:
        super().__init__(stage.cluster.world, stage.cluster.applications, url=URL)
        self.stage, self.tape, self.statuses = stage, tape, statuses
        self.asked: list[Asked] = []

    async def answer(self, request: HttpRequest, *, limit_s: float) -> MetricAnswer:
        """See `SimPrometheus`."""
        sent: dict[str, Any] = json.loads(request.body)
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        weight = self.stage.status.get("weight") or 0
        self.asked.append(Asked(status, self.stage.sizes().get("2"), weight))
        self.tape.asked = True
        assert request.method == "POST"
        assert (sent["name"], sent["namespace"], sent["metadata"]) == (KEY.name, KEY.namespace, {"team": "shop"})
        assert sent["checksum"] == self.stage.status["currentRevision"]
        await asyncio.sleep(limit_s if status == HANGS else 0.01)
        return NoAnswer("no answer") if status == HANGS else HttpAnswer(status=status, body=b"")


def played(kind: str, statuses: list[int], phase: str) -> list[Asked]:
    """An update of a Canary with one such webhook to its end; what its server was asked."""
    hook = {"name": "gate", "type": kind, "url": f"{URL}/check", "timeout": "5s", "metadata": {"team": "shop"}}
    analysis = {"interval": "10s", "threshold": 2, "stepWeights": [20, 50], "webhooks": [hook]}
    outcome = migrated([canary(analysis=analysis), deployment()])
    assert outcome.complete, outcome.notes
    tape, gates = DeathAtTheFirstQuestion(), list[Gate]()

    async def script(stage: Stage) -> None:
        gates.append(Gate(stage, tape, list(statuses)))
        stage.cluster.metrics.servers.append(gates[0])
        accepting(stage)
        await stage.until_phase("Healthy", "1")
        assert gates[0].asked == [], "the first revision needs no gate"
        stage.image("2")

        def over() -> bool:
            seen = stage.status.get("observedGeneration") == stage.find(ROLLOUT)["metadata"]["generation"]
            return seen and stage.status.get("phase") == phase

        await stage.until(over)
        await asyncio.sleep(30.0)
        assert over(), stage.status
        if phase == "Healthy":
            assert stage.sizes()["2"] == 2
        elif phase == "Aborted":
            assert stage.available("1") == 2

    run = play(world(outcome.objects), script, tape=tape, more_crds=CRDS, settings=SETTINGS)
    violations = [
        each for each in run.violations if "a write that no pass makes" not in each
    ]  # the MetricProvider's status
    assert (violations, run.unexpected) == ([], [])
    assert tape.dead, "no controller has died"
    return gates[0].asked


def test_confirm_rollout_keeps_every_pod_away_until_it_says_yes() -> None:
    """No refusal is counted, whatever it is: 403, an error, no answer, and 204, which is no yes of Flagger's."""
    asked = played("confirm-rollout", [403, 500, HANGS, 204, 200], "Healthy")

    assert {each.status for each in asked} == {403, 500, HANGS, 204, 200}
    assert {each.pods for each in asked} == {None}


def test_no_weight_grows_past_a_closed_confirm_traffic_increase() -> None:
    """It is asked before each increase, the first one too."""
    asked = played("confirm-traffic-increase", [403, 200, 403, 204, 200], "Healthy")

    for before, after in pairwise(asked):
        assert before.status == 200 or after.weight == before.weight, asked
    assert {each.weight for each in asked} == {0, 20}


def test_confirm_promotion_holds_the_last_weight() -> None:
    """It waits for ever, and is not counted."""
    asked = played("confirm-promotion", [403, HANGS, 200], "Healthy")

    assert {each.weight for each in asked} == {50}


@pytest.mark.parametrize(
    ("kind", "statuses", "phase"),
    [
        ("pre-rollout", [403, 200], "Healthy"),
        ("pre-rollout", [500], "Aborted"),
        ("rollout", [202], "Healthy"),
        ("rollout", [200, 403], "Aborted"),
        ("rollback", [403], "Healthy"),
        ("rollback", [403, 200], "Aborted"),
    ],
)
def test_a_webhook_that_is_counted_ends_the_update_at_its_threshold(kind: str, statuses: list[int], phase: str) -> None:
    """A threshold of 2 bears one failed check; a yes of `rollback` is heard at once."""
    asked = played(kind, statuses, phase)

    if kind == "pre-rollout":
        assert {each.weight for each in asked} == {0}


def test_a_counted_webhook_that_never_answers_holds_the_update() -> None:
    """Flagger would roll back. Here no answer is no evidence, for or against; `migrate` says so."""
    played("rollout", [HANGS], "Paused")
