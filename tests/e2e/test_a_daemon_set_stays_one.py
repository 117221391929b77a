"""Promise: a DaemonSet that a Rollout updates in place stays the DaemonSet that its user wrote, and moves node by node.

The DaemonSet controller is the real one. The controller has the rights and the fences of the chart, and its policies hold the
DaemonSet, or it has OnDelete between updates.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rollouts.objects import DAEMON_SET, ROLLOUT
from tests import build
from tests.e2e.controllers import confined_controller
from tests.e2e.manifests import Manifest
from tests.e2e.stage import Stage
from tests.lab.chart import another_account, hold_workloads
from tests.lab.control_plane import ControlPlane
from tests.pages.blocks import run_by

pytestmark = pytest.mark.controlplane

GRANTED = ("--set", "workloads={daemonsets}")
OWN = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
STEPS: list[Manifest] = [{"setWeight": 20}, {"pause": {}}, {"setWeight": 60}, {"pause": {}}]


@pytest.fixture(scope="module")
def account(control_plane: ControlPlane, controller_kubeconfig: Path) -> Path:
    """An account with the rights to DaemonSets; the CRDs are those of the other one."""
    assert controller_kubeconfig.exists()
    return another_account(control_plane, "updates-of-nodes", *GRANTED)


@pytest.fixture(params=["Policy", "AtRest"])
def stage(
    control_plane: ControlPlane, account: Path, namespace: str, request: pytest.FixtureRequest
) -> Iterator[Stage]:
    """A DaemonSet on the five nodes and its Rollout, at rest, with a controller."""
    if request.param == "Policy":
        hold_workloads(control_plane, namespace, DAEMON_SET)
    with confined_controller(control_plane, account, namespace, leader_elect=False):
        found = Stage(control_plane, namespace)
        found.apply(daemon_set(), rollout(request.param))
        found.until(ROLLOUT.plural, "agent", lambda one: one.get("status", {}).get("phase") == "Healthy")
        found.until("daemonsets", "agent", lambda one: _is_at_rest(one, request.param))
        yield found
        control_plane.end_in(namespace)


def _is_at_rest(found: Manifest, hold: str) -> bool:
    """Whether nothing of an update stands on the DaemonSet."""
    kind = "OnDelete" if hold == "AtRest" else "RollingUpdate"
    held = "rollouts.dev/held" in found["metadata"].get("annotations", {})
    return found["spec"]["updateStrategy"] == {**OWN, "type": kind} and not held


def daemon_set(image: str = "agent:1") -> Manifest:
    """The user's manifest."""
    spec = {
        "selector": {"matchLabels": {"app": "agent"}},
        "template": build.pod_template("agent", image=image),
        "updateStrategy": OWN,
    }
    return build.manifest(DAEMON_SET, "agent", spec=spec)


def rollout(hold: str) -> Manifest:
    """The Rollout that steps it."""
    reference = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "mode": "InPlace", "hold": hold}
    return build.manifest(ROLLOUT, "agent", spec={"workloadRef": reference, "strategy": {"canary": {"steps": STEPS}}})


def until(stage: Stage, phase: str, *, step: int | None = None, **nodes: int) -> None:
    """Waits until the Rollout is in that phase, and at that step, and so many nodes run each image."""

    def holds(one: dict[str, Any]) -> bool:
        status = one.get("status", {})
        there = step is None or status.get("currentStepIndex") == step
        return there and status.get("phase") == phase and by_image(stage) == nodes

    stage.until(ROLLOUT.plural, "agent", holds)


def by_image(stage: Stage) -> dict[str, int]:
    """How many nodes run each image."""
    pods = [each for each in stage.all("pods", "app=agent") if "deletionTimestamp" not in each["metadata"]]
    images = [each["spec"]["containers"][0]["image"] for each in pods]
    return dict(Counter(f"v{image.removeprefix('agent:')}" for image in images))


def strategy(stage: Stage) -> Manifest:
    """`updateStrategy` as it stands."""
    stands: Manifest = stage.get("daemonsets", "agent")["spec"]["updateStrategy"]
    return stands


def test_an_update_moves_node_by_node_and_gives_the_type_back(stage: Stage) -> None:
    """A pod that the step does not ask for stays; at the end `kubectl rollout status` is true."""
    own, before = strategy(stage), {each["metadata"]["uid"] for each in stage.all("pods", "app=agent")}
    assert len(before) == 5
    stage.kubectl("set", "image", "daemonset/agent", "app=agent:2")
    until(stage, "Paused", v1=4, v2=1)
    assert len(before & {each["metadata"]["uid"] for each in stage.all("pods", "app=agent")}) == 4
    stage.annotate("agent", "promote", "true")
    until(stage, "Paused", step=3, v1=2, v2=3)
    stage.annotate("agent", "promote", "true")
    until(stage, "Healthy", v2=5)

    stage.until("daemonsets", "agent", lambda one: one["spec"]["updateStrategy"] == own)
    if own["type"] == "RollingUpdate":
        stage.kubectl("rollout", "status", "daemonset/agent", "--timeout=55s")
        stage.until("daemonsets", "agent", lambda _: not stage.our_fields("daemonset", "agent"))


def test_an_abort_keeps_its_nodes_until_the_undo_that_it_names(stage: Stage) -> None:
    """Nothing moves however often the aborted template is applied; the command of the message brings the stable pods back.

    No policy keeps the type at rest, so the manifest that is applied does not name it, as the page says.
    """
    own, applied = strategy(stage), daemon_set("agent:2")
    if own["type"] == "OnDelete":
        del applied["spec"]["updateStrategy"]
    stage.kubectl("apply", "-f", "-", input=json.dumps(applied))
    until(stage, "Paused", v1=4, v2=1)
    stage.annotate("agent", "abort", "true")
    until(stage, "Aborted", v1=4, v2=1)
    for _ in range(3):
        stage.kubectl("apply", "-f", "-", input=json.dumps(applied))
    assert by_image(stage) == {"v1": 4, "v2": 1}
    message = stage.get(ROLLOUT.plural, "agent")["status"]["message"]
    assert "kubectl rollout undo daemonset/agent" in message
    stage.kubectl("rollout", "undo", "daemonset/agent", "--to-revision=1")
    until(stage, "Healthy", v1=5)

    stage.until("daemonsets", "agent", lambda one: one["spec"]["updateStrategy"] == own)


def test_a_rollout_that_is_deleted_in_a_step_stops_the_daemon_set_until_the_command_of_the_page(stage: Stage) -> None:
    """Nobody asked for the rest of the update; whoever does types what the page says."""
    stage.kubectl("set", "image", "daemonset/agent", "app=agent:2")
    until(stage, "Paused", v1=4, v2=1)
    stage.kubectl("delete", "rollout", "agent")
    stage.until("daemonsets", "agent", lambda one: "rollouts.dev/held" not in one["metadata"].get("annotations", {}))
    assert strategy(stage) == {**OWN, "type": "OnDelete"}
    assert by_image(stage) == {"v1": 4, "v2": 1}
    commands = [each.command for block in run_by(__file__) for each in block.exchanges]
    assert len(commands) == 2
    for command in commands:
        program, *words = shlex.split(command.replace("agent -n shop", f"agent -n {stage.namespace}"))
        assert program == "kubectl"
        stage.plane.kubectl(*words)

    stage.until("daemonsets", "agent", lambda one: one["status"].get("updatedNumberScheduled") == 5)
    assert strategy(stage) == OWN


def test_a_newer_template_and_a_pod_that_somebody_deletes_in_a_step(stage: Stage) -> None:
    """The node of the revision before gets the newer one, and so does the node that loses its pod."""
    stage.kubectl("set", "image", "daemonset/agent", "app=agent:2")
    until(stage, "Paused", v1=4, v2=1)
    stage.kubectl("set", "image", "daemonset/agent", "app=agent:3")
    until(stage, "Paused", v1=4, v3=1)
    old = next(each for each in stage.all("pods", "app=agent") if each["spec"]["containers"][0]["image"] == "agent:1")
    stage.kubectl("delete", "pod", old["metadata"]["name"], "--wait=false")
    until(stage, "Paused", v1=3, v3=2)
