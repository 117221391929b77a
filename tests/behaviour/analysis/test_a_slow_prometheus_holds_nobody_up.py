"""Promise: a Prometheus that hangs delays neither an abort nor another Rollout, and nobody asks while nothing is updated."""

from __future__ import annotations

import asyncio

import pytest

from rollouts.objects import ANALYSIS_RUN, Manifest
from rollouts.ports import Request
from rollouts.sim.network.prometheus.faults import Hangs
from tests import build
from tests.behaviour.analysed import GATES, Analysed, analysis, endless, metric, runs, template
from tests.behaviour.scenarios import HALF, MANUAL, canary
from tests.behaviour.stage import KEY, Stage

HOUR_S = 3_000.0
"""Nearly: the rest of the hour in which a run must end is for the update before."""
ABORTED_WITHIN_S = 2.0
HANGING = 50
TEAMS = (KEY.namespace, "team-a")
"""Namespaces; one alone may not have all measurements."""
EDITS = 40
PATIENT = {"query": "up", "timeout": 300}
STRATEGIES = {**GATES, "background": canary(HALF, MANUAL, analysis=analysis())}


@pytest.mark.parametrize("edited", (False, True))
def test_an_idle_rollout_with_templates_asks_nothing(*, edited: bool) -> None:
    """No request to the API server and no question to Prometheus after an update; nor when somebody edits the template."""
    asked: list[str] = []

    async def script(stage: Stage) -> None:
        await stage.update("2", "Healthy")
        await stage.until_quiet()
        stage.prometheus.stop()
        arrivals, questions = len(stage.witness.arrivals), len(stage.prometheus.questions)
        if edited:
            stage.cluster.apply(template(metric(count=7)))
        await asyncio.sleep(HOUR_S)
        asked.extend(each.what for each in stage.witness.arrivals[arrivals:])
        asked.extend(stage.prometheus.questions[questions:])

    there = metric(provider={"prometheus": {"query": "count(up)"}}, successCondition="result[0] > 0.0")
    Analysed(STRATEGIES["step"], script, (), (), metrics=(there,)).play()

    assert [each for each in asked if not each.startswith("WATCH")] == []


@pytest.mark.parametrize("name", STRATEGIES)
def test_an_update_whose_prometheus_hangs_is_aborted_at_once(name: str) -> None:
    """A person does not wait for the metric's timeout, and its run ends too."""

    async def script(stage: Stage) -> None:
        now_s = asyncio.get_running_loop().time
        stage.prometheus.faults.begin(Hangs())
        stage.image("2")
        await stage.until(lambda: len(stage.prometheus.questions) == 1)
        await asyncio.sleep(1.0)
        before_s = now_s()
        await stage.order("abort", "true", "Aborted", "2")
        assert now_s() - before_s <= ABORTED_WITHIN_S
        (run,) = runs(stage)
        assert run["spec"].get("terminate") or run["status"]["phase"] == "Running"
        await stage.until(lambda: bool(runs(stage)[0]["status"].get("completedAt")), within_s=ABORTED_WITHIN_S)

    hanging = endless(provider={"prometheus": PATIENT})
    services = ("active", "preview") if name in ("pre-promotion", "post-promotion") else ("web",)
    Analysed(STRATEGIES[name], script, services, (), metrics=(hanging,)).play().assert_clean()


def by_hand(number: int) -> Manifest:
    """A run that belongs to no Rollout, and asks what nobody answers."""
    measured = {"metrics": [metric(initialDelay="0s", provider={"prometheus": PATIENT})]}
    return build.manifest(ANALYSIS_RUN, f"by-hand-{number}", TEAMS[number % len(TEAMS)], spec=measured)


def delays_s(hanging: int) -> list[float]:
    """From each of many edits of a Rollout to the write that answers it, while so many measurements hang; sorted."""
    found: list[float] = []

    async def script(stage: Stage) -> None:
        stage.prometheus.faults.begin(Hangs())
        stage.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAMS[1]}})
        for number in range(hanging):
            stage.cluster.apply(by_hand(number))
        await asyncio.sleep(1.0)
        assert len(stage.prometheus.questions) == hanging
        now_s = asyncio.get_running_loop().time
        for number in range(EDITS):
            at_s = now_s()
            size = 2 + number % 2
            stage.edit({"spec": {"replicas": size}})
            await stage.until(lambda: stage.sizes()["1"] == size)  # noqa: B023 - awaited at once
            found.append(now_s() - at_s)
            await asyncio.sleep(2.5)
        assert len(stage.prometheus.questions) == hanging
        for each in stage.cluster.list(ANALYSIS_RUN):
            path = ANALYSIS_RUN.path(each["metadata"]["namespace"], each["metadata"]["name"])
            assert stage.cluster.api.answer(Request("DELETE", path)).status == 200

    Analysed(canary(HALF), script, ("web",), ()).play().assert_clean()
    return sorted(found)


def test_fifty_questions_that_hang_delay_no_other_rollout() -> None:
    """Measurements are taken beside the passes, with a limit of their own: passes are as quick as without, the slowest too."""
    without, beside = delays_s(0), delays_s(HANGING)

    assert len(beside) == EDITS
    assert beside == pytest.approx(without, abs=0.001)
