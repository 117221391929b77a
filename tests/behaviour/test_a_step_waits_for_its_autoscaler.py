"""Promise: the whole controller holds a step while its autoscaler says no, asks about it sparingly, and goes on by itself."""

from __future__ import annotations

import asyncio

from rollouts.objects import AUTOSCALER, Manifest
from tests.behaviour.scenarios import HALF, SHORT, canary, rollout
from tests.behaviour.stage import KEY, Stage, play

GATE: Manifest = {"settled": True, "minHeadroomPercent": 20}
HPAS = f"GET {AUTOSCALER.plural}"


def _autoscaler(most: int) -> Manifest:
    return {
        "apiVersion": AUTOSCALER.api_version,
        "kind": AUTOSCALER.kind,
        "metadata": {"name": "web", "namespace": KEY.namespace},
        "spec": {
            "minReplicas": 1,
            "maxReplicas": most,
            "scaleTargetRef": {"apiVersion": "rollouts.dev/v1alpha1", "kind": "Rollout", "name": KEY.name},
        },
    }


def _says(stage: Stage, current: int, desired: int) -> None:
    """What the HPA controller writes after a look."""
    works = [{"type": kind, "status": "True", "reason": "x"} for kind in ("ScalingActive", "AbleToScale")]
    status = {"currentReplicas": current, "desiredReplicas": desired, "observedGeneration": 1, "conditions": works}
    stage.merge(AUTOSCALER, "web", {"status": status}, part="status")


def _waits_for(stage: Stage) -> tuple[str, str]:
    waiting = stage.status.get("waitingFor") or {}
    return waiting.get("reason", ""), waiting.get("message", "")


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
        await stage.until(lambda: _waits_for(stage)[0] == "NoHeadroom")
        assert _waits_for(stage)[1].startswith(
            "autoscaler web is at 2 of 2 pods: headroom 0 %, the next step needs 20 %: raise maxReplicas"
        )
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
        await stage.until(lambda: _waits_for(stage)[0] == "AutoscalerNotFound")
        await asyncio.sleep(600)
        assert (stage.status["phase"], stage.status["currentStepIndex"]) == ("Degraded", 0)
        await stage.order("promote", f"{stage.status['currentRevision']}@full", "Healthy", "2")
        stage.annotate("promote", None)

    play((rollout(canary(HALF), autoscaling=GATE),), script).assert_clean()
