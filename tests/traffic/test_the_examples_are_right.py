"""Promise: every example of a router is a Rollout that parses, whose route is beside it and can be managed as its steps say."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from rollouts.api.spec.parse import parse_spec
from rollouts.cli.commands.lint_routes import providers
from rollouts.core.model.rollout import Canary
from rollouts.core.model.steps import SetHeaderRoute, SetWeight
from rollouts.core.model.traffic import ALL_TO_STABLE, MatchRoute, Split
from rollouts.traffic.codec import Context, Objects, destination_of
from rollouts.traffic.istio.subsets import host_of, subset_of

EXAMPLES = sorted((Path(__file__).parent.parent.parent / "examples" / "gateways").glob("*.yaml"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_can_be_managed(example: Path) -> None:
    """What people copy must work as it is, also where no gateway runs to try it on."""
    manifests: list[dict[str, Any]] = list(yaml.safe_load_all(example.read_text()))
    canary = parse_spec(manifests[0]["spec"]).strategy
    assert isinstance(canary, Canary)
    assert canary.traffic_routing is not None
    (router,) = canary.traffic_routing.routers
    provider = providers(manifests)[router.name]
    targets = provider.targets(router.settings, namespace="shop")
    (target,) = [each for each in targets if each.subsets is None]
    kind = target.kinds[0]
    manifests += canary.traffic_routing.own
    (user,) = [one for one in manifests if (one["kind"], one["apiVersion"]) == (kind.kind, kind.api_version)]
    stable, canary_ = (destination_of(str(each or "")) for each in (canary.stable_service, canary.canary_service))
    context = Context(rollout=manifests[0]["metadata"]["name"], namespace="shop", stable=stable, canary=canary_)
    headers = tuple(
        MatchRoute(each.name, each.match) for each in canary.steps if isinstance(each, SetHeaderRoute) and each.match
    )

    assert user["metadata"]["name"] == target.name
    for rule in (each for each in targets if each.subsets is not None):
        wanted = (rule.kinds[0].kind, rule.name)
        (found,) = [one for one in manifests if (one["kind"], one["metadata"]["name"]) == wanted]
        assert host_of(found, namespace="shop") == rule.name  # so that core's name of a subset is the codec's
        assert {subset_of(found, name).revision for name in rule.subsets or ()} == {""}
    assert provider.read(Objects(user), target, context) == ALL_TO_STABLE
    weights = [each.weight_percent for each in canary.steps if isinstance(each, SetWeight)]
    assert weights
    for weight in weights:
        assert provider.plan(Objects(user), target, context, Split(Fraction(weight) / 100, headers))


def test_there_is_an_example_of_each_router_that_many_use() -> None:
    """A folder that nobody reads would pass every test."""
    assert {path.stem for path in EXAMPLES} >= {
        f"traffic-{name}" for name in ("gateway-api", "istio", "nginx", "declared", "own-route")
    }
