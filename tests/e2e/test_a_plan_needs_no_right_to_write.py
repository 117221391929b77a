"""`rollouts plan` on a real API server, as a user who may only read: what it says is what the controller then does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.manifests import GATE, Manifest, canary, service
from tests.e2e.stage import REVISION, Stage, current
from tests.lab.credentials import write_kubeconfig

pytestmark = pytest.mark.controlplane

READ = ["get", "list"]
UNSAFE = 5


def _reader(stage: Stage, folder: Path, *, more: tuple[str, ...] = ()) -> Path:
    """A kubeconfig of somebody who may get and list what a plan is made of, in this namespace, and `more` of the core group."""
    rules = [
        {"apiGroups": ["rollouts.dev"], "resources": ["rollouts"], "verbs": READ},
        {"apiGroups": ["apps"], "resources": ["replicasets"], "verbs": READ},
        {"apiGroups": [""], "resources": ["services", "pods", *more], "verbs": READ},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": READ},
    ]
    rbac = "rbac.authorization.k8s.io"
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": stage.namespace}
    stage.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader"}},
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": {"name": "reader"}, "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "reader"},
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "reader"},
            "subjects": [subject],
        },
    )
    token = stage.kubectl("create", "token", "reader").strip()
    return write_kubeconfig(
        folder / "reader.kubeconfig",
        url=stage.plane.url,
        certificate=Path(stage.plane.certificate),
        token=token,
        user="reader",
        namespace=stage.namespace,
    )


def _planned(kubeconfig: Path, *manifests: Manifest, code: int) -> dict[str, Any]:
    """The plan as data. Raises: AssertionError with the program's words for another exit code."""
    done = subprocess.run(
        [sys.executable, "-m", "rollouts", "plan", "--kubeconfig", str(kubeconfig), "-o", "json",
         "--proxy-mode", "nftables", "-f", "-"],
        input=json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}),
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    (plan,) = json.loads(done.stdout)["plans"]
    return dict(plan)


def _has(pods: int) -> Callable[[Manifest], bool]:
    """Whether a ReplicaSet was told to have so many pods."""
    return lambda replica_set: bool(replica_set["spec"]["replicas"] == pods)


def test_a_reader_plans_what_then_happens(stage: Stage, tmp_path: Path) -> None:
    """Before the Rollout is there, and before its update; the pods at the gate are compared with the real ones."""
    reader = _reader(stage, tmp_path)
    services = (service("web-stable", app="web"), service("web-canary", app="web"))
    named: dict[str, Any] = {"stableService": "web-stable", "canaryService": "web-canary"}
    before = _planned(reader, canary("web", **named), *services, code=UNSAFE)
    assert before["exists"] is False
    unsafe = {each["rule"] for each in before["findings"] if each["severity"] == "unsafe"}
    assert unsafe == {"NoReadinessProbe", "WeightWithoutEffect"}, "these Services get no weight: no route leads to them"

    stage.apply(canary("web", **named), *services)
    first = current(stage.wait_ready("web"))
    assert first == before["revision"]["template"]
    plan = _planned(reader, canary("web", image="web:2", **named), code=UNSAFE)
    stage.set_image("web", "web:2")
    second = current(stage.until_at("web", "PromotionNeeded", step=GATE, image="web:2"))

    assert plan["revision"] == {
        "template": second,
        "current": first,
        "stable": first,
        "target": second,
        "changes": True,
    }
    at_gate = plan["steps"][GATE]
    for revision, pods in ((second, at_gate["pods"]["new"]), (first, at_gate["pods"]["old"])):
        stage.until("replicasets", f"web-{revision}", _has(pods))
    real = {name: stage.get("services", name)["spec"]["selector"][REVISION] for name in at_gate["services"]}
    sides = {"new": second, "old": first}
    assert real == {name: sides[side] for name, side in at_gate["services"].items()}


def test_a_reader_plans_the_edit_of_a_config_map(stage: Stage, tmp_path: Path) -> None:
    """The revision and the copy are named as the controller then names them; without the right to read it the plan says so."""
    text: Manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app"}, "data": {"LEVEL": "info"}}
    edited = {**text, "data": {"LEVEL": "debug", "MORE": "ü"}}
    stage.apply(text, canary("web", configured_by=("app",)), service("web", app="web"))
    first = current(stage.wait_ready("web"))

    blind = _planned(_reader(stage, tmp_path), canary("web", configured_by=("app",)), code=UNSAFE)
    assert blind["revision"]["target"] == first, "what may not be read is taken as unchanged"
    assert "ConfigUnknown" in {each["rule"] for each in blind["findings"]}

    reader = _reader(stage, tmp_path, more=("configmaps",))
    plan = _planned(reader, canary("web", configured_by=("app",)), edited, code=UNSAFE)
    (config,) = plan["config"]
    assert (config["change"], config["changedKeys"]) == ("changed", ["LEVEL", "MORE"])

    stage.apply(edited)
    copied = stage.until("configmaps", config["copy"], lambda made: made.get("immutable") is True)
    second = current(stage.until_at("web", "PromotionNeeded", step=GATE))
    assert copied["data"] == edited["data"]
    assert (plan["revision"]["current"], plan["revision"]["target"]) == (first, second) and first != second


def test_a_step_that_a_quota_does_not_allow_is_told_and_then_waits(stage: Stage, tmp_path: Path) -> None:
    """The quota has room for the four pods that run: the fifth, of the surge, is refused as the plan says."""
    stage.apply(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}, "spec": {"hard": {"pods": "4"}}},
        service("web", app="web"),
    )
    stage.until("resourcequotas", "team", lambda quota: bool(quota.get("status", {}).get("hard")))
    stage.apply(canary("web"))
    stage.wait_ready("web")

    reader = _reader(stage, tmp_path, more=("resourcequotas",))
    plan = _planned(reader, canary("web", image="web:2"), code=UNSAFE)
    excess = {"kind": "ResourceQuota", "name": "team", "resource": "pods", "hard": "4", "others": "0"}
    assert plan["steps"][0]["outgrown"] == [{**excess, "needs": "5", "allows": "4", "pods": 1}]
    assert plan["limits"]["notes"] == ["not checked: you may not list HorizontalPodAutoscalers and LimitRanges here"]

    stage.set_image("web", "web:2")
    refused = stage.until("replicasets", f"web-{plan['revision']['target']}", _is_refused)
    (why,) = [each["message"] for each in refused["status"]["conditions"]]
    assert "exceeded quota: team, requested: pods=1, used: pods=4, limited: pods=4" in why


def _is_refused(replica_set: Manifest) -> bool:
    """Whether its controller could not create a pod."""
    conditions = replica_set.get("status", {}).get("conditions") or ()
    return any((each["type"], each["status"]) == ("ReplicaFailure", "True") for each in conditions)
