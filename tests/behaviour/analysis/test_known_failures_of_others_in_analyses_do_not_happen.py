"""Promise: what analyses of other progressive-delivery controllers are known to have got wrong does not happen here.

Each test plays what a published issue describes, with the real controller, constant requests and a Prometheus that scrapes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from rollouts.manifests.ownership import ANALYSIS, ATTEMPT, NAME, REVISION
from rollouts.objects import ANALYSIS_RUN, Manifest
from rollouts.ports import MERGE_PATCH, ApiServer, Request, Response
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.network.applications import WELL
from rollouts.sim.network.prometheus.faults import Empty, Unreachable
from tests.behaviour.analysed import BESIDE, GATES, Analysed, endless, metric, phases, runs, spoilt
from tests.behaviour.stage import KEY, Run, Script, Stage
from tests.cluster.stand_ins import PassesOn

STEP = GATES["step"]
HELD = "AnalysisInconclusive"


def played(strategy: Manifest, script: Script, *metrics: Manifest, services: tuple[str, ...] = ("web",)) -> Run:
    """The script, with clients of the Services; no write on the way breaks an invariant."""
    run = Analysed(strategy, script, services, (), metrics=metrics).play()
    run.assert_clean()
    return run


@pytest.mark.parametrize("condition", ("result[0] >= 0.95", "result.all(x, x >= 0.95)"))
def test_an_empty_answer_neither_aborts_nor_promotes(condition: str) -> None:
    """P6, argo-rollouts issue 1466: an index into an empty vector was an error and aborted the update; `all` promoted it."""

    async def script(stage: Stage) -> None:
        stage.prometheus.faults.begin(Empty())
        stage.image("2")
        await stage.until(lambda: stage.waits_for == HELD)
        await asyncio.sleep(600.0)
        assert (stage.status["phase"], stage.sizes()) == ("Paused", {"1": 1, "2": 1})

    played(STEP, script, metric(successCondition=condition, inconclusiveLimit=0))


def test_a_condition_that_asks_about_an_empty_answer_decides_about_it() -> None:
    """The same answer, and people who have said what it means: that the test above stands still is not all that it can do."""

    async def script(stage: Stage) -> None:
        stage.prometheus.faults.begin(Empty())
        await stage.update("2", "Healthy")

    played(STEP, script, metric(successCondition="len(result) == 0", minSamples=0))


@pytest.mark.parametrize("gate", GATES)
def test_a_promotion_past_an_inconclusive_verdict_goes_on(gate: str) -> None:
    """P7, argo-rollouts issue 3015: the update stood still for ever after it. One promotion passes one verdict."""
    metrics = (endless(inconclusiveLimit=0),) if gate == "background" else (metric(inconclusiveLimit=0),)

    async def script(stage: Stage) -> None:
        stage.prometheus.faults.begin(Empty())
        stage.image("2")
        await stage.until(lambda: stage.waits_for == HELD)
        stage.prometheus.faults.end()
        await stage.order("promote", "true", "Healthy", "2")
        assert phases(stage)[0] == "Inconclusive"

    services = ("web",) if gate in ("step", "background") else ("active", "preview")
    run = played(GATES[gate], script, *metrics, services=services)

    assert [each["outcome"] for each in run.end["status"]["history"]] == ["Promoted", "Promoted"]


@pytest.mark.parametrize("bad", (False, True))
def test_a_new_revision_is_judged_from_the_beginning(*, bad: bool) -> None:
    """P12, flagger issue 30: it inherited the half of an analysis that its predecessor had passed."""
    asked: dict[str, int] = {}

    async def script(stage: Stage) -> None:
        stage.image("2")
        await stage.until(lambda: len(stage.prometheus.questions) == 2)
        await asyncio.sleep(0.1)
        second = stage.status["currentRevision"]
        if bad:
            spoilt("web:3")(stage)
        stage.image("3")
        await stage.until_phase("Aborted" if bad else "Healthy", "3")
        third = stage.status["currentRevision"]
        asked.update({name: sum(name in each for each in stage.prometheus.questions) for name in (second, third)})
        first, other = runs(stage)
        assert [each["metadata"]["labels"][REVISION] for each in (first, other)] == [second, third]
        assert (first["spec"]["terminate"], "terminate" in other["spec"]) == (True, False)
        assert stage.status["analyses"][0]["run"] == other["metadata"]["name"]

    played(STEP, script)

    assert list(asked.values()) == [2, 1 if bad else 3]


def test_a_second_attempt_is_judged_from_the_beginning() -> None:
    """P12 of one revision: what failed in the first attempt does not count in the second one, nor does what succeeded."""

    async def script(stage: Stage) -> None:
        spoilt()(stage)
        await stage.update("2", "Aborted")
        await stage.until(lambda: stage.available("1") == 2)
        stage.cluster.applications.behave(WELL, image="web:2")
        await stage.order("retry", "true", "Healthy", "2")
        assert len({each["metadata"]["name"] for each in runs(stage)}) == 2
        assert [each["metadata"]["annotations"][ATTEMPT] for each in runs(stage)] == ["0", "1"]
        assert phases(stage) == ["Failed", "Successful"]

    played(STEP, script)


def test_a_run_without_a_single_success_is_no_success() -> None:
    """P18, argo-rollouts issue 4479: a run whose measurements had all failed was Successful, because its limit bore them."""

    async def script(stage: Stage) -> None:
        spoilt()(stage)
        await stage.update("2", "Aborted")
        assert phases(stage) == ["Failed"]

    played(BESIDE, script, endless(failureLimit=100, successCondition="result[0] >= 2.0"))


def test_a_run_without_a_single_answer_ends_no_update() -> None:
    """P18 with errors, which the limit bears too: the update waits at its end for a measurement, and a person may abort it."""

    async def script(stage: Stage) -> None:
        stage.prometheus.faults.begin(Unreachable())
        stage.image("2")
        await stage.until(lambda: stage.waits_for == "AnalysisRunning")
        await asyncio.sleep(600.0)
        assert (stage.status["phase"], phases(stage)) == ("Progressing", ["Running"])
        assert stage.available("1") > 0
        await stage.order("abort", "true", "Aborted", "2")
        await stage.until(lambda: phases(stage) == ["Error"])

    played(BESIDE, script, endless(consecutiveErrorLimit=1_000))


class TakesNames(PassesOn):
    """Lets somebody else make a run of each name right before the controller does: `made` gets what the controller sends."""

    def __init__(self, api: ApiServer, made: Callable[[Manifest], None]) -> None:
        super().__init__(api)
        self._made = made

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        if request.method == "POST" and "/analysisruns" in request.path:
            self._made(msgspec.json.decode(request.body))
        return await super().request(request, deadline_s=deadline_s)


def succeeded(cluster: SimulatedCluster, manifest: Manifest, *, name: str = "") -> None:
    """Somebody makes the same run by hand, and writes a success into it."""
    metadata = {each: manifest["metadata"][each] for each in ("name", "namespace", "labels", "annotations")}
    run = {**manifest, "metadata": {**metadata, "name": name or metadata["name"]}}
    if cluster.get(ANALYSIS_RUN, KEY.namespace, run["metadata"]["name"]) is not None:
        return
    cluster.apply(run)
    status = {"phase": "Successful", "startedAt": "2026-01-01T00:00:00Z", "completedAt": "2026-01-01T00:00:00Z"}
    path = ANALYSIS_RUN.path(KEY.namespace, run["metadata"]["name"], "status")
    answer = cluster.api.answer(Request("PATCH", path, {}, msgspec.json.encode({"status": status}), MERGE_PATCH))
    assert answer.status == 200, answer.body


def stands_still(stage: Stage) -> str:
    """What the Rollout says to people who ask why nothing goes on; "" while it goes on by itself."""
    ready = stage.condition("Ready")
    return str(ready["message"]) if ready["reason"] in ("NameTaken", "AnalysisInvalid") else ""


async def goes_on_without(stage: Stage, stranger: str) -> None:
    """The update has stood still for as long as that run was there; then it is judged by one of its own."""
    await stage.until(lambda: stranger in stands_still(stage))
    await asyncio.sleep(300.0)
    assert (stage.status["currentStepIndex"], stranger in stands_still(stage)) == (1, True)
    stage.remove(ANALYSIS_RUN, stranger)
    await stage.until_phase("Healthy", "2")
    assert phases(stage) == ["Successful"]


def test_a_name_that_somebody_took_before_judges_nothing() -> None:
    """P19, argo-rollouts issue 505: names collided. Whoever finds out our name and writes a success there passes no gate."""
    stages: list[Stage] = []
    strangers: list[str] = []

    def taken(manifest: Manifest) -> None:
        if not strangers:
            strangers.append(manifest["metadata"]["name"])
            succeeded(stages[0].cluster, manifest)

    async def script(stage: Stage) -> None:
        stages.append(stage)
        stage.image("2")
        await stage.until(lambda: bool(strangers))
        await goes_on_without(stage, strangers[0])

    run = Analysed(STEP, script, ("web",), ()).play(between=lambda api: TakesNames(api, taken))

    assert run.violations == []
    assert run.questions == 3


def test_a_name_that_somebody_took_later_judges_nothing() -> None:
    """P19: our run is deleted while it measures, and a better one of the same name is there instead."""

    async def script(stage: Stage) -> None:
        stage.image("2")
        await stage.until(lambda: len(stage.prometheus.questions) == 1)
        (ours,) = runs(stage)
        stage.remove(ANALYSIS_RUN, ours["metadata"]["name"])
        succeeded(stage.cluster, ours)
        await goes_on_without(stage, ours["metadata"]["name"])

    assert played(STEP, script).questions == 1 + 3


def test_a_run_that_somebody_made_for_the_revision_judges_nothing() -> None:
    """P19, argo-rollouts issue 721: a run was taken for that of another revision. Labels do not make it ours, its owner does."""

    async def script(stage: Stage) -> None:
        spoilt()(stage)
        stage.image("2")
        await stage.until(lambda: len(runs(stage)) == 1)
        (ours,) = runs(stage)
        assert {NAME, REVISION, ANALYSIS} <= ours["metadata"]["labels"].keys()
        succeeded(stage.cluster, ours, name="by-hand")
        await stage.until_phase("Aborted", "2")
        assert stage.status["analyses"][0]["run"] == ours["metadata"]["name"]

    played(STEP, script)


def test_each_run_asks_about_its_own_revision() -> None:
    """P19: image 3 comes in the moment in which the run of image 2 is made."""

    async def script(stage: Stage) -> None:
        stage.image("2")
        await stage.until(lambda: len(runs(stage)) == 1)
        await stage.update("3", "Healthy")
        asked = [[one["value"] for one in each["spec"]["args"]] for each in runs(stage)]
        assert asked == [[each["metadata"]["labels"][REVISION]] for each in runs(stage)]
        assert len(asked) == 2

    played(STEP, script)
