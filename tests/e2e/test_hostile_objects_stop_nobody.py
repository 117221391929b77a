"""What a tenant may store in a real API server, as large and as deep as that takes it, stops nobody else's rollout."""

from __future__ import annotations

import json

import pytest

from rollouts.objects import REPLICA_SET, ROLLOUT
from tests import build
from tests.e2e.controllers import rollouts
from tests.e2e.manifests import Manifest, canary, config_map, container_of, service
from tests.e2e.stage import Stage, current
from tests.lab.control_plane import ControlPlane, condition

pytestmark = pytest.mark.controlplane

LEVELS = 1_100


def test_deep_and_large_objects_are_their_authors_trouble(control_plane: ControlPlane, stage: Stage) -> None:
    """3 KB of brackets, and 1.4 MB that the API server writes as 8.4 MB, each ended every controller of a cluster."""
    namespace = stage.namespace
    first = stage.rolled_out(canary("web"), service("web", app="web"))

    deep = json.dumps(canary("deep")).replace(
        '"containers"', '"more": %s, "containers"' % ("[" * LEVELS + "]" * LEVELS)
    )
    # With the label by which we watch ReplicaSets; in JSON its environment is six bytes for each `<`.
    large = build.replica_set("large", metadata={"labels": {"app": "large", "rollouts.dev/name": "web"}})
    container_of(large)["env"] = [{"name": "LARGE", "value": "<" * 1_400_000}]
    for path, body in (
        (ROLLOUT.path(namespace), deep),
        (REPLICA_SET.path(namespace), json.dumps(large)),
    ):  # as no client of ours would write it
        control_plane.api.post(path, content=body, headers={"Content-Type": "application/json"}).raise_for_status()

    # Python's own JSON parser follows no deeper than ours, so kubectl reads it.
    stage.kubectl("wait", "rollout/deep", "--for=jsonpath={.status.phase}=Degraded", "--timeout=60s")
    told = stage.kubectl("get", "rollout/deep", "--output=jsonpath={.status.message}")
    assert "nested too deeply" in told
    here = ("--namespace", namespace, "--kubeconfig", control_plane.kubeconfig_admin)
    listed = rollouts("get", *here).stdout
    assert "deep" in listed
    assert "web" in listed
    asked = rollouts("restart", "deep", *here, "--no-wait").stdout
    assert "restart" in asked, "the other commands read it, too"
    stage.apply(canary("web", image="web:2", steps=[{"setWeight": 50}]))
    second = current(stage.until("rollouts", "web", lambda one: current(one) != first))
    stage.wait_ready("web")
    stage.until_pods("web", {second: 4})


def test_a_run_made_in_place_of_the_controllers_is_not_believed(control_plane: ControlPlane, stage: Stage) -> None:
    """It has the name, the labels and the owner of the controller's, and a metric that succeeds. It promoted the revision."""
    pods: Manifest = {"provider": {"kubernetes": {}}}
    template = build.analysis_template({"name": "hard", "initialDelay": "10m", **pods}, name="hard")
    steps: list[Manifest] = [{"setWeight": 50}, {"analysis": {"templates": [{"templateName": "hard"}]}}]
    stage.rolled_out(template, canary("forged", replicas=2, steps=steps))
    stage.set_image("forged", "web:2")
    asked = stage.until("rollouts", "forged", lambda one: any("uid" in each for each in _analyses(one)))
    name, stable = _analyses(asked)[0]["run"], asked["status"]["stableRevision"]
    run = stage.get("analysisruns", name)

    metadata = {part: run["metadata"][part] for part in ("name", "labels", "annotations", "ownerReferences")}
    easy = {"name": "easy", "successCondition": "true", **pods}
    kind = {part: run[part] for part in ("apiVersion", "kind")}
    _replaced(control_plane, stage, name, {**kind, "metadata": metadata, "spec": {"metrics": [easy]}})

    told = stage.until_at("forged", "AnalysisInvalid")
    assert f"kubectl delete analysisrun {name}" in told["status"]["waitingFor"]["message"]
    stage.until("analysisruns", name, lambda one: one.get("status", {}).get("phase") == "Successful")
    assert stage.get("rollouts", "forged")["status"]["stableRevision"] == stable
    assert not [each for each in _analyses(stage.get("rollouts", "forged")) if each["phase"] == "Successful"]


def test_a_copy_made_in_place_of_the_controllers_is_not_used_by_a_rollback(stage: Stage) -> None:
    """It has the name, the labels, the annotations and the owner of the controller's, and other data. A rollback used it."""
    window = {"rollbackWindow": {"revisions": 3}}
    first = stage.rolled_out(
        config_map("copied-config"), canary("copied", configured_by=["copied-config"], steps=[], spec=window)
    )
    (copy,) = stage.all("configmaps", "rollouts.dev/name=copied,rollouts.dev/config-copy=true")
    _recolor(stage, "other")
    second = current(stage.until("rollouts", "copied", lambda one: current(one) not in ("", first)))
    stage.wait_ready("copied")
    stage.until_pods("copied", {second: 4})

    name = copy["metadata"]["name"]
    metadata = {part: copy["metadata"][part] for part in ("name", "labels", "annotations", "ownerReferences")}
    stage.kubectl("delete", "configmap", name)
    stage.apply({**config_map(name, {"color": "evil"}, immutable=True), "metadata": metadata})
    stage.annotate("copied", "rollback", first)

    told = stage.until("rollouts", "copied", lambda one: "ConfigCopyNotUsable" in json.dumps(one["status"]))
    assert f"ConfigMap {name} is not the copy that the controller made" in told["status"]["waitingFor"]["message"]
    stage.until_pods("copied", {second: 4})

    stage.kubectl("delete", "configmap", name)
    _recolor(stage, copy["data"]["color"])
    stage.until_pods("copied", {first: 4})
    assert stage.get("configmaps", name)["data"] == copy["data"]


def test_a_command_of_80_000_characters_is_refused_by_its_beginning(stage: Stage) -> None:
    """All of it was copied into status, twice."""
    stage.rolled_out(canary("wordy", replicas=1))

    wordy = build.manifest(ROLLOUT, "wordy", metadata={"annotations": {"rollouts.dev/abort": "x" * 80_000}})
    stage.kubectl("apply", "--server-side", "--field-manager=wordy", "-f", "-", input=json.dumps(wordy))

    told = stage.until("rollouts", "wordy", lambda one: condition(one, "InvalidCommand")[0] == "True")
    assert len(json.dumps(told["status"])) < 10_000


def _replaced(plane: ControlPlane, stage: Stage, name: str, run: Manifest) -> None:
    """Deletes a run and makes another one before the controller does: sooner or later an attacker is the first."""
    runs = f"/apis/rollouts.dev/v1alpha1/namespaces/{stage.namespace}/analysisruns"
    for _ in range(500):
        plane.api.delete(f"{runs}/{name}")
        if plane.api.post(runs, json=run).status_code == 201:
            return
    raise AssertionError(f"the controller was always the first to make {name}")


def _recolor(stage: Stage, color: str) -> None:
    stage.kubectl("patch", "configmap", "copied-config", "--type=merge", "-p", json.dumps({"data": {"color": color}}))


def _analyses(rollout: Manifest) -> list[Manifest]:
    found: list[Manifest] = rollout.get("status", {}).get("analyses", [])
    return found
