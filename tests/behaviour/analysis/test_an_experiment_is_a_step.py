"""Promise: a canary step `experiment` runs pods of both revisions, and the update goes on only by its success."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rollouts.objects import ANALYSIS_RUN, CONFIG_MAP, EXPERIMENT, POD, REPLICA_SET, ROLLOUT, Manifest
from rollouts.ports import MERGE_PATCH, Request
from tests import build
from tests.behaviour.analysis import experiment_steps as steps
from tests.controller.analysis.stage import NAMESPACE, Script, Stage, metric, play
from tests.controller.experiments.stage import analysis_template, uses

GOOD: Manifest = {"experiment": {"templates": steps.both(), "duration": "5m"}}
HALF: Manifest = {"setWeight": 50}


def judged(template: str = "good", **more: Any) -> Manifest:
    """A step whose Experiment is judged by an analysis."""
    return {"experiment": {"templates": steps.both(), "analyses": [uses(template)], **more}}


def test_the_update_waits_for_a_good_experiment_and_goes_on() -> None:
    """Both revisions run beside the Rollout's pods, from the templates of their ReplicaSets."""
    seen: dict[str, Any] = {}

    async def scenario(stage: Stage) -> None:
        async with stage.controller():
            await steps.begin(stage, steps.rollout(HALF, GOOD, {"setWeight": 60}))
            made = await steps.until_running(stage)
            seen["owner"] = made["metadata"]["ownerReferences"][0]["name"]
            seen["images"] = [each["template"]["spec"]["containers"][0]["image"] for each in made["spec"]["templates"]]
            of_both = stage.cluster.list(POD, NAMESPACE)
            seen["pods"] = sum("rollouts.dev/experiment" in each["metadata"]["labels"] for each in of_both)
            seen["wait"] = steps.status(stage)["waitingFor"]["message"]
            await steps.until(stage, steps.stable)
            seen["end"] = steps.end(stage)

    play(scenario)
    assert seen["owner"] == "web"
    assert seen["images"] == ["web:1", "web:2"]
    assert seen["pods"] == 2
    assert "step 2: waiting for Experiment web-" in seen["wait"]
    assert seen["end"]["experiments"] == ["Successful"]
    assert seen["end"]["promoted"]


def test_an_experiment_may_be_the_first_step() -> None:
    """Argo's users try a revision out before it gets any request: it has no pod of its own then."""
    seen: dict[str, Any] = {}

    async def scenario(stage: Stage) -> None:
        async with stage.controller():
            await steps.begin(stage, steps.rollout(GOOD, HALF))
            await steps.until_running(stage)
            seen["sizes"] = steps.end(stage)["sizes"]
            await steps.until(stage, steps.stable)
            seen["end"] = steps.end(stage)

    play(scenario)
    assert seen["sizes"] == [0, 2]
    assert seen["end"]["promoted"]
    assert seen["end"]["experiments"] == ["Successful"]


def test_argos_test_of_an_experiment_with_an_analysis() -> None:
    """Argo Rollouts' functional test TestRolloutWithExperimentAndAnalysis: the step passes with its analysis."""
    seen: dict[str, Any] = {}
    hashes = [
        {"name": "stable-hash", "valueFrom": {"podTemplateHashValue": "Stable"}},
        {"name": "canary-hash", "value": "{{templates.new.podTemplateHash}}"},
    ]
    asked = [{"name": "stable-hash"}, {"name": "canary-hash"}]

    async def scenario(stage: Stage) -> None:
        template = analysis_template("good", metric("good", count=2, interval="5s"), args=asked)
        async with stage.controller():
            step = {"experiment": {"templates": steps.both(), "analyses": [uses("good", args=hashes)]}}
            seen["first"] = await steps.begin(stage, steps.rollout(HALF, step), template)
            seen["made"] = await steps.until_running(stage)
            await steps.until(stage, steps.stable)
            (run,) = stage.cluster.list(ANALYSIS_RUN, NAMESPACE)
            seen["args"] = {each["name"]: each["value"] for each in run["spec"]["args"]}
            seen["hash"] = stage.cluster.get(EXPERIMENT, NAMESPACE, seen["made"]["metadata"]["name"])
            seen["end"] = steps.end(stage)

    play(scenario)
    assert (seen["end"]["promoted"], seen["end"]["experiments"], seen["end"]["runs"]) == (
        *(True, ["Successful"], ["Successful"]),
    )
    assert seen["args"]["stable-hash"] == seen["first"]
    assert seen["args"]["canary-hash"] == seen["hash"]["status"]["templateStatuses"][1]["podTemplateHash"]


@pytest.mark.parametrize(("phase", "script"), [("Failed", {"good": [0.0]}), ("Error", {})])
def test_a_bad_experiment_aborts_the_update(phase: str, script: Script) -> None:
    """Failed, or not carried out as it was asked for: neither is a success, and nothing is promoted."""
    seen: dict[str, Any] = {}

    async def scenario(stage: Stage) -> None:
        slow = analysis_template("good", metric("good", count=2, interval="2m"))
        async with stage.controller():
            await steps.begin(stage, steps.rollout(judged(), HALF), slow)
            if phase == "Error":
                await steps.until_running(stage)
                await steps.until_run(stage)
                (run,) = stage.cluster.list(ANALYSIS_RUN, NAMESPACE)
                stage.delete(run["metadata"]["name"])
            seen["status"] = await steps.until(stage, lambda each: bool(each.get("abort")))
            seen["end"] = steps.end(stage)

    play(scenario, script)
    assert seen["end"]["experiments"] == [phase]
    assert not seen["end"]["promoted"]
    assert "Experiment web-" in seen["status"]["abort"]["message"]


def test_an_inconclusive_experiment_waits_for_a_person() -> None:
    """As an inconclusive analysis does: a person who names the revision passes its verdict."""
    seen: dict[str, Any] = {}
    unsure = metric("good", successCondition="result[0] >= 2", failureCondition="result[0] < 0")

    async def scenario(stage: Stage) -> None:
        async with stage.controller():
            await steps.begin(stage, steps.rollout(judged(), HALF), analysis_template("good", unsure))
            held = await steps.until(
                stage, lambda each: (each.get("waitingFor") or {}).get("reason") == "AnalysisInconclusive"
            )
            seen["wait"] = held["waitingFor"]["message"]
            steps.annotate(stage, "promote", f"{held['currentRevision']}@0")
            await steps.until(stage, steps.stable)
            seen["end"] = steps.end(stage)

    play(scenario)
    assert "Experiment web-" in seen["wait"]
    assert seen["end"]["experiments"] == ["Inconclusive"]


@pytest.mark.parametrize("how", ["abort", "supersede", "skip"])
def test_what_nobody_waits_for_is_ended(how: str) -> None:
    """A user of Argo Rollouts reports an experiment that went on after a promotion (issue 271)."""
    seen: dict[str, Any] = {}

    async def scenario(stage: Stage) -> None:
        async with stage.controller():
            await steps.begin(stage, steps.rollout(GOOD, HALF))
            made = await steps.until_running(stage)
            revision = steps.status(stage)["currentRevision"]
            if how == "abort":
                steps.annotate(stage, "abort", revision)
            elif how == "skip":
                steps.annotate(stage, "promote", f"{revision}@skip-0")
            else:
                steps.change_image(stage, "web:3")
            await stage.cluster.until(
                lambda found: bool(((found or {}).get("status") or {}).get("completedAt")),
                kind=EXPERIMENT, namespace=NAMESPACE, name=made["metadata"]["name"], deadline_s=60,
            )  # fmt: skip
            seen["told"] = stage.cluster.get(EXPERIMENT, NAMESPACE, made["metadata"]["name"])
            if how != "abort":
                await steps.until(stage, steps.stable)
            seen["end"] = steps.end(stage)

    play(scenario)
    assert seen["told"]["spec"]["terminate"] is True
    assert seen["end"]["promoted"] is (how != "abort")
    assert len(seen["end"]["experiments"]) == (2 if how == "supersede" else 1)


def test_somebody_elses_experiment_under_its_name_says_nothing() -> None:
    """What a tenant puts in its place has another uid: nothing that it says counts."""
    seen: dict[str, Any] = {}

    async def scenario(stage: Stage) -> None:
        async with stage.controller():
            await steps.begin(stage, steps.rollout(GOOD, HALF))
            made = await steps.until_running(stage)
            name = made["metadata"]["name"]
            await steps.until(stage, lambda each: bool(each["analyses"][0].get("uid")))
            copy = {key: made[key] for key in ("apiVersion", "kind", "spec")}
            kept = {key: made["metadata"][key] for key in ("name", "namespace", "labels", "ownerReferences")}
            assert stage.cluster.api.answer(Request("DELETE", EXPERIMENT.path(NAMESPACE, name))).status == 200
            stage.cluster.apply({**copy, "metadata": kept})
            good = msgspec.json.encode({"status": {"phase": "Successful", "completedAt": "2026-01-01T00:00:00Z"}})
            path = EXPERIMENT.path(NAMESPACE, name, "status")
            assert stage.cluster.api.answer(Request("PATCH", path, {}, good, MERGE_PATCH)).status == 200
            now = await steps.until(
                stage, lambda each: (each.get("waitingFor") or {}).get("reason") == "AnalysisInvalid", within_s=60
            )
            seen["wait"] = now["waitingFor"]["message"]
            seen["step"] = now.get("currentStepIndex", 0)

    play(scenario)
    assert "nothing that it says counts" in seen["wait"]
    assert seen["step"] == 0


def test_experiments_go_by_history_as_runs_do() -> None:
    """Five of each outcome are kept by default; here none but that of the last update."""
    seen: dict[str, Any] = {}

    async def scenario(stage: Stage) -> None:
        manifest = steps.rollout(GOOD, HALF)
        manifest["spec"]["analysis"] = {"successfulRunHistoryLimit": 0}
        async with stage.controller():
            await steps.begin(stage, manifest)
            await steps.until(stage, steps.stable)
            seen["before"] = steps.end(stage)
            steps.change_image(stage, "web:3")
            await steps.until(stage, lambda each: not steps.stable(each))
            await steps.until(stage, steps.stable)
            seen["end"] = steps.end(stage)

    play(scenario)
    assert seen["before"]["promoted"]
    assert seen["end"]["promoted"]
    assert len(seen["end"]["experiments"]) <= 1


def test_copies_of_config_are_those_of_the_revision() -> None:
    """An Experiment uses the copies of its revision and makes none: none is left behind."""
    seen: dict[str, Any] = {}

    async def scenario(stage: Stage) -> None:
        stage.cluster.apply(build.config_map("settings", NAMESPACE, data={"colour": "blue"}))
        manifest = steps.rollout(GOOD, HALF)
        source = {"envFrom": [{"configMapRef": {"name": "settings"}}]}
        manifest["spec"]["template"]["spec"]["containers"][0] |= source
        async with stage.controller():
            await steps.begin(stage, manifest)
            made = await steps.until_running(stage)
            templates = [each["template"]["spec"] for each in made["spec"]["templates"]]
            seen["used"] = {each["containers"][0]["envFrom"][0]["configMapRef"]["name"] for each in templates}
            sets = stage.cluster.list(REPLICA_SET, NAMESPACE)
            own = [each for each in sets if each["metadata"]["ownerReferences"][0]["kind"] == ROLLOUT.kind]
            of_sets = [each["spec"]["template"]["spec"] for each in own]
            seen["of sets"] = {each["containers"][0]["envFrom"][0]["configMapRef"]["name"] for each in of_sets}
            seen["copies"] = len(stage.cluster.list(CONFIG_MAP, NAMESPACE))
            await steps.until(stage, steps.stable)
            seen["after"] = len(stage.cluster.list(CONFIG_MAP, NAMESPACE))

    play(scenario)
    assert seen["used"] == seen["of sets"]
    assert "settings" not in seen["used"]
    assert seen["after"] <= seen["copies"]
