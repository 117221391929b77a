"""Promise: the project's types work on the simulated API server as crds/ has them, and refuse what the real one refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rollouts.api.schema import crd_manifests
from rollouts.clock import SystemClock
from rollouts.objects import (
    ANALYSIS_RUN,
    ANALYSIS_TEMPLATE,
    CLUSTER_ANALYSIS_TEMPLATE,
    METRIC_PROVIDER,
    ROLLOUT,
    Kind,
    Manifest,
)
from rollouts.ports import JSON_PATCH, MERGE_PATCH, Request
from rollouts.sim.apiserver.server import SimServer
from tests import build

METRIC = build.metric("success-rate", "sum(rate(requests_total[1m]))", interval="30s")
PATH = ROLLOUT.path("default")


@pytest.fixture
def server() -> SimServer:
    """A server with the project's types."""
    return SimServer(clock=SystemClock(), crds=crd_manifests())


def send(
    server: SimServer, method: str, path: str, body: Any = None, content_type: str = MERGE_PATCH
) -> tuple[int, Manifest]:
    """One request; its status and its answer."""
    text = b"" if body is None else json.dumps(body).encode()
    response = server.answer(Request(method, path, {}, text, content_type))
    answer: Manifest = json.loads(response.body) if response.body.startswith(b"{") else {}
    return response.status, answer


def causes(answer: Manifest) -> list[str]:
    """The fields that a refusal names."""
    return [cause["field"] for cause in answer["details"]["causes"]]


def rollout(**spec: Any) -> Manifest:
    """A canary of one container."""
    return build.rollout(build.canary({"setWeight": 25}, {"pause": {}}), "cart", **spec)


def run(**spec: Any) -> Manifest:
    """An AnalysisRun of one metric."""
    return {"metadata": {"name": "one"}, "spec": {"metrics": [METRIC], **spec}}


def test_a_rollout_is_created_scaled_and_keeps_its_template_whole(server: SimServer) -> None:
    """Unknown fields of the pod template belong to newer Kubernetes versions: they must survive."""
    template = build.pod_template("cart", image="cart:1", fieldOfTheFuture={"a": 1})

    status, made = send(server, "POST", PATH, rollout(template=template))
    _, scale = send(server, "PATCH", f"{PATH}/cart/scale", {"spec": {"replicas": 5}})

    assert (status, made["spec"]["template"]["spec"]["fieldOfTheFuture"]) == (201, {"a": 1})
    assert scale["spec"] == {"replicas": 5}
    assert send(server, "GET", f"{PATH}/cart")[1]["metadata"]["generation"] == 2


def test_a_rollout_of_the_wrong_shape_is_refused_with_its_path(server: SimServer) -> None:
    """What the schema catches never reaches the controller."""
    status, answer = send(server, "POST", PATH, rollout(replicas="many"))

    assert status == 422
    assert "spec.replicas" in causes(answer)


def test_a_rollouts_selector_does_not_change(server: SimServer) -> None:
    """Pods of the old selector would be nobody's."""
    send(server, "POST", PATH, rollout())

    status, _ = send(server, "PATCH", f"{PATH}/cart", {"spec": {"selector": {"matchLabels": {"app": "other"}}}})

    assert status == 422
    assert send(server, "GET", f"{PATH}/cart")[1]["spec"]["selector"] == {"matchLabels": {"app": "cart"}}


def test_a_changed_crd_holds_from_its_next_request_on(server: SimServer) -> None:
    """An upgrade applies the CRD before the controller; paths that were used before must not keep the old schema."""
    send(server, "POST", PATH, rollout())
    crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/rollouts.rollouts.dev"
    guard = {"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/replicas/maximum"}
    changed, _ = send(server, "PATCH", crd, [{**guard, "value": 4}], JSON_PATCH)

    scaled, _ = send(server, "PATCH", f"{PATH}/cart", {"spec": {"replicas": 5}})

    assert (changed, scaled) == (200, 422)


@pytest.mark.parametrize("kind", [ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE], ids=lambda kind: kind.plural)
def test_templates_are_kept_and_have_no_status(server: SimServer, kind: Kind) -> None:
    """Nobody writes their status, so there is no path for it."""
    home = "default" if kind.namespaced else None
    status, made = send(server, "POST", kind.path(home), {"metadata": {"name": "rate"}, "spec": {"metrics": [METRIC]}})

    assert (status, made["spec"]["metrics"]) == (201, [METRIC])
    assert send(server, "GET", kind.path(home, "rate", "status"))[0] == 404


def test_a_template_of_the_wrong_shape_is_refused_with_its_path(server: SimServer) -> None:
    """What the schema catches never reaches the controller."""
    bad = {"metadata": {"name": "rate"}, "spec": {"metrics": [{**METRIC, "interval": True, "noData": "ok"}]}}

    status, answer = send(server, "POST", ANALYSIS_TEMPLATE.path("default"), bad)

    assert status == 422
    assert causes(answer)[:2] == ["spec.metrics[0].interval", "spec.metrics[0].noData"]


def test_only_the_worker_writes_the_status_of_a_run(server: SimServer) -> None:
    """A status in the object itself is dropped, and the path of the status writes nothing else."""
    path = ANALYSIS_RUN.path("default", "one")
    send(server, "POST", ANALYSIS_RUN.path("default"), {**run(), "status": {"phase": "Successful"}})
    assert "status" not in send(server, "GET", path)[1]

    written = {"status": {"phase": "Running"}, "spec": {"terminate": True}}
    status, answer = send(server, "PATCH", f"{path}/status", written)

    assert (status, answer["status"], answer["spec"]) == (200, {"phase": "Running"}, {"metrics": [METRIC]})
    assert answer["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    "change",
    [
        {"metrics": [{**METRIC, "failureLimit": 3}]},
        {"args": [{"name": "service", "value": "cart"}]},
        {"dryRun": [{"metricName": ".*"}]},
        {"ttlStrategy": {"secondsAfterCompletion": 1}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_run_does_not_change(server: SimServer, change: Manifest) -> None:
    """What is judged is what was asked for: a run that changes half-way proves nothing."""
    send(server, "POST", ANALYSIS_RUN.path("default"), run())

    status, answer = send(server, "PATCH", ANALYSIS_RUN.path("default", "one"), {"spec": change})

    assert (status, causes(answer)) == (422, ["spec"])
    assert send(server, "GET", ANALYSIS_RUN.path("default", "one"))[1]["spec"] == {"metrics": [METRIC]}


def test_a_run_may_be_told_to_end(server: SimServer) -> None:
    """`terminate` is the one field that may change, and labels are nobody's evidence."""
    send(server, "POST", ANALYSIS_RUN.path("default"), run(args=[{"name": "service", "value": "cart"}]))
    change = {"metadata": {"labels": {"seen": "yes"}}, "spec": {"terminate": True}}

    status, answer = send(server, "PATCH", ANALYSIS_RUN.path("default", "one"), change)

    assert (status, answer["spec"]["terminate"], answer["metadata"]["generation"]) == (200, True, 2)


def test_a_metric_provider_belongs_to_the_cluster_and_has_a_status(server: SimServer) -> None:
    """The administrator declares it, the controller judges it."""
    path = METRIC_PROVIDER.path()
    status, _ = send(server, "POST", path, {"metadata": {"name": "main"}, "spec": {"url": "http://prometheus:9090"}})
    refused, answer = send(server, "POST", path, {"metadata": {"name": "none"}, "spec": {}})

    assert (status, refused, causes(answer)[0]) == (201, 422, "spec.url")
    assert send(server, "PATCH", f"{path}/main/status", {"status": {"observedGeneration": 1}})[0] == 200
