"""Promise: the CRDs of crds/ work on the simulated cluster as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rollouts.clock import SystemClock
from rollouts.objects import ROLLOUT, Manifest
from rollouts.ports import JSON_PATCH, MERGE_PATCH, Request, Response
from rollouts.sim.apiserver.server import SimServer
from tests.documents import documents

CRDS = sorted(Path(__file__).parents[2].joinpath("crds").glob("*.yaml"))
PATH = ROLLOUT.path("default")


@pytest.fixture
def server() -> SimServer:
    """A server with the project's types."""
    return SimServer(clock=SystemClock(), crds=[crd for path in CRDS for crd in documents(path.read_text())])


def rollout(**spec: Any) -> Manifest:
    """A canary of one container."""
    template = {"metadata": {"labels": {"app": "cart"}}, "spec": {"containers": [{"name": "app", "image": "cart:1"}]}}
    strategy = {"canary": {"steps": [{"setWeight": 25}, {"pause": {}}]}}
    body = {"replicas": 3, "selector": {"matchLabels": {"app": "cart"}}, "template": template, "strategy": strategy}
    return {"metadata": {"name": "cart"}, "spec": {**body, **spec}}


def send(server: SimServer, method: str, path: str, body: Any = None, content_type: str = MERGE_PATCH) -> Response:
    """One request."""
    return server.answer(Request(method, path, {}, b"" if body is None else json.dumps(body).encode(), content_type))


def test_a_rollout_is_created_scaled_and_keeps_its_template_whole(server: SimServer) -> None:
    """Unknown fields of the pod template belong to newer Kubernetes versions: they must survive."""
    manifest = rollout()
    manifest["spec"]["template"]["spec"]["fieldOfTheFuture"] = {"a": 1}

    made = send(server, "POST", PATH, manifest)
    scaled = send(server, "PATCH", f"{PATH}/cart/scale", {"spec": {"replicas": 5}})

    assert made.status == 201, made.body
    assert json.loads(made.body)["spec"]["template"]["spec"]["fieldOfTheFuture"] == {"a": 1}
    assert json.loads(scaled.body)["spec"] == {"replicas": 5}
    assert json.loads(send(server, "GET", f"{PATH}/cart").body)["metadata"]["generation"] == 2


def test_a_rollout_of_the_wrong_shape_is_refused_with_its_path(server: SimServer) -> None:
    """What the schema catches never reaches the controller."""
    answer = send(server, "POST", PATH, rollout(replicas="many"))

    assert answer.status == 422
    assert "spec.replicas" in [cause["field"] for cause in json.loads(answer.body)["details"]["causes"]]


def test_a_rollouts_selector_does_not_change(server: SimServer) -> None:
    """Pods of the old selector would be nobody's."""
    send(server, "POST", PATH, rollout())

    answer = send(server, "PATCH", f"{PATH}/cart", {"spec": {"selector": {"matchLabels": {"app": "other"}}}})

    assert answer.status == 422
    assert json.loads(send(server, "GET", f"{PATH}/cart").body)["spec"]["selector"] == {"matchLabels": {"app": "cart"}}


def test_a_changed_crd_holds_from_its_next_request_on(server: SimServer) -> None:
    """An upgrade applies the CRD before the controller; paths that were used before must not keep the old schema."""
    send(server, "POST", PATH, rollout())
    crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/rollouts.rollouts.dev"
    guard = {"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/replicas/maximum"}
    changed = send(server, "PATCH", crd, [{**guard, "value": 4}], JSON_PATCH)

    answer = send(server, "PATCH", f"{PATH}/cart", {"spec": {"replicas": 5}})

    assert changed.status == 200, changed.body
    assert answer.status == 422
