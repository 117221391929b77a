"""Promise: the simulated API server serves the project's types as crds/ has them, and evaluates their rules about changes.

What crds/ says is tried on a real one in tests/api; that the two servers read schemas alike, in tests/contract.
"""

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


@pytest.fixture
def server() -> SimServer:
    return SimServer(clock=SystemClock(), crds=crd_manifests())


def send(
    server: SimServer, method: str, path: str, body: Any = None, content_type: str = MERGE_PATCH
) -> tuple[int, Manifest]:
    text = b"" if body is None else json.dumps(body).encode()
    response = server.answer(Request(method, path, {}, text, content_type))
    answer: Manifest = json.loads(response.body) if response.body.startswith(b"{") else {}
    return response.status, answer


def test_a_changed_crd_holds_from_its_next_request_on(server: SimServer) -> None:
    """An upgrade applies the CRD before the controller; paths that were used before must not keep the old schema."""
    path = ROLLOUT.path("default")
    send(server, "POST", path, build.rollout(build.canary(), "cart"))
    crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/rollouts.rollouts.dev"
    guard = {"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/replicas/maximum"}
    changed, _ = send(server, "PATCH", crd, [{**guard, "value": 4}], JSON_PATCH)

    scaled, _ = send(server, "PATCH", f"{path}/cart", {"spec": {"replicas": 5}})

    assert (changed, scaled) == (200, 422)


@pytest.mark.parametrize(
    ("kind", "spec", "status"),
    [
        (ANALYSIS_TEMPLATE, {"metrics": [METRIC]}, 404),
        (CLUSTER_ANALYSIS_TEMPLATE, {"metrics": [METRIC]}, 404),
        (METRIC_PROVIDER, {"url": "http://prometheus:9090"}, 200),
    ],
    ids=lambda value: getattr(value, "plural", ""),
)
def test_a_type_is_kept_where_it_belongs_with_a_status_or_none(
    server: SimServer, kind: Kind, spec: Manifest, status: int
) -> None:
    """Nobody writes the status of a template, so there is no path for it; the controller judges a MetricProvider."""
    home = "default" if kind.namespaced else None
    made, found = send(server, "POST", kind.path(home), {"metadata": {"name": "one"}, "spec": spec})
    written, _ = send(server, "PATCH", kind.path(home, "one", "status"), {"status": {"observedGeneration": 1}})

    assert (made, found["spec"] | spec, written) == (201, found["spec"], status)


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"metrics": [{**METRIC, "failureLimit": 3}]}, 422),
        ({"args": [{"name": "service", "value": "other"}]}, 422),
        ({"dryRun": [{"metricName": ".*"}]}, 422),
        ({"ttlStrategy": {"secondsAfterCompletion": 1}}, 422),
        ({"terminate": True}, 200),
    ],
    ids=lambda change: str(change).partition(":")[0],
)
def test_of_a_run_nothing_changes_but_that_it_is_to_end(server: SimServer, change: Manifest, status: int) -> None:
    """What is judged is what was asked for: a run that changes half-way proves nothing."""
    spec = {"metrics": [METRIC], "args": [{"name": "service", "value": "cart"}]}
    send(server, "POST", ANALYSIS_RUN.path("default"), {"metadata": {"name": "one"}, "spec": spec})

    answered, answer = send(server, "PATCH", ANALYSIS_RUN.path("default", "one"), {"spec": change})

    assert answered == status
    assert status == 200 or [cause["field"] for cause in answer["details"]["causes"]] == ["spec"]
    kept = send(server, "GET", ANALYSIS_RUN.path("default", "one"))[1]["spec"]
    assert kept == ({**spec, **change} if status == 200 else spec)
