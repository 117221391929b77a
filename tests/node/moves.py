"""What is done to a Rollout while clients use it: every way in which its pods are taken away by somebody's decision."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import httpx

from tests.e2e.stage import Stage
from tests.node.workload import (
    GATED_STEPS,
    NAME,
    REPLICAS,
    App,
    Drain,
    Manifest,
    blue_green,
    canary,
    new_version,
    service,
)

DONE_WITHIN_S = 300
"""Many times what a move takes on two cores that others use too."""


@dataclass(frozen=True)
class Move:
    """One way to take pods away.

    Args:
        name: in reports.
        manifests: what there is before, for an app and a drain mode; one Rollout named NAME and its Services.
        act: does it, and returns when the pods that had to go are gone.
        service: that the clients use.
    """

    name: str
    manifests: Callable[[App, Drain], Sequence[Manifest]]
    act: Callable[[Stage], None]
    service: str = NAME


def until_phase(stage: Stage, phase: str, *, name: str = NAME) -> Manifest:
    """Watches the Rollout until its status, written for the spec as it is, has that phase."""
    return _until_status(stage, name, lambda status: status["phase"] == phase)


def until_waiting_for(stage: Stage, reason: str, *, name: str = NAME) -> Manifest:
    """Watches the Rollout until its status, written for the spec as it is, says that it waits for `reason`."""
    return _until_status(stage, name, lambda status: (status.get("waitingFor") or {}).get("reason") == reason)


def wait_until_done(stage: Stage) -> None:
    """Returns when the Rollout is Healthy for the spec as it is, and no pod but its own ready ones is there."""
    rollout = until_phase(stage, "Healthy")
    status = rollout["status"]
    stage.until_pods(NAME, {status["currentRevision"]: rollout["spec"]["replicas"]}, within_s=DONE_WITHIN_S)


def abort(stage: Stage) -> None:
    """Aborts the update by hand, and waits until only pods of the stable revision are there."""
    stage.annotate(NAME, "abort", "true")
    until_phase(stage, "Aborted")
    wait_until_back(stage)


def wait_until_back(stage: Stage) -> None:
    """Waits until all pods are of the stable revision."""
    stable = stage.get("rollouts", NAME)["status"]["stableRevision"]
    stage.until_pods(NAME, {stable: REPLICAS}, within_s=DONE_WITHIN_S)


def _until_status(stage: Stage, name: str, holds: Callable[[Manifest], bool]) -> Manifest:
    def stands(one: Manifest) -> bool:
        status = one.get("status", {})
        return status.get("observedGeneration") == one["metadata"]["generation"] and holds(status)

    return stage.until("rollouts", name, stands, within_s=DONE_WITHIN_S)


def _update(stage: Stage) -> None:
    stage.patch(NAME, new_version("2"))
    wait_until_done(stage)


def _abort(stage: Stage) -> None:
    stable = stage.get("rollouts", NAME)["status"]["currentRevision"]
    stage.patch(NAME, new_version("2"))
    until_waiting_for(stage, "PromotionNeeded")
    abort(stage)
    stage.until_pods(NAME, {stable: REPLICAS}, within_s=DONE_WITHIN_S)


def _roll_back(stage: Stage) -> None:
    first = stage.get("rollouts", NAME)["status"]["currentRevision"]
    _update(stage)
    stage.annotate(NAME, "rollback", first)
    stage.until("rollouts", NAME, lambda one: one["status"].get("stableRevision") == first, within_s=DONE_WITHIN_S)
    stage.until_pods(NAME, {first: REPLICAS}, within_s=DONE_WITHIN_S)


def restart(stage: Stage) -> None:
    """Replaces all pods."""
    before = pod_names(stage)
    stage.annotate(NAME, "restart", "true")
    wait_until_restarted(stage, before)


def pod_names(stage: Stage) -> set[str]:
    """Of all pods of the Rollout."""
    return {pod["metadata"]["name"] for pod in stage.all("pods", f"app={NAME}")}


def wait_until_restarted(stage: Stage, before: set[str]) -> None:
    """Returns when none of the pods `before` is there any more, and the Rollout is done."""
    before = before & pod_names(stage)
    with stage.plane.watch(
        f"/api/v1/namespaces/{stage.namespace}/pods", timeout_s=DONE_WITHIN_S, labelSelector=f"app={NAME}"
    ) as events:
        for event in events:
            if event["type"] == "DELETED":
                before.discard(event["object"]["metadata"]["name"])
            if not before:
                break
    assert not before, f"not restarted: {', '.join(sorted(before))}"
    wait_until_done(stage)


def _scale_down(stage: Stage) -> None:
    """An autoscaler that sees pods which one could do the work of takes all others away."""
    stage.apply(_AUTOSCALER)
    stage.until("rollouts", NAME, lambda one: one["spec"]["replicas"] == 1, within_s=DONE_WITHIN_S)
    wait_until_done(stage)


def _evict(stage: Stage) -> None:
    """Each pod once, through the eviction API as `kubectl drain` does, as the disruption budget lets it."""
    for pod in stage.all("pods", f"app={NAME}"):
        _evict_one(stage, pod["metadata"]["name"])
    wait_until_done(stage)


def _evict_one(stage: Stage, pod: str) -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    path = f"/api/v1/namespaces/{stage.namespace}/pods/{pod}/eviction"
    deadline = time.monotonic() + DONE_WITHIN_S
    while True:
        stage.until("poddisruptionbudgets", NAME, _allows_one, within_s=DONE_WITHIN_S)
        answer = stage.plane.api.post(path, json=eviction)
        if answer.status_code != httpx.codes.TOO_MANY_REQUESTS or time.monotonic() > deadline:  # who drains asks again
            answer.raise_for_status()
            return


def _allows_one(budget: Manifest) -> bool:
    return bool(budget.get("status", {}).get("disruptionsAllowed"))


_AUTOSCALER = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": NAME},
    "spec": {
        "scaleTargetRef": {"apiVersion": "rollouts.dev/v1alpha1", "kind": "Rollout", "name": NAME},
        "minReplicas": 1,
        "maxReplicas": REPLICAS,
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "1"}},
            }
        ],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
    },
}


def _with_services(app: App, drain: Drain) -> Sequence[Manifest]:
    stable, other = f"{NAME}-stable", f"{NAME}-canary"
    return [canary(app, drain, stableService=stable, canaryService=other), service(), service(stable), service(other)]


def _with_budget(app: App, drain: Drain) -> Sequence[Manifest]:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": NAME}}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": NAME}, "spec": spec}
    return [canary(app, drain), service(), budget]


def _with_gate(app: App, drain: Drain) -> Sequence[Manifest]:
    return [canary(app, drain, steps=GATED_STEPS), service()]


def _plain(app: App, drain: Drain) -> Sequence[Manifest]:
    return [canary(app, drain), service()]


CANARY = Move("canary", _plain, _update)
CANARY_SERVICES = Move("canary-services", _with_services, _update, service=f"{NAME}-stable")
BLUE_GREEN = Move(
    "blue-green", lambda app, drain: [blue_green(app, drain), service(), service(f"{NAME}-preview")], _update
)
MOVES = (
    CANARY,
    CANARY_SERVICES,
    BLUE_GREEN,
    Move("abort", _with_gate, _abort),
    Move("rollback", _plain, _roll_back),
    Move("restart", _plain, restart),
    Move("scale-down", _plain, _scale_down),
    Move("eviction", _with_budget, _evict),
)
