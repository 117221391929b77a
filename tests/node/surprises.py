"""What happens to a Rollout in the middle of a move: a slow app, a frozen controller manager, a replaced Service, a crash."""

from __future__ import annotations

import json
import os
import signal
import threading
from datetime import UTC, datetime

import httpx

from tests.e2e.stage import Stage
from tests.node.moves import (
    DONE_WITHIN_S,
    Move,
    pod_names,
    restart,
    until_waiting_for,
    wait_until_done,
    wait_until_restarted,
)
from tests.node.workload import (
    NAME,
    REPLICAS,
    App,
    Drain,
    Manifest,
    blue_green,
    canary,
    new_version,
    ready_after,
    service,
    with_state,
)

SLOW_S = 10
FROZEN_S = 20
LONGEST_REQUEST_S = 10
BEFORE_THE_END_S = 2
SERVES_S = 3
CRASHED_S = 60
AFTER_THE_END_S = 5
ONE: Manifest = {"replicas": 1}


def _slow_canary(app: App, drain: Drain) -> list[Manifest]:
    return [ready_after(canary(app, drain, spec=ONE), SLOW_S), service()]


def _slow_blue_green(app: App, drain: Drain) -> list[Manifest]:
    return [ready_after(blue_green(app, drain, spec=ONE), SLOW_S), service(), service(f"{NAME}-preview")]


def _two(app: App, drain: Drain) -> list[Manifest]:
    return [canary(app, drain, spec={"replicas": 2}), service()]


def _long_drain(app: App, drain: Drain) -> list[Manifest]:
    spec = {"drain": {"maxRequestSeconds": LONGEST_REQUEST_S}}
    return [blue_green(app, drain, spec=spec), service(), service(f"{NAME}-preview")]


def _remembering(app: App, drain: Drain) -> list[Manifest]:
    return [with_state(blue_green(app, drain)), service(), service(f"{NAME}-preview")]


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
    stage.until("rollouts", NAME, lambda one: one["status"].get("stableRevision") != first, within_s=DONE_WITHIN_S)
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


SLOW_CANARY = Move("restart of one slow pod", _slow_canary, restart)
SLOW_BLUE_GREEN = Move("restart of one slow blue-green pod", _slow_blue_green, restart)
FROZEN = Move("restart while nobody replaces pods", _two, _restart_while_frozen)
REPLACED = Move("Service replaced in a drain", _long_drain, _replace_the_service)
CRASHED = Move("crash after the promotion", _remembering, _crash)
