"""Updates that are judged by what their clients meet: a Prometheus scrapes the pods, and AnalysisRuns ask it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest

from rollouts.objects import ANALYSIS_RUN, Manifest
from rollouts.sim.network.applications import WELL, Behaviour
from rollouts.sim.network.traffic import ClientTraffic
from tests import build
from tests.behaviour.scenarios import ACTIVE_AND_PREVIEW, HALF, blue_green, canary, rollout, service
from tests.behaviour.stage import KEY, Run, Script, Stage, play

RATE_PER_S = 20.0
BAD = Behaviour(error_ratio=0.05)
_ANSWERED = 'rate(http_requests_total{rollouts_dev_revision="{{args.revision}}"%s}[8s])'
GOOD_SHARE = "sum(" + _ANSWERED % ',code!~"5.."' + ") / sum(" + _ANSWERED % "" + ")"
TEMPLATE_NAME = "success-rate"


def metric(**rules: Any) -> Manifest:
    """Fewer than one in a thousand of the revision's requests fail, whenever it is asked. Few requests, so one of them counts."""
    measured_by = {"prometheus": {"query": GOOD_SHARE, "timeout": 2}}
    usual = {"name": TEMPLATE_NAME, "initialDelay": "6s", "interval": "3s", "count": 3, "inconclusiveLimit": 2}
    return {**usual, "successCondition": "result[0] >= 0.999", "provider": measured_by, **rules}


def endless(**rules: Any) -> Manifest:
    """The same metric, measured until something ends the run."""
    return {name: value for name, value in metric(**rules).items() if name != "count"}


def template(*metrics: Manifest) -> Manifest:
    """An AnalysisTemplate of one argument, the revision."""
    args = [{"name": "revision"}]
    return build.analysis_template(*(metrics or (metric(),)), name=TEMPLATE_NAME, namespace=KEY.namespace, args=args)


def analysis(**fields: Any) -> Manifest:
    latest = {"name": "revision", "valueFrom": {"podTemplateHashValue": "Latest"}}
    return {"templates": [{"templateName": TEMPLATE_NAME}], "args": [latest], **fields}


def pause(seconds: int) -> Manifest:
    return {"pause": {"duration": f"{seconds}s"}}


def runs(stage: Stage) -> list[Manifest]:
    """The AnalysisRuns that there are, the oldest first."""

    def began(run: Manifest) -> tuple[str, str]:
        return run["metadata"]["creationTimestamp"], (run.get("status") or {}).get("startedAt", "")

    return sorted(stage.cluster.list(ANALYSIS_RUN, KEY.namespace), key=began)


def phases(stage: Stage) -> list[str]:
    return [(each.get("status") or {}).get("phase", "") for each in runs(stage)]


@dataclass
class Users:
    """The clients of one run.

    Args:
        clients: of each Service: of the first one users, of another one tests of what it shows.
    """

    clients: list[ClientTraffic] = field(default_factory=list)

    @property
    def sent(self) -> int:
        return self.clients[0].tally.sent.total()

    @property
    def failed(self) -> int:
        """Of those, the ones that a version answered with an error."""
        return self.clients[0].tally.failed.total()

    @property
    def lost(self) -> int:
        return self.clients[0].tally.lost.total()


@dataclass(frozen=True)
class Analysed:
    """An update with an analysis.

    Args:
        services: which clients call; users call the first one.
        phase, tag: how the Rollout ends, and whose pods serve.
        verdicts: of its runs, in the order of their names.
    """

    strategy: Manifest
    script: Script
    services: tuple[str, ...]
    verdicts: tuple[str, ...]
    metrics: tuple[Manifest, ...] = ()
    phase: str = "Healthy"
    tag: str = "2"
    spec: Mapping[str, Any] = field(default_factory=dict)

    def play(self, *, users: Users | None = None, settling_s: float = 0.0, **options: Any) -> Run:
        """From an empty cluster to rest; the options are those of `stage.play`.

        Args:
            settling_s: how long the clients go on after the script.
        """
        users = users or Users()

        async def script(stage: Stage) -> None:
            await stage.until_phase("Healthy", "1")
            await asyncio.sleep(1.0)
            users.clients += [
                stage.cluster.clients(namespace=KEY.namespace, service=name, rate_per_s=RATE_PER_S)
                for name in self.services
            ]
            await self.script(stage)
            await asyncio.sleep(settling_s)
            for each in users.clients:
                each.stop()
            stage.prometheus.stop()

        there = (service("web"), *ACTIVE_AND_PREVIEW, template(*self.metrics))
        return play((*there, rollout(self.strategy, **self.spec)), script, **{"prometheus": {}, **options})


def spoilt(image: str = "web:2") -> Callable[[Stage], None]:
    """From now on one in twenty requests of the image fails."""
    return lambda stage: stage.cluster.applications.behave(BAD, image=image)


def _updated(phase: str, tag: str, *, bad: bool = False) -> Script:
    async def script(stage: Stage) -> None:
        if bad:
            spoilt()(stage)
        stage.image("2")
        await stage.until_phase(phase, "2")
        await stage.until(lambda: stage.available(tag) == 2 and sum(map(stage.available, "12")) == 2)

    return script


async def _fails_late(stage: Stage) -> None:
    """Image 2 is good until it has all the traffic."""
    stage.image("2")
    await stage.until(lambda: stage.status.get("stepIndex", stage.status.get("currentStepIndex", 0)) == 3)
    spoilt()(stage)
    await stage.until_phase("Aborted", "2")
    await stage.until(lambda: stage.available("1") == 2 and stage.available("2") == 0)


async def _goes_back_and_forward(stage: Stage) -> None:
    """Image 2 fails with all the traffic, gets half of it, is mended there, and goes forward when somebody promotes it.

    It is held for longer than its progress deadline.
    """
    spoilt()(stage)
    stage.image("2")
    await stage.until(lambda: (stage.status.get("analyses") or [{}])[0].get("backToWeight") == 50)
    await stage.until(lambda: stage.sizes() == {"1": 1, "2": 1} and stage.available("1") == 1)
    stage.cluster.applications.behave(WELL, image="web:2")
    await asyncio.sleep(60.0)
    assert (stage.status["phase"], stage.sizes()) == ("Paused", {"1": 1, "2": 1})
    await stage.order("promote", "true", "Healthy", "2")
    await stage.until(lambda: stage.available("2") == 2 and stage.available("1") == 0)


QUICK_BLUE_GREEN = {"autoPromotionSeconds": 1, "abortScaleDownDelaySeconds": 2}
IN_STEP = canary(HALF, {"analysis": analysis()})
BESIDE = canary(HALF, pause(12), analysis=analysis())
GATES = {
    "step": IN_STEP,
    "background": BESIDE,
    "pre-promotion": blue_green(prePromotionAnalysis=analysis(), **QUICK_BLUE_GREEN),
    "post-promotion": blue_green(postPromotionAnalysis=analysis(), **QUICK_BLUE_GREEN),
}
GOOD, FAILED = ("Successful",), ("Failed",)
ANALYSED = {
    "canary good": Analysed(IN_STEP, _updated("Healthy", "2"), ("web",), GOOD),
    "canary bad": Analysed(IN_STEP, _updated("Aborted", "1", bad=True), ("web",), FAILED, phase="Aborted", tag="1"),
    "background good": Analysed(BESIDE, _updated("Healthy", "2"), ("web",), GOOD, metrics=(endless(),)),
    "background that fails late": Analysed(
        canary(HALF, pause(12), {"setWeight": 100}, pause(60), analysis=analysis()),
        _fails_late,
        ("web",),
        FAILED,
        metrics=(endless(),),
        phase="Aborted",
        tag="1",
    ),
    "canary that steps back": Analysed(
        canary(HALF, {"setWeight": 100}, {"analysis": analysis(onFailure="stepBack")}),
        _goes_back_and_forward,
        ("web",),
        ("Failed", "Successful"),
        spec={"progressDeadlineSeconds": 30},
    ),
    "blue-green good": Analysed(
        blue_green(prePromotionAnalysis=analysis(), postPromotionAnalysis=analysis(), **QUICK_BLUE_GREEN),
        _updated("Healthy", "2"),
        ("active", "preview"),
        (*GOOD, *GOOD),
    ),
    "blue-green bad after the promotion": Analysed(
        GATES["post-promotion"], _updated("Aborted", "1", bad=True), ("active",), FAILED, phase="Aborted", tag="1"
    ),
}

QUICK = ("canary good", "canary bad", "background good")
IN_ANY_LANE = [pytest.param(name, marks=[] if name in QUICK else pytest.mark.long) for name in ANALYSED]
"""All of them; those of the longest runs, or with the same parts as another one, are left to the long lane."""


@cache
def undisturbed(name: str) -> Run:
    """The scenario without any fault."""
    return ANALYSED[name].play()
