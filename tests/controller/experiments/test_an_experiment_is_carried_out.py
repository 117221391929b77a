"""Promise: an Experiment runs its pods until its duration or its analyses end it, and leaves no pods behind.

Each of Argo Rollouts' functional tests of Experiments that has no Rollout is restated here.
"""

from __future__ import annotations

import asyncio

import pytest

from rollouts.manifests.ownership import KEEP_PODS, KEEP_PODS_VALUE
from rollouts.objects import ANALYSIS_RUN, EXPERIMENT, POD, REPLICA_SET, SERVICE
from rollouts.ports import Request
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


async def test_pods_of_all_templates_run_for_the_duration_and_then_for_the_delay(stage: Stage) -> None:
    """The duration counts from the time when all pods were available, not from the creation."""
    stage.cluster.apply(experiment(group("blue"), group("green", replicas=2), scaleDownDelaySeconds=30))
    async with stage.controller():
        running = await until_phase(stage, "Running")
        available_s = stage.now_s()
        assert [each["status"] for each in running["templateStatuses"]] == ["Running", "Running"]
        assert [each["availableReplicas"] for each in running["templateStatuses"]] == [1, 2]
        over = await until_over(stage)
        assert stage.now_s() - available_s == pytest.approx(300, abs=2)
        assert over["phase"] == "Successful"
        assert over["message"] == "its duration is over; its pods were available"
        assert [each["status"] for each in over["templateStatuses"]] == ["Successful", "Successful"]
        await asyncio.sleep(25)
        assert sizes(stage) == [1, 2]
        await asyncio.sleep(60)
        assert sizes(stage) == [0, 0]
        assert owned(stage, POD) == []
    assert [each["replicas"] for each in seen(stage)["templateStatuses"]] == [0, 0]
    assert events(stage) == [("Normal", "ExperimentRunning"), ("Normal", "ExperimentSuccessful")]
    (condition,) = seen(stage)["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "Completed", "True", "ExperimentSuccessful",
    )  # fmt: skip


@pytest.mark.parametrize(("given", "expected"), [({}, None), ({"name": "test-service"}, "test-service")])
async def test_a_service_comes_with_the_pods_and_goes_before_them(
    stage: Stage, given: dict[str, str], expected: str | None
) -> None:
    """Argo's TestExperimentWithServiceAndScaleDownDelay and TestExperimentWithServiceNameAndScaleDownDelay."""
    stage.cluster.apply(experiment(group("test", port=8080, service=given), duration="10s", scaleDownDelaySeconds=5))
    async with stage.controller():
        status = await until_phase(stage, "Running")
        (made,) = owned(stage, SERVICE)
        (pods,) = owned(stage, REPLICA_SET)
        assert made["metadata"]["name"] == (expected or pods["metadata"]["name"])
        assert status["templateStatuses"][0]["serviceName"] == made["metadata"]["name"]
        assert [each["port"] for each in made["spec"]["ports"]] == [8080]
        assert made["spec"]["selector"].items() <= pods["spec"]["template"]["metadata"]["labels"].items()
        assert sizes(stage) == [1]
        await until_phase(stage, "Successful")
        await asyncio.sleep(30)
        assert sizes(stage) == [0]
        assert owned(stage, SERVICE) == []
        assert owned(stage, POD) == []


async def test_a_service_has_each_port_of_each_container_once(stage: Stage) -> None:
    """Argo's TestExperimentWithMultiportServiceAndScaleDownDelay."""
    several = group("test", service={})
    several["template"]["spec"]["containers"] = [
        {"name": "a", "image": "a", "ports": [{"containerPort": 8080, "name": "http"}, {"containerPort": 8081}]},
        {"name": "b", "image": "b", "ports": [{"containerPort": 53, "protocol": "UDP", "name": "http"}]},
    ]
    stage.cluster.apply(experiment(several, duration="10s"))
    async with stage.controller():
        await until_phase(stage, "Running")
        (made,) = owned(stage, SERVICE)
    told = [(each["name"], each["port"], each["protocol"]) for each in made["spec"]["ports"]]
    assert told == [("http", 8080, "TCP"), ("tcp-8081", 8081, "TCP"), ("udp-53", 53, "UDP")]


async def test_a_service_of_pods_without_ports_is_told_to_be_missing(stage: Stage) -> None:
    """Argo Rollouts makes none either, and says nothing."""
    stage.cluster.apply(experiment(group("test", service={}), duration="10s"))
    async with stage.controller():
        status = await until_phase(stage, "Running")
    assert status["templateStatuses"][0]["message"] == "it has no Service: its containers declare no ports"
    assert owned(stage, SERVICE) == []


async def test_a_metric_that_only_is_measured_decides_nothing(stage: Stage) -> None:
    """Argo's TestExperimentWithDryRunMetrics."""
    stage.metrics.says({"test-1": [0.0]})
    stage.cluster.apply(analysis_template("test-1"))
    stage.cluster.apply(analysis_template("good"))
    analyses = [uses("test-1"), uses("good")]
    stage.cluster.apply(experiment(duration="30s", analyses=analyses, dryRun=[{"metricName": "test.*"}]))
    async with stage.controller():
        over = await until_over(stage)
    assert over["phase"] == "Successful"
    counted, dry = owned(stage, ANALYSIS_RUN)
    assert dry["status"]["dryRunSummary"] == {"count": 1, "failed": 1}
    assert "dryRun" not in counted["spec"]


async def test_so_many_measurements_are_kept_as_the_spec_says(stage: Stage) -> None:
    """Argo's TestExperimentWithMeasurementRetentionMetrics."""
    stage.cluster.apply(analysis_template("test-1", metric("test-1", count=5, interval="2s")))
    stage.cluster.apply(
        experiment(
            duration="30s", analyses=[uses("test-1")], measurementRetention=[{"metricName": "test.*", "limit": 2}]
        )
    )
    async with stage.controller():
        assert (await until_over(stage))["phase"] == "Successful"
    (run,) = owned(stage, ANALYSIS_RUN)
    assert len(run["status"]["metricResults"][0]["measurements"]) == 2


async def test_an_experiment_is_over_once_the_analyses_that_it_needs_succeed(stage: Stage) -> None:
    """Without a duration; other analyses are ended, and do not decide."""
    stage.cluster.apply(analysis_template("good"))
    stage.cluster.apply(analysis_template("other", metric("other", count=100, interval="1m")))
    analyses = [uses("good", requiredForCompletion=True), uses("other")]
    stage.cluster.apply(experiment(duration=None, analyses=analyses))
    async with stage.controller():
        over = await until_over(stage, within_s=60)
        assert over["phase"] == "Successful"
        await asyncio.sleep(60)
    phases = {each["name"]: each["phase"] for each in seen(stage)["analysisRuns"]}
    assert phases == {"good": "Successful", "other": "Successful"}
    assert all(run["status"]["phase"] == "Successful" for run in owned(stage, ANALYSIS_RUN))


async def test_an_analysis_that_it_needs_is_waited_for_beyond_the_duration(stage: Stage) -> None:
    """Argo's documentation: it does not complete before, even if that exceeds the duration."""
    stage.cluster.apply(analysis_template("good", metric("good", count=4, interval="1m")))
    stage.cluster.apply(experiment(duration="30s", analyses=[uses("good", requiredForCompletion=True)]))
    async with stage.controller():
        await until_phase(stage, "Running")
        began_s = stage.now_s()
        assert (await until_over(stage))["phase"] == "Successful"
        assert stage.now_s() - began_s == pytest.approx(180, abs=5)


@pytest.mark.parametrize(
    ("outcome", "phase"), [(0.5, "Failed"), ("NaN", "Inconclusive")], ids=["a failure", "no evidence"]
)
async def test_an_analysis_that_ends_badly_ends_the_experiment(stage: Stage, outcome: float | str, phase: str) -> None:
    """At once, with its phase; the pods stay for the delay, so that somebody can look at them."""
    stage.metrics.says({"bad": [outcome]})
    stage.cluster.apply(analysis_template("bad"))
    stage.cluster.apply(experiment(analyses=[uses("bad")]))
    async with stage.controller():
        over = await until_over(stage, within_s=60)
        assert over["phase"] == phase
        assert over["message"].startswith("analysis bad: ")
        assert sizes(stage) == [1]
        await asyncio.sleep(60)
        assert sizes(stage) == [0]
    assert ("Warning", f"Experiment{phase}") in events(stage)


async def test_the_duration_ends_an_analysis_and_its_verdict_counts(stage: Stage) -> None:
    """Argo Rollouts calls such an Experiment Successful, whatever the analysis has seen by then."""
    stage.metrics.says({"late": [1.0]})
    stage.cluster.apply(analysis_template("late", metric("late", interval="1m")))
    stage.cluster.apply(analysis_template("never", metric("never", initialDelay="1h")))
    stage.cluster.apply(experiment(name="one", analyses=[uses("late")]))
    stage.cluster.apply(experiment(name="two", analyses=[uses("never")]))
    async with stage.controller():
        assert (await until_over(stage, "one"))["phase"] == "Successful"
        assert (await until_over(stage, "two"))["phase"] == "Inconclusive"


async def test_pods_that_are_not_available_in_time_fail_the_experiment(stage: Stage) -> None:
    """And the message has the reason."""
    stage.cluster.apply(experiment(group("blue"), group("green", image="web:bad"), progressDeadlineSeconds=60))
    async with stage.controller():
        over = await until_over(stage, within_s=120)
    assert over["phase"] == "Failed"
    assert over["message"].startswith("template green was not available for 60 s: 0 of 1 pods are available")
    assert [each["status"] for each in over["templateStatuses"]] == ["Successful", "Failed"]
    assert "availableAt" not in over


@pytest.mark.parametrize("with_analysis", [False, True])
async def test_terminate_ends_it_at_once(stage: Stage, with_analysis: bool) -> None:
    """Without an analysis its pods were all that it had; with one that has measured, what was measured is judged."""
    stage.cluster.apply(analysis_template("good", metric("good", interval="1m")))
    stage.cluster.apply(experiment(duration="1h", analyses=[uses("good")] if with_analysis else []))
    async with stage.controller():
        await until_phase(stage, "Running")
        await asyncio.sleep(30)
        assert edit(stage, {"spec": {"terminate": True}}) == 200
        over = await until_over(stage, within_s=30)
        assert (over["phase"], over["message"].partition(";")[0]) == ("Successful", "it was terminated")
        await asyncio.sleep(60)
        assert sizes(stage) == [0]


async def test_what_is_terminated_before_its_pods_are_there_is_no_success(stage: Stage) -> None:
    """Argo Rollouts says Successful."""
    stage.cluster.apply(experiment(group("green", image="web:bad")))
    async with stage.controller():
        await until(stage, lambda status: bool(status.get("startedAt")))
        assert edit(stage, {"spec": {"terminate": True}}) == 200
        assert (await until_over(stage, within_s=30))["phase"] == "Inconclusive"


async def test_arguments_name_the_pods_of_templates(stage: Stage) -> None:
    """`{{templates.NAME.podTemplateHash}}` and `{{templates.NAME.replicaset.name}}`, and when all pods were available."""
    names = ("hash", "rs", "at")
    stage.cluster.apply(analysis_template("good", metric("good"), args=[{"name": name} for name in names]))
    texts = ("{{templates.blue.podTemplateHash}}", "{{ templates.blue.replicaset.name }}", "{{experiment.availableAt}}")
    given = [{"name": name, "value": text} for name, text in zip(names, texts, strict=True)]
    stage.cluster.apply(experiment(analyses=[uses("good", args=given)]))
    async with stage.controller():
        status = await until_over(stage)
    (run,), (pods,) = owned(stage, ANALYSIS_RUN), owned(stage, REPLICA_SET)
    values = {each["name"]: each["value"] for each in run["spec"]["args"]}
    labels = pods["spec"]["template"]["metadata"]["labels"]
    assert values == {
        "hash": labels["rollouts.dev/revision"],
        "rs": pods["metadata"]["name"],
        "at": status["availableAt"],
    }


async def test_two_templates_may_have_the_same_pods(stage: Stage) -> None:
    """Argo's functional/experiment-same-template.yaml: their pods are told apart by a label of ours."""
    same = [{**group("app"), "name": name} for name in ("first", "second")]
    stage.cluster.apply(experiment(*same, duration="30s"))
    async with stage.controller():
        assert (await until_over(stage))["phase"] == "Successful"
    hashes = {each["podTemplateHash"] for each in seen(stage)["templateStatuses"]}
    assert len(hashes) == 2


async def test_an_hour_ends_what_nothing_else_ends(stage: Stage) -> None:
    """Argo Rollouts runs it forever (issue 3264)."""
    stage.cluster.apply(experiment(duration=None))
    async with stage.controller():
        await until_phase(stage, "Running")
        began_s = stage.now_s()
        assert (await until_over(stage, within_s=4_000))["phase"] == "Successful"
        assert stage.now_s() - began_s == pytest.approx(3_600, abs=5)


async def test_the_leader_counts_experiments_by_phase(stage: Stage) -> None:
    """Whoever takes over counts those that are over, too; one that is deleted is counted no more."""
    stage.cluster.apply(experiment(duration="10s"))

    def counted() -> list[str]:
        lines = stage.telemetry[-1].exposition().decode().splitlines()
        series = (line for line in lines if line.startswith("rollouts_experiment_phase{"))
        return [line.partition('phase="')[2] for line in series if not line.endswith(" 0.0")]

    async with stage.controller():
        await until_phase(stage, "Running")
        await asyncio.sleep(1)
        assert counted() == ['Running"} 1.0']
        await until_over(stage)
    assert counted() == []
    async with stage.controller():
        await asyncio.sleep(5)
        assert counted() == ['Successful"} 1.0']
        stage.cluster.api.answer(Request("DELETE", EXPERIMENT.path(NAMESPACE, "exp")))
        await asyncio.sleep(5)
        assert counted() == []


async def test_pods_that_a_route_may_send_requests_stay_until_the_rollout_lets_them_go(stage: Stage) -> None:
    """A Rollout asks for that when it makes the Experiment. Its end, also a bad one, takes nothing away then."""
    manifest = experiment(group("test", port=8080, service={}), duration="10s", scaleDownDelaySeconds=5)
    manifest["metadata"]["annotations"] = {KEEP_PODS: KEEP_PODS_VALUE}
    stage.cluster.apply(manifest)
    async with stage.controller():
        await until_phase(stage, "Successful")
        await asyncio.sleep(600)
        assert sizes(stage) == [1]
        assert len(owned(stage, SERVICE)) == 1
        assert "until no route sends them requests" in seen(stage)["templateStatuses"][0]["message"]
        assert edit(stage, {"metadata": {"annotations": {KEEP_PODS: str(int(stage.now_s()) + 60)}}}) == 200
        await asyncio.sleep(55)
        assert sizes(stage) == [1]
        await asyncio.sleep(30)
        assert sizes(stage) == [0]
        assert owned(stage, SERVICE) == []
        assert "message" not in seen(stage)["templateStatuses"][0]


async def test_what_nobody_can_read_keeps_the_pods(stage: Stage) -> None:
    """Too long is safe, and too short loses requests."""
    manifest = experiment(duration="10s", scaleDownDelaySeconds=5)
    manifest["metadata"]["annotations"] = {KEEP_PODS: "tomorrow"}
    stage.cluster.apply(manifest)
    async with stage.controller():
        await until_phase(stage, "Successful")
        await asyncio.sleep(600)
        assert sizes(stage) == [1]
