"""Promise: `rollouts lint` says which workloads of its files find each other's pods."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.test_lint_finds_what_services_contradict import lint, rollout


def _workload(kind: str, *, namespace: str = "shop", **labels: str) -> dict[str, Any]:
    selector = {"matchLabels": labels}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": "cart:1"}]}}
    metadata = {"name": "old-cart", "namespace": namespace}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": metadata,
        "spec": {"selector": selector, "template": template},
    }


def _shared(*documents: dict[str, Any]) -> list[str]:
    return [each.message for each in lint(*documents).advice if each.rule == "SelectorShared"]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "Rollout"])
@pytest.mark.parametrize("labels", [{"app": "cart"}, {"app": "cart", "tier": "web"}, {"app": "cart", "tier": "other"}])
def test_a_workload_with_the_same_pods_is_named(kind: str, labels: dict[str, str]) -> None:
    """The usual way to get there is a Deployment that was not taken away after a migration."""
    (message,) = _shared(rollout({"setWeight": 50}), _workload(kind, **labels))

    assert f"{kind} old-cart and this Rollout find each other's pods" in message
    assert "spec.selector" in message


@pytest.mark.parametrize(
    "other",
    [
        _workload("Deployment", app="other"),
        _workload("Deployment", namespace="elsewhere", app="cart"),
        _workload("Deployment"),
    ],
    ids=["other labels", "another namespace", "no selector"],
)
def test_other_workloads_are_none_of_it(other: dict[str, Any]) -> None:
    """Nor is the Rollout itself."""
    assert _shared(rollout({"setWeight": 50}), other) == []
