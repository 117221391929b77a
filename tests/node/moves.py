"""What is done to a Rollout while clients use it: every way in which its pods are taken away by somebody's decision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.e2e.stage import Stage
from tests.lab.metrics_api import served_metrics
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

DONE_WITHIN_S = 180


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


def until_phase(stage: Stage, phase: str) -> Manifest:
    """Watches the Rollout until its status, written for the spec as it is, has that phase."""
    return stage.until(
        "rollouts",
        NAME,
        lambda one: (
            one.get("status", {}).get("phase") == phase
            and one["status"]["observedGeneration"] == one["metadata"]["generation"]
        ),
        within_s=DONE_WITHIN_S,
    )


def wait_until_done(stage: Stage) -> None:
    """Returns when the Rollout is Healthy for the spec as it is, and no pod but its own ready ones is there."""
    rollout = until_phase(stage, "Healthy")
    status = rollout["status"]
    stage.until_pods(NAME, {status["currentRevision"]: rollout["spec"]["replicas"]}, within_s=DONE_WITHIN_S)


def _update(stage: Stage) -> None:
    stage.patch(NAME, new_version("2"))
    wait_until_done(stage)


def _abort(stage: Stage) -> None:
    stable = stage.get("rollout", NAME)["status"]["currentRevision"]
    stage.patch(NAME, new_version("2"))
    stage.until_at(NAME, "PromotionNeeded")
    stage.annotate(NAME, "abort", "true")
    until_phase(stage, "Aborted")
    stage.until_pods(NAME, {stable: REPLICAS}, within_s=DONE_WITHIN_S)


def _roll_back(stage: Stage) -> None:
    first = stage.get("rollout", NAME)["status"]["currentRevision"]
    _update(stage)
    stage.annotate(NAME, "rollback", first)
    stage.until("rollouts", NAME, lambda one: one["status"].get("stableRevision") == first, within_s=DONE_WITHIN_S)
    stage.until_pods(NAME, {first: REPLICAS}, within_s=DONE_WITHIN_S)


def _restart(stage: Stage) -> None:
    before = {pod["metadata"]["name"] for pod in stage.all("pods", "-l", f"app={NAME}")}
    stage.annotate(NAME, "restart", "true")
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
    """An autoscaler that sees idle pods takes all but one away."""
    with served_metrics(stage.plane, namespace=stage.namespace, millicores=1):
        stage.apply(_AUTOSCALER)
        stage.until("rollouts", NAME, lambda one: one["spec"]["replicas"] == 1, within_s=DONE_WITHIN_S)
        wait_until_done(stage)


def _evict(stage: Stage) -> None:
    """Each pod once, through the eviction API as `kubectl drain` does, as the disruption budget lets it."""
    for pod in stage.all("pods", "-l", f"app={NAME}"):
        name = pod["metadata"]["name"]
        stage.until("poddisruptionbudgets", NAME, _allows_one, within_s=DONE_WITHIN_S)
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        path = f"/api/v1/namespaces/{stage.namespace}/pods/{name}/eviction"
        stage.plane.api.post(path, json=eviction).raise_for_status()
    wait_until_done(stage)


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
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
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


CANARY = Move("canary", lambda app, drain: [canary(app, drain), service()], _update)
CANARY_SERVICES = Move("canary-services", _with_services, _update, service=f"{NAME}-stable")
BLUE_GREEN = Move(
    "blue-green", lambda app, drain: [blue_green(app, drain), service(), service(f"{NAME}-preview")], _update
)
MOVES = (
    CANARY,
    CANARY_SERVICES,
    BLUE_GREEN,
    Move("abort", lambda app, drain: [canary(app, drain, steps=GATED_STEPS), service()], _abort),
    Move("rollback", lambda app, drain: [canary(app, drain), service()], _roll_back),
    Move("restart", lambda app, drain: [canary(app, drain), service()], _restart),
    Move("scale-down", lambda app, drain: [canary(app, drain), service()], _scale_down),
    Move("eviction", _with_budget, _evict),
)
