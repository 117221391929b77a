"""What is done to a Rollout while clients use it, and what happens to it: every way in which its pods are taken away.

Decisions of somebody's first; then a slow app, a frozen controller manager, a replaced Service, and a crash, in the midst of it.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import httpx

from rollouts.sim.storage.registry import DISRUPTION_BUDGET
from tests.build import manifest
from tests.e2e.stage import Stage
from tests.node.workload import (
    GATED_STEPS,
    NAME,
    REPLICAS,
    App,
    Drain,
    Manifest,
    autoscaler,
    blue_green,
    canary,
    mounting,
    new_version,
    ready_after,
    service,
)

DONE_WITHIN_S = 300  # many times what a move takes on two cores that others use too


@dataclass(frozen=True)
class Move:
    """One way to take pods away."""

    name: str  # in reports
    manifests: Callable[[App, Drain], Sequence[Manifest]]  # what there is before: one Rollout named NAME, its Services
    act: Callable[[Stage], None]  # does it, and returns when the pods that had to go are gone
    service: str = NAME  # that the clients use


def until_phase(stage: Stage, phase: str, *, name: str = NAME) -> Manifest:
    """Watches the Rollout until its status, written for the spec as it is, has that phase."""
    return stage.until_phase(name, phase, within_s=DONE_WITHIN_S)


def until_waiting_for(stage: Stage, reason: str, *, name: str = NAME) -> Manifest:
    """Watches the Rollout until its status, written for the spec as it is, says that it waits for `reason`."""
    return stage.until_at(name, reason, within_s=DONE_WITHIN_S)


def wait_until_done(stage: Stage) -> None:
    """Returns when the Rollout is Healthy for the spec as it is, and no pod but its own ready ones is there."""
    rollout = until_phase(stage, "Healthy")
    status = rollout["status"]
    stage.until_pods(NAME, {status["currentRevision"]: rollout["spec"]["replicas"]}, within_s=DONE_WITHIN_S)


def wait_until_stable(stage: Stage, revision: str) -> None:
    """Returns when that revision is the stable one, and only its pods are there."""
    stage.until_stable(NAME, lambda stable: stable == revision, within_s=DONE_WITHIN_S)
    stage.until_pods(NAME, {revision: REPLICAS}, within_s=DONE_WITHIN_S)


def abort(stage: Stage) -> None:
    """Aborts the update by hand, and waits until only pods of the stable revision are there."""
    stage.annotate(NAME, "abort", "true")
    until_phase(stage, "Aborted")
    wait_until_back(stage)


def wait_until_back(stage: Stage) -> None:
    """Waits until all pods are of the stable revision."""
    wait_until_stable(stage, stage.get("rollouts", NAME)["status"]["stableRevision"])


def _update(stage: Stage) -> None:
    stage.patch(NAME, new_version("2"))
    wait_until_done(stage)


def _abort(stage: Stage) -> None:
    first = stage.get("rollouts", NAME)["status"]["currentRevision"]
    stage.patch(NAME, new_version("2"))
    until_waiting_for(stage, "PromotionNeeded")
    abort(stage)
    wait_until_stable(stage, first)


def _roll_back(stage: Stage) -> None:
    first = stage.get("rollouts", NAME)["status"]["currentRevision"]
    _update(stage)
    stage.annotate(NAME, "rollback", first)
    wait_until_stable(stage, first)


def restart(stage: Stage) -> None:
    before = pod_names(stage)
    stage.annotate(NAME, "restart", "true")
    wait_until_restarted(stage, before)


def pod_names(stage: Stage) -> set[str]:
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
    target = {"type": "AverageValue", "averageValue": "1"}
    at_once = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    stage.apply(autoscaler(target, most=REPLICAS, behavior=at_once))
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
        stage.until(
            "poddisruptionbudgets", NAME, lambda one: one["status"].get("disruptionsAllowed"), within_s=DONE_WITHIN_S
        )
        answer = stage.plane.api.post(path, json=eviction)
        if answer.status_code != httpx.codes.TOO_MANY_REQUESTS or time.monotonic() > deadline:  # who drains asks again
            answer.raise_for_status()
            return


def _with_services(app: App, drain: Drain) -> Sequence[Manifest]:
    stable, other = f"{NAME}-stable", f"{NAME}-canary"
    return [canary(app, drain, stableService=stable, canaryService=other), service(), service(stable), service(other)]


def _with_budget(app: App, drain: Drain) -> Sequence[Manifest]:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": NAME}}}
    return [*_plain(app, drain), manifest(DISRUPTION_BUDGET, NAME, spec=spec)]


def _preview(app: App, drain: Drain, spec: Manifest | None = None) -> list[Manifest]:
    return [blue_green(app, drain, spec=spec), service(), service(f"{NAME}-preview")]


def _plain(app: App, drain: Drain) -> Sequence[Manifest]:
    return [canary(app, drain), service()]


CANARY = Move("canary", _plain, _update)
CANARY_SERVICES = Move("canary-services", _with_services, _update, service=f"{NAME}-stable")
BLUE_GREEN = Move("blue-green", _preview, _update)
MOVES = (
    CANARY,
    CANARY_SERVICES,
    BLUE_GREEN,
    Move("abort", lambda app, drain: [canary(app, drain, steps=GATED_STEPS), service()], _abort),
    Move("rollback", _plain, _roll_back),
    Move("restart", _plain, restart),
    Move("scale-down", _plain, _scale_down),
    Move("eviction", _with_budget, _evict),
)

# What nobody has planned.

SLOW_S = 10
FROZEN_S = 20
LONGEST_REQUEST_S = 10
BEFORE_THE_END_S = 2
SERVES_S = 3
CRASHED_S = 60
AFTER_THE_END_S = 5


def _slow_blue_green(app: App, drain: Drain) -> list[Manifest]:
    rollout, *services = _preview(app, drain, {"replicas": 1})
    return [ready_after(rollout, SLOW_S), *services]


def _remembering(app: App, drain: Drain) -> list[Manifest]:
    """Of pods that remember what they were told (`/crash`) when their container is started again."""
    rollout, *services = _preview(app, drain)
    return [mounting(rollout, {"name": "state", "mountPath": "/state"}, state={"emptyDir": {}}), *services]


def _restart_while_frozen(stage: Stage) -> None:
    """Nobody makes a pod in the place of one that is evicted, nor takes it out of the EndpointSlices."""
    before = pod_names(stage)
    process = stage.plane.process_ids["kube-controller-manager"]
    os.kill(process, signal.SIGSTOP)
    try:
        stage.annotate(NAME, "restart", "true")
        threading.Event().wait(FROZEN_S)
        assert pod_names(stage) == before, "a pod went while nobody could replace it"
    finally:
        os.kill(process, signal.SIGCONT)
    wait_until_restarted(stage, before)


def _replace_the_service(stage: Stage) -> None:
    """Two seconds before the old pods may go, the Service selects them again for a moment."""
    stage.patch(NAME, new_version("2"))
    waiting = until_waiting_for(stage, "Draining")["status"]["waitingFor"]
    left = datetime.fromisoformat(waiting["deadline"]) - datetime.now(UTC)
    threading.Event().wait(max(0.0, left.total_seconds() - BEFORE_THE_END_S))
    stage.kubectl("replace", "-f", "-", input=json.dumps(service()))
    wait_until_done(stage)


def _crash(stage: Stage) -> None:
    """Every pod of the promoted revision ends, again and again; a person goes back to the old one when its time is over."""
    first = stage.get("rollouts", NAME)["status"]["currentRevision"]
    old = pod_names(stage)
    stage.patch(NAME, new_version("2"))
    stage.until_stable(NAME, lambda stable: stable != first, within_s=DONE_WITHIN_S)
    threading.Event().wait(SERVES_S)  # the proxies have followed, and the drain of the old pods is not over
    for pod in stage.all("pods", f"app={NAME}"):
        if pod["metadata"]["name"] not in old:
            with_crash = f"http://{pod['status']['podIP']}:8080/crash?for={CRASHED_S}s"
            try:
                httpx.get(with_crash, timeout=5, trust_env=False)
            except httpx.HTTPError:
                continue  # it has ended instead of answering
            raise AssertionError(f"{with_crash} was answered")
    kept = f"revision {first} keeps its {REPLICAS} pods"
    stage.until("rollouts", NAME, lambda one: kept in one["status"].get("message", ""), within_s=DONE_WITHIN_S)
    cutover = stage.get("rollouts", NAME)["status"]["drain"]["cutovers"][-1]
    left = datetime.fromisoformat(cutover["until"]) - datetime.now(UTC)
    threading.Event().wait(max(0.0, left.total_seconds()) + AFTER_THE_END_S)
    assert old <= pod_names(stage), "the pods that could serve were taken away by a clock"
    stage.annotate(NAME, "rollback", "true")
    stage.until_endpoints(NAME, {first: REPLICAS})
    threading.Event().wait(AFTER_THE_END_S)
    assert old <= pod_names(stage)


SLOW_CANARY = Move(
    "restart of one slow pod",
    lambda app, drain: [ready_after(canary(app, drain, spec={"replicas": 1}), SLOW_S), service()],
    restart,
)
SLOW_BLUE_GREEN = Move("restart of one slow blue-green pod", _slow_blue_green, restart)
FROZEN = Move(
    "restart while nobody replaces pods",
    lambda app, drain: [canary(app, drain, spec={"replicas": 2}), service()],
    _restart_while_frozen,
)
REPLACED = Move(
    "Service replaced in a drain",
    lambda app, drain: _preview(app, drain, {"drain": {"maxRequestSeconds": LONGEST_REQUEST_S}}),
    _replace_the_service,
)
CRASHED = Move("crash after the promotion", _remembering, _crash)
