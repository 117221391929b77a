"""Promise: whatever is wrong with a router's settings is told at once, with its place and what to write instead."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rollouts.errors import SpecInvalid
from rollouts.traffic.codec import Provider
from rollouts.traffic.registry import REFUSED, registry, unknown
from tests.traffic.cases.all_cases import CASES
from tests.traffic.cases.case import Case

BAD: list[tuple[str, Mapping[str, Any], list[str]]] = [
    ("gatewayAPI", {}, [": must name a route"]),
    ("gatewayAPI", {"httpRoute": "cart", "tcpRoutes": [{"rules": "a"}], "x": 1},
        ["httpRoute: is written httpRoutes: [{name: cart}] here", "tcpRoutes[0].name: is required",
            "tcpRoutes[0].rules: must be a list of strings", "x: unknown field"]),
    ("istio", {}, ["virtualService: is required"]),
    ("istio", {"virtualService": {}, "destinationRule": {"name": "a", "additionalSubsetNames": ["b"]}},
        ["virtualService.name: is required", "destinationRule.stableSubsetName: is required",
            "destinationRule.canarySubsetName: is required",
            "destinationRule.additionalSubsetNames: are for experiments"]),
    ("istio",
        {"virtualService": {"name": "a"}, "destinationRule": {"name": "a", "stableSubsetName": "b", "canarySubsetName": "b"}},
        ["destinationRule.canarySubsetName: must differ from stableSubsetName"]),
    ("nginx", {"additionalIngressAnnotations": []},
        ["stableIngress: is required", "additionalIngressAnnotations: must be"]),
    ("nginx", {"stableIngress": "a" * 247}, ["stableIngress: aaaaaaaaaaaaaaaaaaaa… is too long"]),
    ("traefik", {}, ["weightedTraefikServiceName: is required"]),
    ("contour", {"httpProxies": [{}, 3]}, ["httpProxies[0].name: is required", "httpProxies[1]: must be an object"]),
    ("alb", {"servicePort": "80"}, ["servicePort: must be a whole number", "ingress: is required"]),
    ("apisix", {}, ["route: is required"]),
    ("gloo", {}, ["routeTables: is required"]),
    ("skipper", {}, ["ingress: is required"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "settings", "told"), BAD, ids=lambda value: value if isinstance(value, str) else "")
def test_every_problem_is_told(name: str, settings: Mapping[str, Any], told: list[str]) -> None:
    """Plugins' settings are free JSON in the schema, so the provider is the only one who can say."""
    with pytest.raises(SpecInvalid) as error:
        registry()[name].targets(settings, namespace="shop")

    found = [str(problem) for problem in error.value.problems]
    assert [words for words in told if not any(problem.startswith(words) for problem in found)] == [], found


def test_a_name_is_long_enough_for_the_second_object_beside_it() -> None:
    """The canary Ingress has the name of the stable one, and seven characters more."""
    (target,) = registry()["nginx"].targets({"stableIngress": "a" * 246}, namespace="shop")
    assert len(target.name) == 246


def test_there_is_a_bad_example_for_each_provider() -> None:
    """A provider without a row here would be free to say nothing."""
    assert {name for name, _, _ in BAD} == set(registry())


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_refused_router_comes_with_a_way_out(name: str) -> None:
    """People bring manifests from elsewhere: 'unknown' would leave them alone with it."""
    assert name not in registry()
    assert "write" in unknown(name, registry()) or "use" in unknown(name, registry())


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    """A slip of the pen is seen at once."""
    assert "gatewayAPI, gloo, istio" in unknown("gatewayApi", registry())


def test_several_objects_are_several_targets() -> None:
    """Each is brought to the split by itself."""
    routes = {"httpRoutes": [{"name": "a"}, {"name": "b", "namespace": "edge"}], "tcpRoutes": [{"name": "c"}]}

    found = registry()["gatewayAPI"].targets(routes, namespace="shop")

    assert [(each.kinds[0].kind, each.namespace, each.name) for each in found] == [
        ("HTTPRoute", "shop", "a"),
        ("HTTPRoute", "edge", "b"),
        ("TCPRoute", "shop", "c"),
    ]
    assert [kind.version for kind in found[0].kinds] == ["v1", "v1beta1"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_has_no_namespace_is_in_that_of_the_rollout(case: Case) -> None:
    """Some take a namespace beside the name."""
    found = case.provider.targets(case.settings, namespace="shop")

    assert {each.namespace for each in found} == {"shop"}


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("nginx", {"stableIngress": "a", "stableIngresses": ["b"]}),
        ("alb", {"ingress": "a", "ingresses": ["b"], "servicePort": 80}),
        ("istio", {"virtualService": {"name": "a"}, "virtualServices": [{"name": "b"}]}),
        ("skipper", {"ingress": "a", "ingresses": ["b"]}),
    ],
)
def test_one_object_and_several_may_be_named_together(name: str, settings: Mapping[str, Any]) -> None:
    """Argo Rollouts refuses it, or takes the list alone: here nothing that is named is left out."""
    assert [each.name for each in registry()[name].targets(settings, namespace="shop")] == ["a", "b"]


def test_a_package_cannot_take_a_built_in_name() -> None:
    """A manifest means the same everywhere; a name of its own is added."""
    of_that_name, other = (cast(Provider, SimpleNamespace(name=name)) for name in ("istio", "mine"))

    assert registry((of_that_name,))["istio"] is not of_that_name
    assert registry((other,))["mine"] is other
