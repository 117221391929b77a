"""Promise: a run fails when the chart's rights were too small for the controller, and for nothing else that is refused."""

from __future__ import annotations

from typing import Any

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


def test_what_the_controller_was_refused_is_named_once() -> None:
    """A missing permission shows itself again at every try."""
    events = [_asked("list", "pods"), _asked("list", "pods"), _asked("get", "services", code=200)]

    assert refused_to_the_controller(events) == ["list /api/v1/namespaces/shop/pods"]


def test_a_secret_is_the_tenants_to_grant_but_not_one_beside_the_controller() -> None:
    """A Rollout waits for the right that `rollouts rbac` prints; Secrets of MetricProviders are in the chart."""
    events = [_asked("get", "secrets"), _asked("get", "secrets", namespace=RELEASE_NAMESPACE)]

    assert refused_to_the_controller(events) == [f"get /api/v1/namespaces/{RELEASE_NAMESPACE}/secrets"]


def test_nobody_else_counts_nor_what_is_refused_while_the_chart_is_gone() -> None:
    """People and tests ask with rights of their own; Helm deletes the rights before the controller has ended."""
    gone = _asked("delete", "clusterroles", code=200, objectRef=ROLE)
    back = _asked("create", "clusterroles", code=201, objectRef=ROLE)
    events = [
        _asked("list", "pods", user={"username": "reader"}),
        _asked("list", "pods", userAgent="kubectl/v1.36"),
        gone,
        _asked("list", "pods"),
        back,
    ]

    assert refused_to_the_controller(events) == []
    assert refused_to_the_controller([*events, _asked("list", "pods")]) == ["list /api/v1/namespaces/shop/pods"]
