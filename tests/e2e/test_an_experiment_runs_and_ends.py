"""Promise: an Experiment runs, is judged, ends and leaves nothing on a real API server, with the chart's rights and fences."""

from __future__ import annotations

import pytest

from tests import build
from tests.e2e.manifests import canary, experiment
from tests.e2e.stage import Stage, current

pytestmark = pytest.mark.controlplane

LABEL = "rollouts.dev/experiment"


def _gone(stage: Stage, name: str) -> None:
    (pods,) = stage.all("replicasets", f"{LABEL}={name}")
    stage.until(
        "replicasets", pods["metadata"]["name"],
        lambda one: (one["spec"]["replicas"], one["status"]["replicas"]) == (0, 0),
    )  # fmt: skip
    assert stage.all("services", f"{LABEL}={name}") == []


def test_pods_run_behind_their_service_for_the_duration(stage: Stage) -> None:
    """The real EndpointSlice controller says when they are reachable, and kubectl when it is over."""
    stage.apply(experiment("timed", duration="3s"))

    running = stage.until("experiments", "timed", lambda one: one.get("status", {}).get("phase") == "Running")
    assert running["status"]["templateStatuses"][0]["availableReplicas"] == 2
    (service,) = stage.all("services", f"{LABEL}=timed")
    assert service["metadata"]["name"] == "timed-blue"
    stage.kubectl("wait", "experiment/timed", "--for=condition=Completed", "--timeout=50s")
    over = stage.get("experiments", "timed")
    assert (over["status"]["phase"], over["status"]["message"]) == (
        "Successful", "its duration is over; its pods were available",
    )  # fmt: skip
    _gone(stage, "timed")


def test_an_analysis_decides_and_a_person_may_end_it(stage: Stage) -> None:
    """No server measures here, so the one ends with the Error of its run; the other one is terminated."""
    metric = {"name": "up", "successCondition": "result[0] == 1", "consecutiveErrorLimit": 0}
    stage.apply(
        build.analysis_template(
            {**metric, "provider": {"prometheus": {"address": "http://nowhere.example", "query": "up"}}}, name="up"
        ),
        experiment("judged", duration="1h", analyses=[{"name": "up", "templateName": "up"}]),
        experiment("ended", duration="1h"),
    )

    over = stage.until("experiments", "judged", lambda one: "completedAt" in one.get("status", {}))
    assert (over["status"]["phase"], over["status"]["analysisRuns"][0]["phase"]) == ("Error", "Error")
    stage.until("experiments", "ended", lambda one: one.get("status", {}).get("phase") == "Running")
    stage.kubectl("patch", "experiment", "ended", "--type=merge", "-p", '{"spec": {"terminate": true}}')
    over = stage.until("experiments", "ended", lambda one: "completedAt" in one.get("status", {}))
    assert over["status"]["phase"] == "Successful"
    for name in ("judged", "ended"):
        _gone(stage, name)
    stage.kubectl("delete", "experiment", "judged", "ended", "--timeout=55s")


def test_a_step_of_a_rollout_runs_one(stage: Stage) -> None:
    """With both revisions' pods beside those that serve. One that nobody waits for any more is ended, and goes by the history."""
    step = {"experiment": {"duration": "1h", "templates": [{"name": of, "specRef": of} for of in ("stable", "canary")]}}
    limits = {"successfulRunHistoryLimit": 0, "unsuccessfulRunHistoryLimit": 0}
    stage.rolled_out(canary("web", replicas=2, steps=[step, {"setWeight": 50}], spec={"analysis": limits}))

    for image in ("web:2", "web:3"):
        stage.set_image("web", image)
        held = stage.until_at("web", "AnalysisRunning", step=0, image=image)
        begun = stage.until("rollouts", "web", lambda one: bool(one["status"].get("analyses")))
        name = begun["status"]["analyses"][0]["run"]
        running = stage.until("experiments", name, lambda one: one.get("status", {}).get("phase") == "Running")
        images = [each["template"]["spec"]["containers"][0]["image"] for each in running["spec"]["templates"]]
        assert images == [{"web:2": "web:1", "web:3": "web:2"}[image], image]
        stage.annotate("web", "promote", f"{current(held)}@skip-0")
        over = stage.until("experiments", name, lambda one: "completedAt" in one.get("status", {}))
        assert over["spec"]["terminate"] is True
        assert current(stage.wait_ready("web")) == current(held)

    assert [each["metadata"]["name"] for each in stage.all("experiments")] == [name]
