"""Promise: `lint` names a step that a route of the same files cannot express; no update finds that out in its middle."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rollouts.objects import Manifest
from tests.linted import lint_text

ROLLOUT: Manifest = {
    "apiVersion": "rollouts.dev/v1alpha1",
    "kind": "Rollout",
    "metadata": {"name": "cart", "namespace": "shop"},
    "spec": {
        "replicas": 4,
        "selector": {"matchLabels": {"app": "cart"}},
        "template": {
            "metadata": {"labels": {"app": "cart"}},
            "spec": {"containers": [{"name": "cart", "image": "cart:1"}]},
        },
    },
}


def _said(steps: list[Manifest], *weights: tuple[str, int], **rule: Any) -> list[str]:
    canary = {
        "stableService": "cart",
        "canaryService": "cart-canary",
        "trafficRouting": {"gatewayAPI": {"httpRoutes": [{"name": "cart"}]}, "managedRoutes": [{"name": "beta"}]},
        "steps": steps,
    }
    rollout = {**ROLLOUT, "spec": {**ROLLOUT["spec"], "strategy": {"canary": canary}}}
    backends = [{"name": name, "port": 80, "weight": weight} for name, weight in weights]
    route = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "cart", "namespace": "shop"},
        "spec": {"parentRefs": [{"name": "web"}], "rules": [{"backendRefs": backends, **rule}]},
    }
    report = lint_text("\n---\n".join(json.dumps(each) for each in (rollout, route)))
    return [each.message for each in report.problems if "with it" in each.message]


@pytest.mark.parametrize(
    ("other", "percents", "steps"),
    [
        (45, [20, 50], [1]),
        (45, [20, 40], []),
        (0, [25, 33], []),
        (45, [50, 20, 50], [0]),
    ],
)
def test_a_weight_for_which_a_fixed_total_has_no_numbers(other: int, percents: list[int], steps: list[int]) -> None:
    """A third backend with a weight keeps its part, so the total of the pair is fixed: 5 cannot be halved."""
    found = _said([{"setWeight": each} for each in percents], ("cart", 5), ("cart-canary", 0), ("other", other))

    assert [f"its step {each} " in message for each, message in zip(steps, found, strict=True)] == [True] * len(steps)


def test_a_header_route_that_none_of_its_rules_can_hold() -> None:
    """A rule for POST alone has no requests that a step for GET could choose."""
    header = {"setHeaderRoute": {"name": "beta", "match": [{"method": {"exact": "GET"}}]}}

    (found,) = _said([header], ("cart", 1), ("cart-canary", 0), matches=[{"method": "POST"}])

    assert found.startswith(
        "spec: Rollout cart cannot take its step 0 with it: none of its rules is for requests that beta"
    )
