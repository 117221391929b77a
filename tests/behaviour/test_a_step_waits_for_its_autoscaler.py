"""Promise: the controller holds a step while its autoscaler or its containers say no, asks sparingly, and goes on by itself."""

from __future__ import annotations

import asyncio

from rollouts.objects import AUTOSCALER, Manifest
from rollouts.sim.network.consumption import Consumption
from tests import build
from tests.behaviour.scenarios import HALF, SHORT, canary, rollout
from tests.behaviour.stage import KEY, Stage, play

GATE: Manifest = {"settled": True, "minHeadroomPercent": 20}
HPAS = f"GET {AUTOSCALER.plural}"
QUARTER: Manifest = {"setWeight": 25}
IDLE_CORES, BURNT_CORES = 0.05, 0.95
"""Of the 0.5 cores that each pod requests: 10 % and 190 %."""

LIMIT: Manifest = {"container": "app", "resource": "cpu", "maxUtilizationPercent": 90}
AVERAGE: Manifest = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 55}},
}
"""The CPU of all pods: three at 10 % and one at 190 % are 55 %, within the autoscaler's tolerance of its target."""
GO_ON_WITHIN_S = 300.0
HELD_FOR_S = 600.0


def _autoscaler(most: int, *metrics: Manifest, least: int = 1) -> Manifest:
    return build.autoscaler(KEY.name, KEY.namespace, *metrics, most=most, minReplicas=least)


def _says(stage: Stage, current: int, desired: int) -> None:
    """What the HPA controller writes after a look."""
    works = [{"type": kind, "status": "True", "reason": "x"} for kind in ("ScalingActive", "AbleToScale")]
    status = {"currentReplicas": current, "desiredReplicas": desired, "observedGeneration": 1, "conditions": works}
    stage.merge(AUTOSCALER, "web", {"status": status}, part="status")


def _asked(stage: Stage) -> int:
    return sum(each.what == HPAS for each in stage.witness.arrivals)


def test_an_autoscaler_at_its_maximum_holds_the_next_step_and_says_so() -> None:
    """Somebody raises maxReplicas, and it goes on. It asks four times a minute while it waits, and never before or after."""
    asked: list[int] = []

    async def script(stage: Stage) -> None:
        stage.cluster.apply(_autoscaler(2))
        _says(stage, 2, 2)
        await stage.until_phase("Healthy", "1")
        await asyncio.sleep(300)
        asked.append(_asked(stage))
        stage.image("2")
        await stage.until(lambda: stage.waits_for == "NoHeadroom")
        said = "autoscaler web is at 2 of 2 pods: headroom 0 %, the next step needs 20 %: raise maxReplicas"
        assert stage.status["waitingFor"]["message"].startswith(said)
        before = _asked(stage)
        await asyncio.sleep(600)
        assert (stage.status["currentStepIndex"], stage.sizes()) == (0, {"1": 1, "2": 1})
        asked.append(_asked(stage) - before)
        stage.cluster.apply(_autoscaler(10))
        _says(stage, 2, 2)
        await stage.until_phase("Healthy", "2")
        asked.append(-_asked(stage))
        await asyncio.sleep(300)
        asked[-1] += _asked(stage)

    run = play((rollout(canary(HALF, SHORT), autoscaling=GATE),), script)

    run.assert_clean()
    idle, held, after = asked
    assert (idle, after) == (0, 0)
    assert 36 <= held <= 41


def test_a_rollout_without_an_autoscaler_is_told_and_promoted_by_a_person() -> None:
    """The spec asks for what nobody made: that is a mistake, which a script learns of, and no reason to go on."""

    async def script(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        stage.image("2")
        await stage.until(lambda: stage.waits_for == "AutoscalerNotFound")
        await asyncio.sleep(600)
        assert (stage.status["phase"], stage.status["currentStepIndex"]) == ("Degraded", 0)
        await stage.order("promote", f"{stage.status['currentRevision']}@full", "Healthy", "2")
        stage.annotate("promote", None)

    play((rollout(canary(HALF), autoscaling=GATE),), script).assert_clean()


def _web() -> Manifest:
    """Four pods, one of them the canary's at the first step."""
    made = rollout(canary(QUARTER), replicas=4, autoscaling={**GATE, "containerResource": LIMIT})
    made["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "500m"}}
    return made


def _measured(stage: Stage, *, canary_cores: float = IDLE_CORES) -> None:
    """A metrics-server; web:1 idles, and web:2 uses so much."""
    for image, cores in (("web:1", IDLE_CORES), ("web:2", canary_cores)):
        stage.cluster.consumptions.use(Consumption(idle_cores=cores), image=image)
    stage.cluster.metrics_server()


def _autoscaled(stage: Stage) -> None:
    stage.cluster.autoscalers()
    stage.cluster.apply(_autoscaler(10, AVERAGE, least=4))


def test_a_canary_that_burns_is_held_while_its_autoscaler_is_content() -> None:
    """The autoscaler neither grows nor says a word; status shows both revisions' use, and asks for no write at each look."""
    told: list[Manifest] = []

    async def script(stage: Stage) -> None:
        _measured(stage, canary_cores=BURNT_CORES)
        _autoscaled(stage)
        await stage.until_phase("Healthy", "1")
        await asyncio.sleep(60)
        stage.image("2")
        await stage.until(lambda: stage.waits_for == "ContainerOverLimit")
        written = stage.witness.effects()["PATCH rollouts/status"]
        await asyncio.sleep(HELD_FOR_S)
        assert stage.witness.effects()["PATCH rollouts/status"] - written <= 3
        assert (stage.status["currentStepIndex"], stage.sizes()) == (0, {"1": 3, "2": 1})
        told.append(stage.status["autoscaling"])
        await stage.order("abort", f"{stage.status['currentRevision']}", "Aborted", "2")
        assert "autoscaling" not in stage.status
        stage.annotate("abort", None)
        await stage.update("1", "Healthy")

    run = play((_web(),), script)

    run.assert_clean()
    (autoscaler,) = told[0]["autoscalers"]
    assert (autoscaler["desired"], autoscaler["max"], autoscaler["headroomPercent"]) == (4, 10, 60)
    idle, burns = sorted(told[0]["use"], key=lambda each: int(each["utilizationPercent"]))
    assert (idle["measuredPods"], idle["pods"], burns["measuredPods"], burns["pods"]) == (3, 3, 1, 1)
    assert 10 <= idle["utilizationPercent"] <= 11  # what is measured in nanocores is rounded up
    assert 190 <= burns["utilizationPercent"] <= 191


def test_a_canary_that_uses_no_more_goes_on() -> None:
    """On the same evidence, by itself."""

    async def script(stage: Stage) -> None:
        _measured(stage)
        _autoscaled(stage)
        await stage.until_phase("Healthy", "1")
        await asyncio.sleep(60)
        stage.image("2")
        async with asyncio.timeout(GO_ON_WITHIN_S):
            await stage.until_phase("Healthy", "2")
        assert "autoscaling" not in stage.status

    play((_web(),), script).assert_clean()


def test_without_metrics_the_step_is_held_and_told() -> None:
    """Nobody measured the canary, so nobody knows that it does not burn; with the metrics it goes on."""

    async def script(stage: Stage) -> None:
        _autoscaled(stage)
        await stage.until_phase("Healthy", "1")
        stage.image("2")
        await stage.until(lambda: "metrics.k8s.io cannot be read" in stage.status.get("message", ""))
        await asyncio.sleep(HELD_FOR_S)
        assert (stage.waits_for, stage.status["currentStepIndex"]) == ("AutoscalingUnknown", 0)
        assert "use" not in stage.status["autoscaling"]
        _measured(stage)
        await stage.until_phase("Healthy", "2")

    play((_web(),), script).assert_clean()
