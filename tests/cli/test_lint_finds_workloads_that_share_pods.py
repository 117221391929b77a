"""Promise: `rollouts lint` says which workloads of its files find each other's pods."""

from __future__ import annotations

import pytest

from rollouts.objects import Kind, Manifest
from tests.build import manifest, pod_template
from tests.cli.test_lint_finds_what_services_contradict import lint, rollout


def _workload(kind: str, namespace: str = "shop", **labels: str) -> Manifest:
    spec = {
        "selector": {"matchLabels": labels},
        "template": pod_template("", image="cart:1", metadata={"labels": labels}),
    }
    return manifest(Kind("apps", "v1", kind, ""), "old-cart", namespace, spec=spec)


def _shared(*documents: Manifest) -> list[str]:
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
    [_workload("Deployment", app="other"), _workload("Deployment", "elsewhere", app="cart"), _workload("Deployment")],
    ids=["other labels", "another namespace", "no selector"],
)
def test_other_workloads_are_none_of_it(other: Manifest) -> None:
    """Nor is the Rollout itself."""
    assert _shared(rollout({"setWeight": 50}), other) == []
