"""Promise: `lint` names a step that a route of the same files cannot express; no update finds that out in its middle."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from rollouts.objects import Manifest
from rollouts.sim.network.gateway_types import HTTP_ROUTE
from tests.build import backend, canary, http_rule, manifest, rollout
from tests.linted import lint_text


def _said(steps: list[Manifest], *weights: tuple[str, int], **rule: Any) -> list[str]:
    routing = {"gatewayAPI": {"httpRoutes": [{"name": "cart"}]}, "managedRoutes": [{"name": "beta"}]}
    strategy = canary(*steps, stableService="cart", canaryService="cart-canary", trafficRouting=routing)
    rules = [http_rule(*(backend(*each) for each in weights), **rule)]
    route = manifest(HTTP_ROUTE, "cart", "shop", spec={"parentRefs": [{"name": "web"}], "rules": rules})
    report = lint_text(yaml.safe_dump_all([rollout(strategy, "cart", "shop", replicas=4), route]))
    return [each.message for each in report.problems if "with it" in each.message]


@pytest.mark.parametrize(
    ("other", "percents", "steps"),
    [(45, [20, 50], [1]), (45, [20, 40], []), (0, [25, 33], []), (45, [50, 20, 50], [0])],
)
def test_a_weight_for_which_a_fixed_total_has_no_numbers(other: int, percents: list[int], steps: list[int]) -> None:
    """A third backend with a weight keeps its part, so the total of the pair is fixed: 5 cannot be halved."""
    found = _said([{"setWeight": each} for each in percents], ("cart", 5), ("cart-canary", 0), ("other", other))

    assert [f"its step {each} " in message for each, message in zip(steps, found, strict=True)] == [True] * len(steps)


def test_a_header_route_that_none_of_its_rules_can_hold() -> None:
    """A rule for POST alone has no requests that a step for GET could choose."""
    header = {"setHeaderRoute": {"name": "beta", "match": [{"method": {"exact": "GET"}}]}}

    (found,) = _said([header], ("cart", 1), ("cart-canary", 0), matches=[{"method": "POST"}])

    words = "spec: Rollout cart cannot take its step 0 with it: none of its rules is for requests that beta"
    assert found.startswith(words)
