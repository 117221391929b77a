"""Promise: what users of Argo Rollouts reported of its Experiments does not happen here, and what is wrong is told.

Each Experiment ends, whatever becomes of what it has made.
"""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from rollouts.objects import ANALYSIS_RUN, ENDPOINT_SLICE, EXPERIMENT, POD, REPLICA_SET, SERVICE, Kind
from rollouts.ports import MERGE_PATCH, Request
from tests import build
from tests.controller.analysis.stage import NAMESPACE, Stage, metric
from tests.controller.experiments.stage import (
    analysis_template,
    edit,
    events,
    experiment,
    group,
    owned,
    seen,
    sizes,
    until,
    until_over,
    until_phase,
    uses,
)

pytestmark = pytest.mark.virtual_time(limit_s=20_000)


def _delete(stage: Stage, kind: Kind, name: str) -> None:
    assert stage.cluster.api.answer(Request("DELETE", kind.path(NAMESPACE, name))).status == 200


async def test_a_service_of_another_with_that_name_is_told_and_waited_for(stage: Stage) -> None:
    """Argo issue 3450: the Service of an earlier experiment blocked the next one for ever, in silence."""
    stage.cluster.apply(build.service("taken"))
    stage.cluster.apply(experiment(group(port=80, service={"name": "taken"}), progressDeadlineSeconds=120))
    async with stage.controller():
        status = await until(stage, lambda status: "taken" in status.get("message", ""), within_s=30)
        assert "exists and is not controlled by this Experiment: delete it" in status["message"]
        told = stage.telemetry[-1].exposition().decode()
        assert 'rollouts_experiment_errors_total{error="ApiExists"} 1.0' in told
        assert 'rollouts_pass_errors_total{error="ApiExists"}' not in told, "an alert about passes is about Rollouts"
        _delete(stage, SERVICE, "taken")
        await until_phase(stage, "Running", within_s=60)
        assert [each["metadata"]["name"] for each in owned(stage, SERVICE)] == ["taken"]


async def test_a_name_that_stays_taken_fails_it_by_the_deadline(stage: Stage) -> None:
    """And leaves no pods."""
    stage.cluster.apply(build.service("taken"))
    stage.cluster.apply(experiment(group(port=80, service={"name": "taken"}), progressDeadlineSeconds=60))
    async with stage.controller():
        over = await until_over(stage, within_s=120)
        assert over["phase"] == "Failed"
        await asyncio.sleep(120)
        assert sizes(stage) == [0]
        assert stage.cluster.get(SERVICE, NAMESPACE, "taken") is not None


async def test_it_runs_only_when_its_services_lead_to_its_pods(stage: Stage) -> None:
    """Argo issue 3420: traffic came to a Service before its pods were ready."""
    stage.cluster.apply(experiment(group(port=80, replicas=3, service={"name": "blue"})))
    async with stage.controller():
        await until_phase(stage, "Running")
        endpoints = [
            endpoint
            for each in stage.cluster.api.history.select(ENDPOINT_SLICE, NAMESPACE)
            for endpoint in each.manifest["endpoints"] or ()
            if endpoint["conditions"]["ready"]
        ]
        assert len(endpoints) == 3


async def test_no_pod_starts_while_a_template_of_an_analysis_is_missing(stage: Stage) -> None:
    """A manifest that is applied a moment later is waited for."""
    stage.cluster.apply(experiment(analyses=[uses("good")]))
    async with stage.controller():
        await until(stage, lambda status: "does not exist" in status.get("message", ""), within_s=30)
        await asyncio.sleep(60)
        assert owned(stage, REPLICA_SET) == []
        stage.cluster.apply(analysis_template("good"))
        assert (await until_over(stage))["phase"] == "Successful"


async def test_a_template_that_never_comes_is_an_error(stage: Stage) -> None:
    """Argo's expectedfailures/experiment-error-template-missing.yaml."""
    stage.cluster.apply(experiment(analyses=[uses("good")], progressDeadlineSeconds=60))
    async with stage.controller():
        over = await until_over(stage, within_s=120)
    assert over["phase"] == "Error"
    assert "names AnalysisTemplate/good, which does not exist" in over["message"]
    assert owned(stage, POD) == []


async def test_a_changed_template_ends_it(stage: Stage) -> None:
    """Argo Rollouts makes further pods beside the first ones, and goes on judging."""
    stage.cluster.apply(experiment())
    async with stage.controller():
        await until_phase(stage, "Running")
        assert edit(stage, {"spec": {"templates": [group(image="web:2")]}}) == 200
        over = await until_over(stage, within_s=30)
        assert (over["phase"], "were changed after it had begun" in over["message"]) == ("Error", True)
        await asyncio.sleep(60)
        assert sizes(stage) == [0]


async def test_a_spec_that_becomes_wrong_ends_it_and_leaves_nothing(stage: Stage) -> None:
    """Whatever the spec says now, what was made goes."""
    stage.cluster.apply(experiment(group(port=80, service={})))
    async with stage.controller():
        await until_phase(stage, "Running")
        broken = {**group(), "selector": {"matchLabels": {"app": "other"}}}
        assert edit(stage, {"spec": {"templates": [broken]}}) == 200
        assert (await until_over(stage, within_s=30))["phase"] == "Error"
        await asyncio.sleep(60)
        assert (sizes(stage), owned(stage, SERVICE)) == ([0], [])


async def test_a_wrong_spec_is_told_and_may_be_corrected(stage: Stage) -> None:
    """Nothing has begun yet, so nothing is lost."""
    stage.cluster.apply(experiment({**group(), "selector": {"matchLabels": {"app": "other"}}}))
    async with stage.controller():
        status = await until(stage, lambda status: bool(status.get("conditions")), within_s=30)
        assert (status["phase"], status["conditions"][0]["type"]) == ("Pending", "InvalidSpec")
        assert "do not match spec.templates[0].selector" in status["message"]
        assert edit(stage, {"spec": {"templates": [group()]}}) == 200
        await until_phase(stage, "Running", within_s=30)
        assert "conditions" not in seen(stage)
    assert [reason for _, reason in events(stage)] == ["InvalidSpec", "ExperimentRunning"]


async def test_a_duration_may_be_changed_while_it_runs(stage: Stage) -> None:
    """It is no part of what is measured."""
    stage.cluster.apply(experiment(duration="1h"))
    async with stage.controller():
        await until_phase(stage, "Running")
        assert edit(stage, {"spec": {"duration": "1m"}}) == 200
        assert (await until_over(stage, within_s=120))["phase"] == "Successful"


async def test_a_run_that_is_deleted_has_no_verdict(stage: Stage) -> None:
    """No other run takes its place, as nobody knows what the first one had seen."""
    stage.cluster.apply(analysis_template("good", metric("good", count=100, interval="1m")))
    stage.cluster.apply(experiment(analyses=[uses("good")]))
    async with stage.controller():
        await until(stage, lambda status: any("uid" in each for each in status.get("analysisRuns", ())))
        (run,) = owned(stage, ANALYSIS_RUN)
        _delete(stage, ANALYSIS_RUN, run["metadata"]["name"])
        over = await until_over(stage, within_s=60)
    assert over["phase"] == "Error"
    assert "was deleted before it had a verdict" in over["message"]


async def test_pods_that_are_scaled_or_deleted_come_back(stage: Stage) -> None:
    """A ReplicaSet of the Experiment is the Experiment's."""
    stage.cluster.apply(experiment(group(replicas=2)))
    async with stage.controller():
        await until_phase(stage, "Running")
        (pods,) = owned(stage, REPLICA_SET)
        path, body = (
            REPLICA_SET.path(NAMESPACE, pods["metadata"]["name"]),
            msgspec.json.encode({"spec": {"replicas": 9}}),
        )
        assert stage.cluster.api.answer(Request("PATCH", path, {}, body, MERGE_PATCH)).status == 200
        await asyncio.sleep(10)
        assert sizes(stage) == [2]
        _delete(stage, REPLICA_SET, pods["metadata"]["name"])
        await asyncio.sleep(10)
        assert (sizes(stage), len(owned(stage, POD))) == ([2], 2)
        assert (await until_over(stage))["phase"] == "Successful"


async def test_with_the_experiment_goes_all_that_it_has_made(stage: Stage) -> None:
    """By the garbage collector: there is no finalizer, so a deletion never waits for the controller."""
    stage.cluster.apply(analysis_template("good", metric("good", count=100, interval="1m")))
    stage.cluster.apply(experiment(group(port=80, service={}), analyses=[uses("good")]))
    async with stage.controller():
        await until_phase(stage, "Running")
        await asyncio.sleep(5)
        _delete(stage, EXPERIMENT, "exp")
        await asyncio.sleep(30)
    for kind in (REPLICA_SET, POD, SERVICE, ANALYSIS_RUN):
        assert owned(stage, kind) == []


async def test_an_experiment_of_the_same_name_takes_no_pods_of_the_one_before(stage: Stage) -> None:
    """Names and labels carry a hash of the uid."""
    stage.cluster.apply(experiment())
    async with stage.controller():
        first = await until_phase(stage, "Running")
        _delete(stage, EXPERIMENT, "exp")
        stage.cluster.apply(experiment())
        second = await until_phase(stage, "Running")
    hashes = {each["templateStatuses"][0]["podTemplateHash"] for each in (first, second)}
    assert len(hashes) == 2


async def test_at_rest_nothing_is_written(stage: Stage) -> None:
    """An Experiment that is over costs no request, and one that waits costs none either."""
    stage.cluster.apply(experiment(name="over", duration="5s", scaleDownDelaySeconds=0))
    stage.cluster.apply(experiment(name="waits", duration="10h"))
    async with stage.controller():
        await until_over(stage, "over")
        await asyncio.sleep(60)
        version = stage.cluster.api.history.version
        await asyncio.sleep(1_800)
        assert stage.cluster.api.history.version == version
