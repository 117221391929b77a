"""Promise: a backend is the Rollout's Service only in the Rollout's namespace; the same name elsewhere is somebody else's.

Which namespace a backend's name is resolved in is the router's rule: its own field for it, else the namespace of the object.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from rollouts.core.model.frozen import replace
from rollouts.core.model.traffic import Split
from rollouts.errors import SpecInvalid, Unroutable
from rollouts.objects import Manifest
from rollouts.traffic.codec import Target
from rollouts.traffic.declared.codec import declared
from tests.traffic.cases.all_cases import CASES
from tests.traffic.cases.case import Case
from tests.traffic.cases.declared import APISIX, assert_refused
from tests.traffic.situation import CONTEXT, NAMESPACE, Situation

HALF = Split(Fraction(1, 2))
SPACED: dict[str, Any] = {**APISIX, "name": "spaced", "serviceNamespace": {"path": "namespace"}}


def _hosts(*weights: int | None) -> Manifest:
    """An object whose backends are named by their hosts."""
    backends = [
        {"host": f"{name}.test", **({} if weight is None else {"weight": weight})}
        for name, weight in zip(("stable", "canary"), weights, strict=True)
    ]
    return {"spec": {"http": [{"backends": backends}]}}


BY_HOST: dict[str, Any] = {
    **APISIX,
    "name": "by-host",
    "service": {"cel": "item.host.split('.')[0]"},
    "serviceNamespace": {"cel": "item.host.split('.')[1]"},
    "tests": [{"object": _hosts(None, 0), "canaryPercent": 50, "result": _hosts(50, 50)}],
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_object_elsewhere_means_services_of_its_own_namespace(case: Case) -> None:
    """A Rollout with Services of the same names as somebody else's put 90 % of their route on their canary Service."""
    try:
        (target, *_) = case.provider.targets({**case.settings, "namespace": "edge"}, namespace=NAMESPACE)
    except SpecInvalid:  # its settings have no such field, so this object is never elsewhere but by a test's hand
        target = case.provider.targets(case.settings, namespace=NAMESPACE)[0]
        if case.example["kind"] == "Ingress":  # it knows no Services but those of its own namespace
            assert target.namespace == NAMESPACE
            return
    at_home = Situation.of(case.provider, case.settings, case.example, case.context)
    start = replace(at_home, target=replace(at_home.target, namespace="edge"))

    if _says_whose(case.example):
        assert start.read() is not None
        return
    with pytest.raises(Unroutable):
        start.read()
    with pytest.raises(Unroutable):
        start.plan(HALF)


def _says_whose(value: Any) -> bool:
    """Whether a backend names the Rollout's namespace itself."""
    match value:
        case Mapping():
            own = value.get("namespace") == NAMESPACE and "resourceVersion" not in value
            return own or any(_says_whose(each) for name, each in value.items() if name != "metadata")
        case list():
            return any(map(_says_whose, value))
        case _:
            return False


def _in_fields(*namespaces: str | None) -> list[Manifest]:
    names = (CONTEXT.stable_service, CONTEXT.canary_service)
    return [
        {"serviceName": name, "weight": weight} | ({"namespace": space} if space is not None else {})
        for name, space, weight in zip(names, namespaces, (100, 0), strict=True)
    ]


def _in_hosts(namespace: str) -> list[Manifest]:
    return [{"host": f"cart.{namespace}", "weight": 100}, {"host": f"cart-canary.{namespace}", "weight": 0}]


@pytest.mark.parametrize(
    ("declaration", "home", "backends", "ours"),
    [
        (SPACED, "shop", _in_fields(None, None), True), (SPACED, "shop", _in_fields("shop", "shop"), True),
        (SPACED, "shop", _in_fields("edge", "edge"), False), (SPACED, "shop", _in_fields("edge", "shop"), False),
        (SPACED, "edge", _in_fields(None, None), False), (SPACED, "edge", _in_fields("edge", "edge"), False),
        (SPACED, "edge", _in_fields("shop", "shop"), True), (BY_HOST, "edge", _in_hosts("shop"), True),
        (BY_HOST, "edge", _in_hosts("edge"), False),
    ],
)  # fmt: skip
def test_a_declared_router_says_where_a_backends_namespace_stands(
    declaration: Mapping[str, Any], home: str, backends: list[Manifest], ours: bool
) -> None:
    """`serviceNamespace`: a field of the backend, or worked out; without a value, the object's own namespace."""
    provider = declared(declaration)
    user = {"metadata": {"name": "r"}, "spec": {"http": [{"name": "r", "backends": backends}]}}
    target = Target(kinds=provider.kinds, namespace=home, name="r")
    situation = replace(Situation.of(provider, {"name": "r"}, user), target=target)

    if ours:
        assert situation.managed(HALF).read() == HALF
    else:
        with pytest.raises(Unroutable):
            situation.read()


def test_a_router_that_does_not_say_it_has_no_objects_elsewhere() -> None:
    """Its backends are of the object's own namespace then, so that it could never lead to the Rollout's Services."""
    provider = declared(APISIX)

    with pytest.raises(SpecInvalid, match="serviceNamespace") as error:
        provider.targets({"name": "r", "namespace": "edge"}, namespace="shop")

    assert [each.path for each in error.value.problems] == ["namespace"]
    assert provider.targets({"name": "r", "namespace": "shop"}, namespace="shop")[0].namespace == "shop"
    assert declared(SPACED).targets({"name": "r", "namespace": "edge"}, namespace="shop")[0].namespace == "edge"


@pytest.mark.parametrize(
    ("declaration", "told"),
    [
        ({**APISIX, "serviceNamespace": {}}, "serviceNamespace: exactly one of path and cel"),
        ({**APISIX, "serviceNamespace": {"cel": "item.a +"}}, "serviceNamespace.cel: Syntax error"),
        ({**APISIX, "serviceNamespace": 3}, "serviceNamespace: must be"),
    ],
)
def test_a_wrong_one_is_refused(declaration: Mapping[str, Any], told: str) -> None:
    """With its path, as everything of a declaration."""
    assert_refused(declaration, told)
