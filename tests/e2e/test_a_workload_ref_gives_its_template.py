"""Promise: Argo Rollouts' manifests with `workloadRef` run after their apiVersion is changed, and lose no pods on either way.

The forms are those of its documentation: a Deployment, a ReplicaSet and a PodTemplate. The controller has the rights and the
fences of the chart's value `workloads`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rollouts.core.model.workload_ref import WorkloadKind
from tests import build
from tests.e2e.controllers import confined_controller
from tests.e2e.manifests import Manifest, canary
from tests.e2e.stage import Stage, current
from tests.lab.chart import another_account
from tests.lab.control_plane import ControlPlane

pytestmark = pytest.mark.controlplane

LABELS = {"app": "web"}
GRANTED = ("--set", "workloads={deployments,replicasets,podtemplates}")
PATHS = {kind: kind.resource.plural for kind in WorkloadKind}


@pytest.fixture(scope="module")
def account(control_plane: ControlPlane, controller_kubeconfig: Path) -> Path:
    """An account with the rights to workloads; the CRDs are those of the other one."""
    assert controller_kubeconfig.exists()
    return another_account(control_plane, "takes-templates", *GRANTED)


@pytest.fixture
def stage(control_plane: ControlPlane, account: Path, namespace: str) -> Iterator[Stage]:
    """A namespace with a controller that may see workloads."""
    with confined_controller(control_plane, account, namespace, leader_elect=False):
        yield Stage(control_plane, namespace)
        control_plane.end_in(namespace)


def _workload(kind: WorkloadKind, replicas: int, image: str = "web:1") -> Manifest:
    template = build.pod_template("web", image=image)
    if kind is WorkloadKind.POD_TEMPLATE:
        return build.manifest(kind.resource, "cart", template=template)
    spec: dict[str, Any] = {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": template}
    return build.manifest(kind.resource, "cart", spec=spec)


def _rollout(kind: WorkloadKind, scale_down: str | None = None) -> Manifest:
    made = canary("web", steps=[{"setWeight": 50}, {"pause": {}}])
    spec = {name: value for name, value in made["spec"].items() if name not in ("template", "selector")}
    reference = {"apiVersion": kind.resource.api_version, "kind": kind.value, "name": "cart"}
    if scale_down is not None:
        reference["scaleDown"] = scale_down
    if kind is WorkloadKind.POD_TEMPLATE:
        spec["selector"] = {"matchLabels": LABELS}
    return {**made, "spec": {**spec, "workloadRef": reference}}


def _set_image(stage: Stage, kind: WorkloadKind, image: str) -> None:
    where = "" if kind is WorkloadKind.POD_TEMPLATE else "/spec"
    change = [{"op": "replace", "path": f"{where}/template/spec/containers/0/image", "value": image}]
    stage.plane.patch(f"{kind.resource.path(stage.namespace, 'cart')}", change, form="json")


def _updated(stage: Stage, kind: WorkloadKind, image: str, *, before: str) -> str:
    """Gives the workload another image, and promotes the revision that it becomes; its name."""
    _set_image(stage, kind, image)
    revision = current(stage.until_at("web", "PromotionNeeded", but=before))
    stage.annotate("web", "promote", f"{revision}@full")
    stage.until_stable("web", lambda stable: stable == revision)
    stage.wait_ready("web")
    return revision


def _replicas(stage: Stage) -> int:
    found: int = stage.get("deployments", "cart")["spec"]["replicas"]
    return found


@pytest.mark.parametrize("kind", [WorkloadKind.DEPLOYMENT, WorkloadKind.REPLICA_SET, WorkloadKind.POD_TEMPLATE])
def test_a_change_of_the_workload_goes_through_the_steps(stage: Stage, kind: WorkloadKind) -> None:
    """Its user edits it as before; the Rollout has the pods."""
    first = stage.rolled_out(_workload(kind, 0), _rollout(kind))
    stage.until_pods("web", {first: 4})

    second = _updated(stage, kind, "web:2", before=first)

    stage.until_pods("web", {second: 4})
    marked = stage.plane.api.get(kind.resource.path(stage.namespace, "cart")).json()["metadata"]
    assert marked["annotations"]["rollouts.dev/managed-by"] == "web"
    images = {pod["spec"]["containers"][0]["image"] for pod in stage.all("pods", "app=web")}
    assert images == {"web:2"}


@pytest.mark.parametrize("scale_down", ["onsuccess", "progressively"])
def test_the_deployment_goes_down_at_every_revision_and_comes_back(stage: Stage, scale_down: str) -> None:
    """In Argo Rollouts a re-apply of `replicas` at revision 3 doubled the fleet (issue 4935), a deletion left 0 pods (3855)."""
    kind = WorkloadKind.DEPLOYMENT
    stage.apply(_workload(kind, 4))
    stage.until("deployments", "cart", lambda one: one.get("status", {}).get("availableReplicas") == 4)
    first = stage.rolled_out(_rollout(kind, scale_down))
    stage.until("deployments", "cart", lambda one: one["spec"]["replicas"] == 0)
    third = _updated(stage, kind, "web:3", before=_updated(stage, kind, "web:2", before=first))

    stage.kubectl("scale", "deployment", "cart", "--replicas=5")
    stage.until("deployments", "cart", lambda one: one["spec"]["replicas"] == 0, within_s=5)
    stage.until_events("web", "Warning/ReferencedWorkloadScaled")
    stage.until_pods("web", {third: 4})

    stage.kubectl("delete", "rollout", "web", "--wait=false")
    back = stage.until("deployments", "cart", lambda one: one["spec"]["replicas"] == 5)
    metadata = back["metadata"]
    ours = [key for key in (*metadata["annotations"], *metadata.get("labels", ())) if key.startswith("rollouts.dev/")]
    assert ours == []


def test_without_the_rights_the_rollout_names_the_charts_value(
    control_plane: ControlPlane, account: Path, namespace: str
) -> None:
    """They are opt-in, and a message that only says "forbidden" helps nobody."""
    assert account.exists()
    others = another_account(control_plane, "sees-no-workload")
    with confined_controller(control_plane, others, namespace, leader_elect=False):
        stage = Stage(control_plane, namespace)
        stage.apply(_workload(WorkloadKind.DEPLOYMENT, 0), _rollout(WorkloadKind.DEPLOYMENT))
        waits = stage.until_at("web", "WorkloadForbidden")
        control_plane.end_in(namespace)

    assert "name them in the chart's value workloads: [deployments]" in waits["status"]["waitingFor"]["message"]
