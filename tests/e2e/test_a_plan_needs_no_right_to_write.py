"""`rollouts plan` on a real API server, as a user who may only read: what it says is what the controller then does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rollouts.objects import RESOURCE_QUOTA
from rollouts.sim.storage.registry import SERVICE_ACCOUNT
from tests import build
from tests.e2e.controllers import rollouts
from tests.e2e.manifests import GATE, Manifest, canary, config_map, service
from tests.e2e.stage import REVISION, Stage, current
from tests.lab.control_plane import is_true

pytestmark = pytest.mark.controlplane

READ = ["get", "list"]
UNSAFE = 5


def _reader(stage: Stage, *, more: tuple[str, ...] = ()) -> Path:
    """A kubeconfig of somebody who may get and list what a plan is made of, in this namespace, and `more` of the core group."""
    rules = [
        {"apiGroups": ["rollouts.dev"], "resources": ["rollouts"], "verbs": READ},
        {"apiGroups": ["apps"], "resources": ["replicasets"], "verbs": READ},
        {"apiGroups": [""], "resources": ["services", "pods", *more], "verbs": READ},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": READ},
    ]
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": stage.namespace}
    stage.apply(build.manifest(SERVICE_ACCOUNT, "reader"), *build.granted("reader", None, rules, to=subject))
    return stage.plane.service_account_kubeconfig(stage.namespace, "reader")


def _planned(kubeconfig: Path, *manifests: Manifest, code: int) -> dict[str, Any]:
    """The plan as data. Raises: AssertionError with the program's words for another exit code."""
    plan_of = ("plan", "--kubeconfig", kubeconfig, "-o", "json", "--proxy-mode", "nftables", "-f", "-")
    items = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
    done = rollouts(*plan_of, text=items, code=code)
    (plan,) = json.loads(done.stdout)["plans"]
    return dict(plan)


def test_a_reader_plans_what_then_happens(stage: Stage) -> None:
    """Before the Rollout is there, and before its update; the pods at the gate are compared with the real ones."""
    reader = _reader(stage)
    services = (service("web-stable", app="web"), service("web-canary", app="web"))
    named: dict[str, Any] = {"stableService": "web-stable", "canaryService": "web-canary"}
    before = _planned(reader, canary("web", **named), *services, code=UNSAFE)
    assert before["exists"] is False
    unsafe = {each["rule"] for each in before["findings"] if each["severity"] == "unsafe"}
    assert unsafe == {"NoReadinessProbe", "WeightWithoutEffect"}, "these Services get no weight: no route leads to them"

    first = stage.rolled_out(canary("web", **named), *services)
    assert first == before["revision"]["template"]
    plan = _planned(reader, canary("web", image="web:2", **named), code=UNSAFE)
    second = stage.gated("web", "web:2", step=GATE)

    revisions = {"template": second, "current": first, "stable": first, "target": second}
    assert plan["revision"] == {**revisions, "changes": True}
    at_gate = plan["steps"][GATE]
    stage.until_pods("web", {second: at_gate["pods"]["new"], first: at_gate["pods"]["old"]})
    real = {name: stage.get("services", name)["spec"]["selector"][REVISION] for name in at_gate["services"]}
    sides = {"new": second, "old": first}
    assert real == {name: sides[side] for name, side in at_gate["services"].items()}


def test_a_reader_plans_the_edit_of_a_config_map(stage: Stage) -> None:
    """The revision and the copy are named as the controller then names them; without the right to read it the plan says so."""
    text = config_map("app", {"LEVEL": "info"})
    edited = {**text, "data": {"LEVEL": "debug", "MORE": "ü"}}
    first = stage.rolled_out(text, canary("web", configured_by=("app",)), service("web", app="web"))

    blind = _planned(_reader(stage), canary("web", configured_by=("app",)), code=UNSAFE)
    assert blind["revision"]["target"] == first, "what may not be read is taken as unchanged"
    assert "ConfigUnknown" in {each["rule"] for each in blind["findings"]}

    reader = _reader(stage, more=("configmaps",))
    plan = _planned(reader, canary("web", configured_by=("app",)), edited, code=UNSAFE)
    (config,) = plan["config"]
    assert (config["change"], config["changedKeys"]) == ("changed", ["LEVEL", "MORE"])

    stage.apply(edited)
    copied = stage.until("configmaps", config["copy"], lambda made: made.get("immutable") is True)
    second = current(stage.until_at("web", "PromotionNeeded", step=GATE))
    assert copied["data"] == edited["data"]
    assert (plan["revision"]["current"], plan["revision"]["target"]) == (first, second) and first != second


def test_a_step_that_a_quota_does_not_allow_is_told_and_then_waits(stage: Stage) -> None:
    """The quota has room for the four pods that run: the fifth, of the surge, is refused as the plan says."""
    stage.apply(build.manifest(RESOURCE_QUOTA, "team", spec={"hard": {"pods": "4"}}), service("web", app="web"))
    stage.until("resourcequotas", "team", lambda quota: bool(quota.get("status", {}).get("hard")))
    stage.rolled_out(canary("web"))

    reader = _reader(stage, more=("resourcequotas",))
    plan = _planned(reader, canary("web", image="web:2"), code=UNSAFE)
    excess = {"kind": "ResourceQuota", "name": "team", "resource": "pods", "hard": "4", "others": "0"}
    assert plan["steps"][0]["outgrown"] == [{**excess, "needs": "5", "allows": "4", "pods": 1}]
    assert plan["limits"]["notes"] == ["not checked: you may not list HorizontalPodAutoscalers and LimitRanges here"]

    stage.set_image("web", "web:2")
    target = f"web-{plan['revision']['target']}"
    refused = stage.until("replicasets", target, lambda one: is_true(one, "ReplicaFailure"))
    (why,) = [each["message"] for each in refused["status"]["conditions"]]
    assert "exceeded quota: team, requested: pods=1, used: pods=4, limited: pods=4" in why
