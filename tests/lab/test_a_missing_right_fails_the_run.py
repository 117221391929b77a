"""Promise: a run fails when the chart's rights were too small for the controller, and for nothing else that is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.chart import CONTROLLER_USER, RBAC_GROUP, RELEASE, RELEASE_NAMESPACE
from tests.lab.pytest_plugin import refused_to_the_controller

ROLE = {"apiGroup": RBAC_GROUP, "resource": "clusterroles", "name": RELEASE}


def _asked(verb: str, resource: str, *, namespace: str = "shop", code: int = 403, **event: Any) -> dict[str, Any]:
    return {
        "verb": verb,
        "requestURI": f"/api/v1/namespaces/{namespace}/{resource}?limit=1",
        "user": {"username": CONTROLLER_USER},
        "userAgent": "rollouts",
        "objectRef": {"resource": resource, "namespace": namespace},
        "responseStatus": {"code": code},
    } | event


PODS = "list /api/v1/namespaces/shop/pods"
KEY = f"get /api/v1/namespaces/{RELEASE_NAMESPACE}/secrets"
GONE = _asked("delete", "clusterroles", code=200, objectRef=ROLE)
BACK = _asked("create", "clusterroles", code=201, objectRef=ROLE)
EVENTS: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "twice": ([_asked("list", "pods"), _asked("list", "pods")], [PODS]),
    "not refused": ([_asked("get", "services", code=200)], []),
    # A Rollout waits for the right that `rollouts rbac` prints; Secrets of MetricProviders are in the chart.
    "a tenant's Secret": ([_asked("get", "secrets")], []),
    "a Secret beside the controller": ([_asked("get", "secrets", namespace=RELEASE_NAMESPACE)], [KEY]),
    "somebody else": ([_asked("list", "pods", user={"username": "reader"})], []),
    "a test that asks by kubectl": ([_asked("list", "pods", userAgent="kubectl/v1.36")], []),
    # Helm deletes the rights before the controller has ended.
    "while the chart is gone": ([GONE, _asked("list", "pods"), BACK], []),
    "after it has come back": ([GONE, BACK, _asked("list", "pods")], [PODS]),
}


@pytest.mark.parametrize(("events", "refused"), EVENTS.values(), ids=EVENTS)
def test_what_the_controller_was_refused_is_named_once(events: list[dict[str, Any]], refused: list[str]) -> None:
    """A missing permission shows itself again at every try; people and tests ask with rights of their own."""
    assert refused_to_the_controller(events) == refused
