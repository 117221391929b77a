"""Aborts, retries, rollbacks, restarts and new templates at any moment, with a late ReplicaSet controller: no pod is missing.

One worker serves all ReplicaSets, and others keep it busy. What is counted are pods, by their own events, not what a ReplicaSet
says: between a deletion and its count lies the time that this test is about.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import build
from tests.e2e.controllers import confined_controller
from tests.e2e.manifests import KUBE_PROXY, Manifest, blue_green, canary, services
from tests.e2e.stage import Pods, Stage
from tests.lab import supervisor
from tests.lab.chart import install_chart
from tests.lab.control_plane import ControlPlane
from tests.lab.launch import MANAGER_FLAGS
from tests.lab.loopback import meanwhile

pytestmark = pytest.mark.controlplane

MOVES = int(os.environ.get("ROLLOUTS_HASTY_MOVES", "120"))
REPLICAS = 5
BUSY_SETS, BUSY_PODS = 2, 2
LATE = "--concurrent-replicaset-syncs=1 --kube-api-qps=55 --kube-api-burst=15"
"""One worker for all ReplicaSets, and few requests a second: a new size is counted after 0.35 s on average (by the audit log), as
nearly all of these requests are used up. A real controller manager has 20 a second."""
STEPS: list[Manifest] = [{"setWeight": 20}, {"setWeight": 60}, {"pause": {"duration": "2s"}}, {"setWeight": 80}]
ORDERS = ("abort", "abort", "retry", "rollback", "restart", "template", "template")


@pytest.fixture
def busy_plane(tmp_path: Path, lab_programs: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ControlPlane]:
    """A control plane whose ReplicaSets wait for one worker."""
    monkeypatch.setenv(MANAGER_FLAGS, LATE)
    with supervisor.own(tmp_path / "plane") as plane:
        plane.apply(KUBE_PROXY)
        yield plane


def _rollouts() -> list[Manifest]:
    return [
        *(canary(name, replicas=REPLICAS, steps=STEPS) for name in ("ratio-0", "ratio-1", "ratio-2")),
        *(canary(name, replicas=REPLICAS, steps=STEPS, maxSurge="100%") for name in ("surge-0", "surge-1")),
        canary("named", replicas=REPLICAS, steps=STEPS, stableService="named-stable", canaryService="named-canary"),
        *services("named", "stable", "canary"),
        blue_green("colours", replicas=REPLICAS, scaleDownDelaySeconds=0, maxUnavailable=0),
        *services("colours", "active", "preview"),
    ]


@contextmanager
def _kept_busy(stage: Stage) -> Iterator[None]:
    """Other ReplicaSets grow and shrink all the while, with pods that no node gets."""
    labels = {"busy": "yes"}
    path = f"/apis/apps/v1/namespaces/{stage.namespace}/replicasets"
    names = [f"busy-{number}" for number in range(BUSY_SETS)]
    gates = [{"name": "rollouts.dev/busy"}]
    for name in names:
        template = build.pod_template(
            name, image="web:1", metadata={"labels": {"app": name} | labels}, schedulingGates=gates
        )
        stage.apply(build.replica_set(name, metadata={"labels": labels}, template=template))

    def work(over: threading.Event) -> None:
        size = 0
        while not over.is_set():
            size = BUSY_PODS - size
            for name in names:
                stage.plane.patch(f"{path}/{name}", {"spec": {"replicas": size}})
                over.wait(0.1)

    with meanwhile(work):
        yield


@contextmanager
def _pods_counted(stage: Stage, names: list[str]) -> Iterator[dict[str, int]]:
    """The fewest Ready pods of each Rollout at any moment, told by every event of its pods; complete when the block has ended."""
    path = f"/api/v1/namespaces/{stage.namespace}/pods"
    start = stage.plane.api.get(path, params={"labelSelector": "!busy"}).raise_for_status().json()
    pods = {name: Pods() for name in names}
    for item in start["items"]:
        pods[item["metadata"]["labels"]["app"]].follow({"type": "ADDED", "object": item})
    fewest = {name: each.ready.total() for name, each in pods.items()}

    def follow(over: threading.Event) -> None:
        version = start["metadata"]["resourceVersion"]
        while not over.is_set():
            query = {"labelSelector": "!busy", "resourceVersion": version}
            with stage.plane.watch(path, timeout_s=5, **query) as events:
                for event in events:
                    assert event["type"] != "ERROR", event
                    one: dict[str, Any] = event["object"]
                    name = one["metadata"]["labels"]["app"]
                    pods[name].follow(event)
                    fewest[name] = min(fewest[name], pods[name].ready.total())
                    version = one["metadata"]["resourceVersion"]

    with meanwhile(follow):
        yield fewest


def test_ready_pods_are_never_fewer_than_promised(busy_plane: ControlPlane) -> None:
    """`maxUnavailable` is 0 everywhere, and every pod becomes ready: one Ready pod fewer than `replicas` is a promise broken."""
    rng, moment = random.Random(11), threading.Event()  # noqa: S311 - a test's seed
    kubeconfig = install_chart(busy_plane)
    with busy_plane.fresh_namespace() as namespace, confined_controller(busy_plane, kubeconfig, namespace):
        stage = Stage(busy_plane, namespace)
        rollouts = _rollouts()
        stage.apply(*rollouts)
        names = [each["metadata"]["name"] for each in rollouts if each["kind"] == "Rollout"]
        for name in names:
            stage.wait_ready(name)
        given: Counter[str] = Counter()
        with _pods_counted(stage, names) as fewest, _kept_busy(stage):
            for _ in range(MOVES):
                name, order = rng.choice(names), rng.choice(ORDERS)
                path = f"/apis/rollouts.dev/v1alpha1/namespaces/{namespace}/rollouts/{name}"
                if order == "template":
                    annotations = {"annotations": {"round": str(rng.randrange(4))}}
                    busy_plane.patch(path, {"spec": {"template": {"metadata": annotations}}})
                else:
                    busy_plane.patch(path, {"metadata": {"annotations": {f"rollouts.dev/{order}": "true"}}})
                given[order] += 1
                moment.wait(rng.uniform(0.05, 0.3))  # at random moments of what goes on
        moved = stage.all("replicasets", "rollouts.dev/name")

    assert dict(fewest) == dict.fromkeys(names, REPLICAS), given
    assert len(moved) > len(names), "nothing was rolled out"
