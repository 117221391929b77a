"""Promise: `true` is about what status shows when it is given: no second one is lost, and a late one hits no other template."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from rollouts.manifests.ownership import PREFIX
from rollouts.objects import EVENT, ROLLOUT, Manifest
from rollouts.ports import MERGE_PATCH, Request
from rollouts.sim.actors.kubelet import KubeletSettings
from rollouts.sim.clock import run_virtual
from rollouts.sim.cluster import SimulatedCluster
from tests.behaviour.scenarios import HALF, MANUAL, blue_green, canary, rollout, service
from tests.behaviour.stage import KEY, LIMIT_S, Stage, crds, play

GATES = canary(HALF, MANUAL, MANUAL, {"setWeight": 100}, MANUAL)
SHOWN = ("currentRevision", "stableRevision", "strategyHash", "attempt", "currentStepIndex", "abort", "blueGreen")


def _true_beside_something_new(stage: Stage) -> Callable[[], list[str]]:
    """Watches every version of the Rollout; answers those whose status shows something new beside a `true`."""
    found: list[str] = []
    shown: list[Any] = [None]

    def look(_: object) -> None:
        rollout_now = stage.cluster.get(ROLLOUT, KEY.namespace, KEY.name)
        if rollout_now is None:
            return
        shows = {key: (rollout_now.get("status") or {}).get(key) for key in SHOWN}
        annotations: Manifest = rollout_now["metadata"].get("annotations") or {}
        if shows != shown[0] and "true" in annotations.values():
            found.append(f"{shows} beside {annotations}")
        shown[0] = shows

    unlisten = stage.cluster.api.history.listen(None, look)

    def answer() -> list[str]:
        unlisten()
        return found

    return answer


def _gates_passed(stage: Stage) -> int:
    return int(stage.status.get("currentStepIndex", 0))


def _paused(stage: Stage, *, gates_passed: int | None = None, attempt: int | None = None) -> Callable[[], bool]:
    return lambda: (
        stage.status["phase"] == "Paused"
        and gates_passed in (None, _gates_passed(stage))
        and attempt in (None, stage.status.get("attempt", 0))
    )


async def _impatient(stage: Stage) -> None:
    """Promotes every gate as soon as status shows it, by `true` each time."""
    await stage.until_phase("Healthy", "1")
    beside = _true_beside_something_new(stage)
    stage.image("2")
    for gate in (1, 2, 4):
        await stage.until(_paused(stage, gates_passed=gate))
        stage.annotate("promote", "true")
    await stage.until_phase("Healthy", "2")
    assert beside() == []


def test_every_true_of_an_impatient_person_counts() -> None:
    """The next gate is shown within milliseconds: beside a spent `true` the next one was the same annotation, and was lost."""
    play((rollout(GATES),), _impatient).assert_clean()


async def _there_and_back(stage: Stage) -> None:
    """Aborts and retries as soon as status shows that the one before was done."""
    await stage.until_phase("Healthy", "1")
    beside = _true_beside_something_new(stage)
    stage.image("2")
    for attempt in range(3):
        await stage.until(_paused(stage, attempt=attempt))
        stage.annotate("abort", "true")
        await stage.until(lambda: "abort" in stage.status)
        stage.annotate("retry", "true")
    await stage.until(lambda: stage.status.get("attempt") == 3)
    assert beside() == []


@pytest.mark.parametrize("strategy", [GATES, blue_green(autoPromotionEnabled=False)], ids=["canary", "blue-green"])
def test_every_abort_and_every_retry_counts(strategy: Manifest) -> None:
    """A fourth attempt would be one that nobody asked for, a missing one a command that was lost."""
    play((service("active"), service("preview"), rollout(strategy)), _there_and_back).assert_clean()


def _while_nobody_looks(meanwhile: Callable[[Stage], None], then: Callable[[Stage], Awaitable[None]]) -> None:
    """Image 2 stands at its gate; the controller is killed, something happens, and another one starts."""

    async def main() -> None:
        settings = KubeletSettings(startup_s=(0.3, 0.9))
        async with SimulatedCluster(seed=1, crds=crds(), kubelet=settings) as cluster:
            stage = Stage(cluster)
            first = asyncio.create_task(stage.control(stage.witness.door("first"), seed=1))
            cluster.apply(rollout(GATES))
            await stage.until_phase("Healthy", "1")
            stage.image("2")
            await stage.until(lambda: stage.status["phase"] == "Paused")
            first.cancel()
            with suppress(asyncio.CancelledError):
                await first
            meanwhile(stage)
            second = asyncio.create_task(stage.control(stage.witness.door("second"), seed=2))
            await then(stage)
            stage.stop()
            await second
            assert stage.witness.violations == []

    run_virtual(main(), limit_s=LIMIT_S)


def _record(stage: Stage, verb: str) -> Manifest:
    return next((each for each in stage.status.get("commands", ()) if each["verb"] == verb), {})


@pytest.mark.parametrize("verb", ["promote", "abort", "rollback"])
def test_a_true_that_is_read_late_is_not_about_the_template_that_came_after_it(verb: str) -> None:
    """It was bound to the new one: `rollback` took it back, and `kubectl wait --for=condition=Ready` passed with the old one."""

    def meanwhile(stage: Stage) -> None:
        stage.annotate(verb, "true")
        stage.image("3")

    async def then(stage: Stage) -> None:
        await stage.until_phase("Paused", "3")
        assert _gates_passed(stage) == 1
        await stage.until(lambda: not stage.find(ROLLOUT)["metadata"].get("annotations"))
        record = _record(stage, verb)
        assert (record["outcome"], record["takenOff"]) == ("Refused", True)
        assert "has taken its place" in record["message"]
        await stage.until(lambda: any(record["message"] in each["note"] for each in stage.cluster.list(EVENT)))

    _while_nobody_looks(meanwhile, then)


def test_a_true_that_is_read_late_acts_where_nothing_has_changed() -> None:
    """The controller's absence alone is no reason to refuse."""

    def meanwhile(stage: Stage) -> None:
        stage.annotate("promote", "true")

    async def then(stage: Stage) -> None:
        await stage.until(lambda: _gates_passed(stage) == 2)

    _while_nobody_looks(meanwhile, then)


def test_who_gave_a_command_is_told_by_its_field_manager() -> None:
    """In `status.commands` and in the Event."""

    async def script(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        stage.image("2")
        await stage.until(lambda: stage.status["phase"] == "Paused")
        revision = stage.status["currentRevision"]
        body = msgspec.json.encode({"metadata": {"annotations": {f"{PREFIX}promote": f"{revision}@1"}}})
        path, query = ROLLOUT.path(KEY.namespace, KEY.name), {"fieldManager": "kubectl-annotate"}
        assert stage.cluster.api.answer(Request("PATCH", path, query, body, MERGE_PATCH)).status == 200
        await stage.until(lambda: _gates_passed(stage) == 2)
        record = _record(stage, "promote")
        assert (record["by"], record["byKind"]) == ("kubectl-annotate", "FieldManager")
        await stage.until(
            lambda: any("(by field manager kubectl-annotate)" in each["note"] for each in stage.cluster.list(EVENT))
        )
        await stage.order("promote", f"{revision}@full", "Healthy", "2")

    play((rollout(GATES),), script).assert_clean()
