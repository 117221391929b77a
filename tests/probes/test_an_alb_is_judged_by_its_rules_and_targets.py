"""Promise: an Application Load Balancer does what an Ingress says when all its rules do, and its targets are the right pods."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from rollouts.core.model.traffic import RouteName
from rollouts.objects import Manifest
from rollouts.ports import LiveQuestion
from rollouts.probes.alb import (
    SERVICE_LABEL,
    Endpoints,
    Listener,
    TargetGroup,
    bound_groups,
    endpoints_of,
    is_of,
    judged_rules,
    judged_targets,
)
from tests.probes.dumps import question, share

ARN = "arn:aws:elasticloadbalancing:eu-west-1:123456789012:targetgroup"
STABLE = TargetGroup(arn=f"{ARN}/k8s-shop-cart-1/aa", service="cart")
CANARY = TargetGroup(arn=f"{ARN}/k8s-shop-cart-2/bb", service="cart-canary")
OTHER = f"{ARN}/k8s-shop-other-3/cc"
PAIR = (STABLE, CANARY)
PATHS = [{"backend": {"service": {"name": "cart", "port": {"name": "use-annotation"}}}}]
TO_OTHERS: dict[str, Any] = {"Priority": "default", "Actions": [{"Type": "fixed-response"}]}


def asked(percent: int | str, *rules: Manifest, paths: Sequence[Manifest] = PATHS) -> LiveQuestion:
    """About an Ingress with these paths, and more rules."""
    route = RouteName("alb", "Ingress", "shop", "cart")
    spec = {"rules": [{"http": {"paths": list(paths)}}, *rules]}
    ingress = {"kind": "Ingress", "metadata": {"namespace": "shop", "name": "cart"}, "spec": spec}
    return question(share(percent), route=route, gateways=(), objects=(ingress,), namespace="shop")


def rule(*weights: tuple[str, int], priority: str = "1") -> dict[str, Any]:
    """A rule that forwards, as DescribeRules has it."""
    groups = [{"TargetGroupArn": arn, "Weight": weight} for arn, weight in weights]
    return {"Priority": priority, "Actions": [{"Type": "forward", "ForwardConfig": {"TargetGroups": groups}}]}


def shared(stable: int, canary: int, *, priority: str = "1") -> dict[str, Any]:
    return rule((STABLE.arn, stable), (CANARY.arn, canary), priority=priority)


def alone(priority: str = "1") -> dict[str, Any]:
    """A rule that has not heard of the canary; AWS writes a single target group twice."""
    actions = [{"Type": "authenticate-oidc"}, {"Type": "forward", "TargetGroupArn": STABLE.arn}]
    return {"Priority": priority, "Actions": actions}


def listeners(*rules: Sequence[dict[str, Any]]) -> list[Listener]:
    """Ports 80, 81, …; each has rules of others too."""
    return [
        Listener(port=80 + at, rules=[rule((OTHER, 1), priority="9"), TO_OTHERS, *each])
        for at, each in enumerate(rules)
    ]


def target(address: str, state: str = "healthy", reason: str = "", port: int = 8080) -> dict[str, Any]:
    """As DescribeTargetHealth has it."""
    told = {"State": state, **({"Reason": reason} if reason else {})}
    return {"Target": {"Id": address, "Port": port}, "TargetHealth": told}


def pods(*ready: str, unready: Sequence[str] = ()) -> Endpoints:
    return Endpoints(frozenset(ready), frozenset((*ready, *unready)))


@pytest.mark.parametrize(
    ("percent", "rules"),
    [
        (20, [shared(80, 20)]), ("0.1", [shared(999, 1)]), (50, [shared(2, 2), shared(50, 50, priority="2")]),
        (0, [shared(100, 0)]), (0, [alone()]), (100, [shared(0, 100)]),
        (20, [rule((STABLE.arn, 40), (CANARY.arn, 10), (OTHER, 50))]),
    ],
)  # fmt: skip
def test_rules_that_share_as_wanted_are_live(percent: int | str, rules: list[dict[str, Any]]) -> None:
    """Weights are relative, and what the user gives to others in the same rule is the user's."""
    found = judged_rules(listeners(rules), PAIR, asked(percent))

    assert (found.live, found.message) == (True, "")


@pytest.mark.parametrize(
    ("percent", "rules", "message"),
    [
        (40, [shared(80, 20)], "rule 1 of port 80 gives the canary 20 %, not 40 %"),
        (0, [shared(80, 20)], "rule 1 of port 80 gives the canary 20 %, not 0 %"),
        (20, [alone()], "no rule gives the canary 20 %"),
        (20, [shared(80, 20), alone("2")], "rule 2 of port 80: leads to cart alone"),
        (50, [rule((CANARY.arn, 1))], "leads to the canary alone"),
        (20, [shared(0, 0)], "it leads to neither Service"),
        (20, [], "no rule of its load balancer leads to Service cart yet"),
    ],
)
def test_a_rule_that_has_not_followed_is_told(percent: int, rules: list[dict[str, Any]], message: str) -> None:
    """The controller of AWS changes rule after rule: until the last one, requests go where they went before."""
    found = judged_rules(listeners(rules), PAIR, asked(percent))

    assert not found.live
    assert message in found.message


def test_every_listener_must_follow_that_leads_to_the_pair() -> None:
    """HTTP and HTTPS have rules of their own, and one load balancer serves many Ingresses: others' are not looked at."""
    late = judged_rules(listeners([shared(80, 20)], [alone()]), PAIR, asked(20))

    assert not late.live
    assert "port 81" in late.message
    for second in ([shared(80, 20)], [], [rule((OTHER, 100))]):
        assert judged_rules(listeners([shared(80, 20)], second), PAIR, asked(20)).live


def test_a_path_that_never_was_to_be_shared_is_nobodys_business() -> None:
    """The user may lead a path to the stable Service without the annotation; its rule will never name the canary."""
    direct = {"backend": {"service": {"name": "cart", "port": {"number": 80}}}}
    question = asked(20, {"host": "no.paths"}, paths=[*PATHS, direct])

    assert judged_rules(listeners([shared(80, 20), alone("2")]), PAIR, question).live


@pytest.mark.parametrize(
    ("targets", "endpoints"),
    [
        ([target("10.0.0.1")], pods("10.0.0.1")),
        ([target("10.0.0.1"), target("10.0.0.9", "draining", "Target.DeregistrationInProgress")], pods("10.0.0.1")),
        ([target("10.0.0.1"), target("10.0.0.2", "initial")], pods("10.0.0.1", unready=["10.0.0.2"])),
        ([target("10.0.0.1", "draining", port=80), target("10.0.0.1")], pods("10.0.0.1")),
        ([target("2001:db8:0:0::1")], pods("2001:db8::1")),
    ],
)
def test_targets_that_are_the_services_pods_are_live(targets: list[dict[str, Any]], endpoints: Endpoints) -> None:
    """Pods that drain get no new requests, and one that is not ready is not counted on."""
    found = judged_targets(CANARY, targets, endpoints)

    assert (found.live, found.message) == (True, "")


@pytest.mark.parametrize(
    ("targets", "endpoints", "message"),
    [
        ([], pods("10.0.0.1"), "10.0.0.1 is not registered"),
        ([target("10.0.0.1", "initial", "Elb.RegistrationInProgress")], pods("10.0.0.1"),
            "10.0.0.1 is initial (Elb.RegistrationInProgress)"),
        ([target("10.0.0.1", "unhealthy", "Target.Timeout")], pods("10.0.0.1"),
            "10.0.0.1 is unhealthy (Target.Timeout)"),
        ([target("10.0.0.1", "unused", "Target.NotInUse")], pods("10.0.0.1"), "10.0.0.1 is unused (Target.NotInUse)"),
        ([target("10.0.0.1", "draining")], pods("10.0.0.1"), "10.0.0.1 is draining"),
        ([target("10.0.0.1"), target("10.0.0.1", "unhealthy", port=80)], pods("10.0.0.1"), "10.0.0.1 is unhealthy"),
        ([target("10.0.0.1"), target("10.0.0.9")], pods("10.0.0.1"),
            "10.0.0.9 is not an endpoint and is still registered"),
        ([target("10.0.0.1")], pods(unready=["10.0.0.1"]), "has no ready endpoint"),
        ([], pods("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"), "and 2 more"),
    ],
)  # fmt: skip
def test_targets_that_are_not_yet_or_no_longer_the_pods_are_told(
    targets: list[dict[str, Any]], endpoints: Endpoints, message: str
) -> None:
    """A Service that selects another revision is of no use while the load balancer sends to the pods of the one before."""
    found = judged_targets(CANARY, targets, endpoints)

    assert not found.live
    assert message in found.message
    assert CANARY.name in found.message


NODES = TargetGroup(arn=STABLE.arn, service="cart", by_address=False)
SHARED = TargetGroup(arn=STABLE.arn, service="cart", shared=True)


@pytest.mark.parametrize(
    ("group", "targets", "live"),
    [
        (NODES, [target("i-1"), target("i-2", "unhealthy")], True),
        (NODES, [target("i-1"), target("i-2", "initial")], False),
        (NODES, [target("i-1", "unhealthy")], False),
        (NODES, [], False),
        (SHARED, [target("10.0.0.1"), target("10.9.0.1")], True),
    ],
)
def test_nodes_stand_for_pods_and_a_group_may_be_shared(group: TargetGroup, targets: list[Any], live: bool) -> None:
    """With externalTrafficPolicy Local a node without a pod is unhealthy. Pods of another cluster are no endpoints here."""
    assert judged_targets(group, targets, pods("10.0.0.1")).live is live


def test_bindings_tell_the_target_groups_of_the_pair() -> None:
    """Of every Ingress; one that has no ARN yet is not made yet."""
    specs = [
        {"serviceRef": {"name": "cart", "port": 80}, "targetGroupARN": STABLE.arn, "targetType": "ip"},
        {"serviceRef": {"name": "cart-canary"}, "targetGroupARN": CANARY.arn, "ipAddressType": "ipv4"},
        {"serviceRef": {"name": "cart"}, "targetGroupARN": OTHER, "targetType": "instance"},
        {"serviceRef": {"name": "cart-canary", "port": "http"}},
        {"serviceRef": {"name": "other"}, "targetGroupARN": OTHER},
    ]

    groups = bound_groups(json.dumps({"items": [{"spec": each} for each in specs]}).encode(), asked(20))

    assert groups == (STABLE, CANARY, TargetGroup(arn=OTHER, service="cart", by_address=False))


@pytest.mark.parametrize(
    ("resource", "ours"),
    [
        ("shop/cart-cart:80", True), ("shop/cart-cart:http", True), ("shop/cart-cart-canary:80", False),
        ("shop/internal-cart:80", False), ("other/cart-cart:80", False), ("", False),
    ],
)  # fmt: skip
def test_a_target_group_tells_its_ingress(resource: str, ours: bool) -> None:
    """A Service has a target group for each Ingress; those of others are managed by others."""
    assert is_of(STABLE, resource, asked(20)) is ours


def test_endpoints_are_those_of_the_service_in_the_family_of_the_targets() -> None:
    """A Service of both families has slices of both; the load balancer has targets of one."""

    def slice_of(service: str, address: str = "", family: str = "IPv4", **conditions: bool) -> dict[str, Any]:
        endpoints = [{"addresses": [address], "conditions": conditions}] if address else None
        labels = {SERVICE_LABEL: service}
        return {"metadata": {"labels": labels}, "addressType": family, "endpoints": endpoints}

    slices = [
        slice_of("cart", "10.0.0.1", ready=True),
        slice_of("cart", "10.0.0.2", ready=False),
        slice_of("cart", "10.0.0.3"),
        slice_of("cart", "2001:db8::1", "IPv6", ready=True),
        slice_of("cart-canary", "10.0.0.4", ready=True),
        slice_of("cart"),
    ]
    listing = json.dumps({"items": slices}).encode()
    six = TargetGroup(arn=STABLE.arn, service="cart", ipv6=True)

    assert endpoints_of(listing, STABLE) == pods("10.0.0.1", "10.0.0.3", unready=["10.0.0.2"])
    assert endpoints_of(listing, six) == pods("2001:db8::1")


@pytest.mark.parametrize(
    "listing", [b"", b'{"x":' + b"[" * 100_000, b'{"items":[{"spec":{"targetGroupARN":"\xff"},"addressType":"\xff"}]}']
)
def test_a_listing_that_cannot_be_read_is_an_error_of_one_kind(listing: bytes) -> None:
    """The asker tells it; nothing else may come out of a reader, whatever the depth and the bytes."""
    with pytest.raises(msgspec.DecodeError):
        bound_groups(listing, asked(20))
    with pytest.raises(msgspec.DecodeError):
        endpoints_of(listing, STABLE)
