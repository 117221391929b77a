"""Promise: analyses and autoscaling gates see the pods and the autoscaler of a Deployment that is updated in place.

Its pods carry no label of the Rollout, and its autoscaler does not target the Rollout.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest

from rollouts.api.spec.parse import parse_spec
from rollouts.controller.facts.cluster_metrics import ClusterMetrics
from rollouts.controller.facts.in_place import InPlace, pods_of_revision
from rollouts.core.model.autoscaling import AutoscalingGate, ContainerLimit, ContainerMetric
from rollouts.core.model.workload_ref import WorkloadKind
from rollouts.objects import ANALYSIS_RUN, AUTOSCALER, DEPLOYMENT, POD, POD_METRICS, ROLLOUT, Key, Manifest
from rollouts.ports import MERGE_PATCH, Request
from rollouts.sim.cluster import SimulatedCluster
from tests import build
from tests.api.workload_specs import in_place
from tests.controller.test_a_deployment_is_stepped_where_it_is import NAME, SPACE, at, deployment, rollout
from tests.controller.test_the_process_outlives_what_objects_hold import Running, until

pytestmark = pytest.mark.virtual_time(limit_s=4_000)

GATE = {"settled": True, "minHeadroomPercent": 20}


@pytest.fixture
async def cluster(crds: Sequence[Manifest]) -> AsyncIterator[SimulatedCluster]:
    """With a Deployment of four pods, and a controller."""
    async with SimulatedCluster(seed=3, crds=crds, hold_policies=True) as found:
        found.apply(deployment())
        running = Running(found)
        yield found
        await running.stopped()


def with_spec(**spec: Any) -> Manifest:
    """The Rollout in place with these fields."""
    made = rollout()
    return {**made, "spec": {**made["spec"], **spec}}


async def scaler_says(cluster: SimulatedCluster, pods: int) -> None:
    """What the HPA's controller writes after a look."""
    works = [{"type": kind, "status": "True", "reason": "x"} for kind in ("ScalingActive", "AbleToScale")]
    status = {"currentReplicas": pods, "desiredReplicas": pods, "observedGeneration": 1, "conditions": works}
    body = msgspec.json.encode({"status": status})
    path = f"{AUTOSCALER.path(SPACE, NAME)}/status"
    answer = await cluster.api.request(Request("PATCH", path, {}, body, MERGE_PATCH), deadline_s=5)
    assert answer.status == 200


async def test_a_step_waits_for_the_autoscaler_of_the_deployment(cluster: SimulatedCluster) -> None:
    """Without one the message names the Deployment; one at its maximum holds the step, and with a higher one it goes on."""
    cluster.apply(with_spec(autoscaling=GATE, strategy={"canary": {"steps": [{"setWeight": 25}, {"pause": {}}]}}))
    await at(cluster, "Healthy", v1=4)
    cluster.apply(deployment("2"))
    seen = await until(cluster, NAME, lambda status: _reason(status) == "AutoscalerNotFound")
    assert "no HorizontalPodAutoscaler has Deployment cart as its scaleTargetRef" in seen["waitingFor"]["message"]

    cluster.apply(build.autoscaler(NAME, SPACE, target=DEPLOYMENT, most=4))
    await scaler_says(cluster, 4)
    await until(cluster, NAME, lambda status: _reason(status) == "NoHeadroom")
    cluster.apply(build.autoscaler(NAME, SPACE, target=DEPLOYMENT, most=10))
    await scaler_says(cluster, 4)
    await at(cluster, "Paused", v1=3, v2=1)


def _reason(status: Manifest) -> str:
    return str((status.get("waitingFor") or {}).get("reason"))


async def test_an_analysis_of_pods_judges_those_of_the_deployment(cluster: SimulatedCluster) -> None:
    """It found none by the labels of a Rollout's own pods, so that no update in place with it came to its end."""
    metric = {"name": "pods", "interval": "5s", "count": 3, "provider": {"kubernetes": {}}}
    cluster.apply(build.analysis_template(metric, name="pods", namespace=SPACE))
    analysis = {"analysis": {"templates": [{"templateName": "pods"}]}}
    cluster.apply(with_spec(strategy={"canary": {"steps": [{"setWeight": 25}, analysis, {"pause": {}}]}}))
    await at(cluster, "Healthy", v1=4)
    cluster.apply(deployment("2"))
    await until(cluster, NAME, lambda status: status.get("currentStepIndex") == 2 and status["phase"] == "Paused")
    await asyncio.sleep(1)


class Listed:
    """Answers lists of three kinds, and notes the selectors."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    async def list_page(self, kind: Any, namespace: str, *, label_selector: str, continue_token: str) -> bytes:
        """An empty one, but for autoscalers."""
        assert (namespace, continue_token) == ("shop", "")
        self.asked.append((kind.plural, label_selector))
        scalers = [build.autoscaler("cart", "shop", target=target) for target in (ROLLOUT, DEPLOYMENT)]
        return msgspec.json.encode({"items": scalers if kind == AUTOSCALER else [], "metadata": {}})


async def test_lists_are_asked_for_by_the_selector_of_the_deployment(crds: Sequence[Manifest]) -> None:
    """Samples, too; and of the two autoscalers that of the Deployment counts."""
    async with SimulatedCluster(seed=1, crds=crds) as cluster:
        client: Any = Listed()
        metrics = ClusterMetrics(client, cluster.clock, lambda _: InPlace(WorkloadKind.DEPLOYMENT, "cart", "app=cart"))
        limit = ContainerLimit(container="app", resource=ContainerMetric.CPU, max_utilization_percent=90)
        seen = await metrics.seen(Key("shop", "carts"), AutoscalingGate(settled=True, container=limit))

    assert len(seen.autoscalers or ()) == 1
    assert client.asked == [(AUTOSCALER.plural, ""), (POD_METRICS.plural, "app=cart"), (POD.plural, "app=cart")]


@pytest.mark.parametrize(
    ("kind", "label"),
    [
        (WorkloadKind.DEPLOYMENT, "pod-template-hash"),
        (WorkloadKind.STATEFUL_SET, "controller-revision-hash"),
        (WorkloadKind.DAEMON_SET, "controller-revision-hash"),
    ],
)
def test_the_pods_of_a_revision_are_found_by_what_their_controller_gives_them(kind: WorkloadKind, label: str) -> None:
    """The label that it adds, beside the user's own."""
    key = Key("shop", "cart")

    assert pods_of_revision(key, "7ff", InPlace(kind, "cart", "app=cart")) == f"app=cart,{label}=7ff"
    assert pods_of_revision(key, "7ff", None) == "rollouts.dev/name=cart,rollouts.dev/revision=7ff"


def test_a_gate_is_allowed_in_place() -> None:
    """As for pods of the Rollout's own."""
    assert parse_spec(in_place(autoscaling=GATE)).autoscaling == AutoscalingGate(settled=True, min_headroom_percent=20)


@pytest.mark.parametrize("mode", ["InPlace", "Template"])
async def test_an_argument_may_be_a_field_of_the_workloads_template(cluster: SimulatedCluster, mode: str) -> None:
    """`fieldRef: spec.template…` means the template that is rolled out, wherever it stands (Argo Rollouts' issue 1302)."""
    metric = {"name": "pods", "interval": "5s", "count": 3, "provider": {"kubernetes": {}}}
    cluster.apply(build.analysis_template(metric, name="pods", namespace=SPACE, args=[{"name": "image"}]))
    field = {"fieldRef": {"fieldPath": "spec.template.spec.containers[0].image"}}
    asked = {"templates": [{"templateName": "pods"}], "args": [{"name": "image", "valueFrom": field}]}
    made = with_spec(strategy={"canary": {"steps": [{"setWeight": 25}, {"analysis": asked}, {"pause": {}}]}})
    if mode == "Template":
        made["spec"] |= {"replicas": 4, "workloadRef": {**made["spec"]["workloadRef"], "mode": mode}}
    cluster.apply(made)
    await until(cluster, NAME, lambda status: status.get("phase") == "Healthy")
    cluster.apply(deployment("2"))
    await until(cluster, NAME, lambda status: status.get("currentStepIndex") == 2)
    (run,) = cluster.list(ANALYSIS_RUN, SPACE)

    assert run["spec"]["args"] == [{"name": "image", "value": "web:2"}]
