"""Promise: the gate holds a canary that burns CPU in its own container, though its autoscaler calls the average idle."""

from __future__ import annotations

import asyncio

from rollouts.objects import AUTOSCALER, Manifest
from rollouts.sim.network.consumption import Consumption
from tests.behaviour.scenarios import canary, rollout
from tests.behaviour.stage import KEY, Stage, play

QUARTER: Manifest = {"setWeight": 25}
IDLE_CORES, BURNT_CORES = 0.05, 0.95
"""Of the 0.5 cores that each pod requests: 10 % and 190 %."""

LIMIT: Manifest = {"container": "app", "resource": "cpu", "maxUtilizationPercent": 90}
GATE: Manifest = {"settled": True, "minHeadroomPercent": 20, "containerResource": LIMIT}
GO_ON_WITHIN_S = 300.0
HELD_FOR_S = 600.0


def _web() -> Manifest:
    """Four pods, one of them the canary's at the first step."""
    made = rollout(canary(QUARTER), replicas=4, autoscaling=GATE)
    made["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "500m"}}
    return made


def _autoscaler() -> Manifest:
    """By the average CPU of all pods; three at 10 % and one at 190 % are 55 %, within its tolerance of the target."""
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 55}}
    return {
        "apiVersion": AUTOSCALER.api_version,
        "kind": AUTOSCALER.kind,
        "metadata": {"name": "web", "namespace": KEY.namespace},
        "spec": {
            "minReplicas": 4,
            "maxReplicas": 10,
            "scaleTargetRef": {"apiVersion": "rollouts.dev/v1alpha1", "kind": "Rollout", "name": KEY.name},
            "metrics": [{"type": "Resource", "resource": cpu}],
        },
    }


def _begin(stage: Stage, *, canary_cores: float) -> None:
    """A metrics-server and the autoscalers' controller; web:1 idles, and web:2 uses so much."""
    stage.cluster.metrics_server()
    stage.cluster.autoscalers()
    stage.cluster.consumptions.use(Consumption(idle_cores=IDLE_CORES), image="web:1")
    stage.cluster.consumptions.use(Consumption(idle_cores=canary_cores), image="web:2")
    stage.cluster.apply(_autoscaler())


def _waits_for(stage: Stage) -> str:
    reason: str = stage.waits_for
    return reason


def test_a_canary_that_burns_is_held_while_its_autoscaler_is_content() -> None:
    """The autoscaler neither grows nor says a word; status shows both revisions' use, and asks for no write at each look."""
    told: list[Manifest] = []

    async def script(stage: Stage) -> None:
        _begin(stage, canary_cores=BURNT_CORES)
        await stage.until_phase("Healthy", "1")
        await asyncio.sleep(60)
        stage.image("2")
        await stage.until(lambda: _waits_for(stage) == "ContainerOverLimit")
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
        _begin(stage, canary_cores=IDLE_CORES)
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
        stage.cluster.autoscalers()
        stage.cluster.apply(_autoscaler())
        await stage.until_phase("Healthy", "1")
        stage.image("2")
        await stage.until(lambda: "metrics.k8s.io cannot be read" in stage.status.get("message", ""))
        await asyncio.sleep(HELD_FOR_S)
        assert (_waits_for(stage), stage.status["currentStepIndex"]) == ("AutoscalingUnknown", 0)
        assert "use" not in stage.status["autoscaling"]
        _begin_measuring(stage)
        await stage.until_phase("Healthy", "2")

    play((_web(),), script).assert_clean()


def _begin_measuring(stage: Stage) -> None:
    for image in ("web:1", "web:2"):
        stage.cluster.consumptions.use(Consumption(idle_cores=IDLE_CORES), image=image)
    stage.cluster.metrics_server()
