"""Promise: the types that analyses need are served, and refuse what the real server refuses."""

from __future__ import annotations

import base64
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
    SECRET,
    Kind,
    Manifest,
)
from rollouts.ports import APPLY_PATCH, MERGE_PATCH, Request, Response
from rollouts.sim.apiserver.server import SimServer
from rollouts.sim.storage.registry import JOB

METRIC = {
    "name": "success-rate",
    "interval": "30s",
    "successCondition": "result[0] >= 0.95",
    "provider": {"prometheus": {"query": "sum(rate(requests_total[1m]))"}},
}


@pytest.fixture
def server() -> SimServer:
    """A server with the project's types."""
    return SimServer(clock=SystemClock(), crds=crd_manifests())


def send(
    server: SimServer,
    method: str,
    path: str,
    body: Any = None,
    content_type: str = MERGE_PATCH,
    **query: str,
) -> tuple[int, Manifest]:
    """One request; its status and its answer."""
    text = b"" if body is None else json.dumps(body).encode()
    response: Response = server.answer(Request(method, path, query, text, content_type))
    answer: Manifest = json.loads(response.body) if response.body.startswith(b"{") else {}
    return response.status, answer


def causes(answer: Manifest) -> list[str]:
    """The fields that a refusal names."""
    return [cause["field"] for cause in answer["details"]["causes"]]


def run(**spec: Any) -> Manifest:
    """An AnalysisRun of one metric."""
    return {"metadata": {"name": "one"}, "spec": {"metrics": [METRIC], **spec}}


def job(**spec: Any) -> Manifest:
    """A Job of one container."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "test:1"}]}
    return {"metadata": {"name": "smoke"}, "spec": {"template": {"spec": pod}, **spec}}


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


def test_a_secret_keeps_what_was_written_as_text(server: SimServer) -> None:
    """`stringData` is for writers; readers find everything in `data`."""
    body = {"metadata": {"name": "token"}, "data": {"a": "YQ=="}, "stringData": {"b": "two"}}

    status, made = send(server, "POST", SECRET.path("default"), body)

    assert (status, made["type"], "stringData" in made) == (201, "Opaque", False)
    assert {key: base64.b64decode(value) for key, value in made["data"].items()} == {"a": b"a", "b": b"two"}


def test_a_secret_that_is_no_base64_is_refused(server: SimServer) -> None:
    """The most frequent mistake with Secrets: the value itself in `data`."""
    status, answer = send(
        server, "POST", SECRET.path("default"), {"metadata": {"name": "token"}, "data": {"a": "not!"}}
    )

    assert (status, answer["reason"]) == (400, "BadRequest")


def test_a_secret_has_a_limit(server: SimServer) -> None:
    """A file of certificates fits, a backup does not."""
    body = {"metadata": {"name": "token"}, "stringData": {"a": "x" * (1024 * 1024 + 1)}}

    status, answer = send(server, "POST", SECRET.path("default"), body)

    assert (status, causes(answer)) == (422, ["data"])


def test_an_immutable_secret_and_the_type_of_any_do_not_change(server: SimServer) -> None:
    """Whoever read a secret once may rely on it."""
    path = SECRET.path("default", "token")
    body = {"metadata": {"name": "token"}, "stringData": {"a": "1"}, "immutable": True}
    send(server, "POST", SECRET.path("default"), body)

    changed = send(server, "PATCH", path, {"stringData": {"a": "2"}})
    retyped = send(server, "PATCH", path, {"type": "other"})

    assert (changed[0], causes(changed[1])) == (422, ["data"])
    assert (retyped[0], causes(retyped[1])) == (422, ["type"])


def test_a_job_gets_a_selector_and_labels_of_its_own(server: SimServer) -> None:
    """Its pods are found by its uid, so that Jobs of one name after another never share pods."""
    status, made = send(server, "POST", JOB.path("default"), job())
    uid = made["metadata"]["uid"]
    labels = made["spec"]["template"]["metadata"]["labels"]

    assert (status, made["status"]) == (201, {})
    assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert (labels["batch.kubernetes.io/controller-uid"], labels["job-name"]) == (uid, "smoke")
    assert {key: made["spec"][key] for key in ("parallelism", "completions", "backoffLimit", "completionMode")} == {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
    }


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (
            job(template={"spec": {"containers": [{"name": "main", "image": "test:1"}]}}),
            "spec.template.spec.restartPolicy",
        ),
        (job(backoffLimit=-1), "spec.backoffLimit"),
        (job(completionMode="Indexed", parallelism=2), "spec.completions"),
        (job(successPolicy={"rules": [{"succeededCount": 1}]}), "spec.successPolicy"),
        (job(completionMode="Indexed", completions=2, successPolicy={"rules": []}), "spec.successPolicy.rules"),
        (job(completionMode="Indexed", completions=2, successPolicy={"rules": [{}]}), "spec.successPolicy.rules[0]"),
        (job(completionMode="Random"), "spec.completionMode"),
        (job(selector={"matchLabels": {"app": "else"}}), "spec.selector"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_job_of_the_wrong_shape_is_refused(server: SimServer, body: Manifest, field: str) -> None:
    """A template with a Job that no cluster takes must fail here as it does there."""
    status, answer = send(server, "POST", JOB.path("default"), body)

    assert (status, causes(answer)) == (422, [field])


@pytest.mark.parametrize(
    "change",
    [
        {"template": {"spec": {"containers": [{"name": "main", "image": "test:2"}]}}},
        {"completions": 3},
        {"selector": {"matchLabels": {"job-name": "smoke"}}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_job_does_not_change(server: SimServer, change: Manifest) -> None:
    """A controller that applies another Job under the name of a running one must hear of it."""
    send(server, "POST", JOB.path("default"), job())

    status, answer = send(server, "PATCH", JOB.path("default", "smoke"), {"spec": change})

    assert (status, causes(answer)) == (422, [f"spec.{next(iter(change))}"])


def test_applying_the_same_job_twice_changes_nothing(server: SimServer) -> None:
    """A controller that crashed after the write applies it again."""
    body = {"apiVersion": "batch/v1", "kind": "Job", **job()}
    sent = {"content_type": APPLY_PATCH, "fieldManager": "rollouts"}
    path = JOB.path("default", "smoke")

    first = send(server, "PATCH", path, body, **sent)
    again = send(server, "PATCH", path, body, **sent)

    assert (first[0], again[0]) == (201, 200)
    assert first[1]["metadata"]["resourceVersion"] == again[1]["metadata"]["resourceVersion"]
