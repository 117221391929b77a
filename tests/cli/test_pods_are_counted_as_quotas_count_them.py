"""Promise: what a pod takes of its namespace is worked out as Kubernetes does, for quotas with scopes and for LimitRanges.

tests/cli/test_limits_are_those_of_the_api_server.py holds the same numbers to a real API server.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from rollouts.cli.kubernetes.limit_ranges import defaults_of, refusals
from rollouts.cli.kubernetes.quotas import Quota, Scope, charge, counts, missing_amounts, quota_of
from rollouts.cli.kubernetes.requests import as_created, pod_total
from rollouts.objects import Manifest

Spec = dict[str, Any]


def container(
    name: str = "app",
    *,
    sidecar: bool = False,
    requests: dict[str, str] | None = None,
    limits: dict[str, str] | None = None,
) -> Spec:
    """A container; what it requests and is limited to by resource."""
    stated = {side: each for side, each in (("requests", requests), ("limits", limits)) if each is not None}
    return {"name": name, "resources": stated} | ({"restartPolicy": "Always"} if sidecar else {})


def cpu(amount: str) -> dict[str, str]:
    """An amount of CPU."""
    return {"cpu": amount}


def limit_range(**item: Any) -> Manifest:
    """A LimitRange of one item, for containers unless it says otherwise."""
    return {"metadata": {"name": "team"}, "spec": {"limits": [{"type": "Container", **item}]}}


ONE, A_PART = (container(requests=cpu(each)) for each in ("1", "200m"))
INIT, MESH = container("init", requests=cpu("2")), container("mesh", sidecar=True, requests=cpu("300m"))
REQUESTS: dict[str, tuple[Spec, str]] = {
    "containers are added up": ({"containers": [A_PART, {**ONE, "name": "b"}]}, "1200m"),
    "one that starts first and takes more counts alone": ({"initContainers": [INIT], "containers": [ONE]}, "2"),
    "one that starts first and takes less does not count": (
        {"initContainers": [container("init", requests=cpu("500m"))], "containers": [ONE]},
        "1",
    ),
    "a sidecar counts beside the containers": ({"initContainers": [MESH], "containers": [ONE]}, "1300m"),
    "one that starts after a sidecar counts with it": ({"initContainers": [MESH, INIT], "containers": [ONE]}, "2300m"),
    "one that starts before a sidecar counts without it": ({"initContainers": [INIT, MESH], "containers": [ONE]}, "2"),
    "overhead comes on top": ({"containers": [ONE], "overhead": {"cpu": "250m"}}, "1250m"),
    "the pod's own request counts in place of its containers'": (
        {"containers": [ONE], "resources": {"requests": {"cpu": "4"}}},
        "4",
    ),
    "a limit is the request where none is stated": ({"containers": [container(limits={"cpu": "2"})]}, "2"),
    "the pod's own limit is the request where no container states one": (
        {"containers": [container()], "resources": {"limits": {"cpu": "2"}}},
        "2",
    ),
    "its containers' requests are the pod's where only a limit is stated": (
        {"containers": [ONE], "resources": {"limits": {"cpu": "2"}}},
        "1",
    ),
}


@pytest.mark.parametrize(("pod", "wanted"), REQUESTS.values(), ids=REQUESTS)
def test_a_pod_requests_what_kubernetes_says(pod: Spec, wanted: str) -> None:
    """docs: kubernetes.io, "Resource sharing within containers" of init containers and of sidecars."""
    plain = {"containers": [container(requests=cpu(wanted))]}

    assert charge(as_created(pod, {}))["requests.cpu"] == charge(plain)["requests.cpu"]


def test_overhead_counts_in_limits_that_are_there_only() -> None:
    """A pod without a limit has none by its overhead."""
    pod = {"containers": [container(limits={"memory": "1Gi"})], "overhead": {"cpu": "1", "memory": "1Gi"}}

    assert pod_total(pod, "limits") == {"memory": Fraction(2**31)}


def test_a_quota_counts_pods_by_all_its_names() -> None:
    """`cpu` is `requests.cpu`; extended resources have requests only; `count/pods` counts any pod."""
    pod = {"containers": [container(requests={"cpu": "1", "example.com/gpu": "2"}, limits={"memory": "1Gi"})]}

    ones = dict.fromkeys(("pods", "count/pods", "cpu", "requests.cpu"), 1)
    assert charge(pod) == {**ones, "requests.example.com/gpu": 2, "limits.memory": 2**30}


BARE: Spec = {"containers": [container()]}
BUSY: Spec = {"containers": [container(requests=cpu("1"))]}
NAMED: Spec = {**BARE, "priorityClassName": "high"}
NONE: Spec = {**BARE, "priorityClassName": ""}
PREFERRED: Spec = {"preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": {"namespaceSelector": {}}}]}
ELSEWHERE: Spec = {**BARE, "affinity": {"podAntiAffinity": PREFERRED}}


@pytest.mark.parametrize(
    ("scope", "pod", "counted"),
    [
        (Scope(name="BestEffort"), BARE, True),
        (Scope(name="BestEffort"), BUSY, False),
        (Scope(name="NotBestEffort"), BUSY, True),
        (Scope(name="NotBestEffort"), {**BARE, "resources": {"limits": {"memory": "1Gi"}}}, True),
        (Scope(name="NotTerminating"), BARE, True),
        (Scope(name="Terminating"), BARE, False),
        (Scope(name="CrossNamespacePodAffinity"), ELSEWHERE, True),
        (Scope(name="CrossNamespacePodAffinity"), BARE, False),
        (Scope(name="PriorityClass", operator="In", values=("high", "low")), NAMED, True),
        (Scope(name="PriorityClass", operator="In", values=("low",)), NAMED, False),
        (Scope(name="PriorityClass", operator="NotIn", values=("low",)), NAMED, True),
        (Scope(name="PriorityClass", operator="NotIn", values=("low",)), NONE, True),
        (Scope(name="PriorityClass"), NAMED, True),
        (Scope(name="PriorityClass"), NONE, False),
        (Scope(name="PriorityClass", operator="DoesNotExist"), NONE, True),
        (Scope(name="PriorityClass"), BARE, None),
        (Scope(name="VolumeAttributesClass"), BARE, False),
        (Scope(name="OfLater"), BARE, None),
    ],
)
def test_a_quota_counts_the_pods_of_its_scope(scope: Scope, pod: Spec, counted: bool | None) -> None:
    """Where the template does not tell, nobody claims to know: the cluster may have a priority class for all pods."""
    assert counts(Quota(name="team", hard={}, used={}, scopes=(scope,)), pod) is counted


def test_every_scope_must_hold() -> None:
    """One that does not is enough, whatever the others are."""
    scopes = (Scope(name="PriorityClass"), Scope(name="BestEffort"))

    assert counts(Quota(name="team", hard={}, used={}, scopes=scopes), BUSY) is False


def test_a_quota_is_read_from_its_status() -> None:
    """The API server enforces the status; the spec may be newer."""
    of_a_class = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["a"]}]}
    spec = {"hard": {"pods": "99"}, "scopes": ["NotTerminating"], "scopeSelector": of_a_class}
    status = {"hard": {"pods": "4", "requests.cpu": "1500m"}, "used": {"pods": "3"}}
    quota = quota_of({"metadata": {"name": "team"}, "spec": spec, "status": status})

    assert quota == Quota(
        name="team",
        hard={"pods": Fraction(4), "requests.cpu": Fraction(3, 2)},
        used={"pods": Fraction(3)},
        scopes=(Scope(name="NotTerminating"), Scope(name="PriorityClass", operator="In", values=("a",))),
    )
    assert not quota_of({"metadata": {"name": "new"}, "spec": {"hard": {"pods": "1"}}}).known


def test_a_container_must_state_what_a_quota_counts() -> None:
    """CPU and memory only: Kubernetes calls that a mistake that it does not repeat."""
    hard = dict.fromkeys(("pods", "cpu", "limits.memory", "requests.example.com/gpu"), Fraction(1))
    quota = Quota(name="team", hard=hard, used={})

    assert list(missing_amounts(quota, BUSY)) == ["container app has no limits.memory"]
    assert list(missing_amounts(quota, BARE)) == [
        "container app has no requests.cpu",
        "container app has no limits.memory",
    ]
    assert not list(missing_amounts(quota, {**BARE, "resources": {"limits": {"cpu": "1"}}}))


def test_a_limit_range_fills_in_what_is_not_stated() -> None:
    """A limit of the container's own is its request already, before the defaults come."""
    filled = limit_range(default={"cpu": "2", "memory": "1Gi"}, defaultRequest={"cpu": "500m", "memory": "1Gi"})
    defaults = defaults_of([filled])
    pod = as_created({"containers": [container(limits={"cpu": "1"})], "initContainers": [container("init")]}, defaults)

    both = {"cpu": "1", "memory": "1Gi"}
    assert pod["containers"][0]["resources"] == {"limits": both, "requests": both}
    assert pod["initContainers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}


TWO: Spec = {"containers": [container(requests={"cpu": "1"}, limits={"cpu": "2"})]}


@pytest.mark.parametrize(
    ("item", "pod", "why"),
    [
        ({"max": {"cpu": "1"}}, TWO, ["container app has a cpu limit of 2, and 1 is the most"]),
        ({"max": {"cpu": "2"}}, TWO, []),
        ({"max": {"cpu": "2"}}, BUSY, ["container app has no cpu limit, and 2 is the most"]),
        ({"min": {"cpu": "1500m"}}, TWO, ["container app has a cpu request of 1, and 1500m is the least"]),
        ({"min": {"memory": "1Gi"}}, TWO, ["container app has no memory request, and 1Gi is the least"]),
        ({"maxLimitRequestRatio": {"cpu": "1500m"}}, TWO,
         ["container app has a cpu limit of 2 times its request, and 1.5 is the most"]),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, TWO, []),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, BUSY, ["container app needs a cpu request and a cpu limit, both above 0"]),
        ({"type": "Pod", "max": {"cpu": "3"}}, {"containers": [*TWO["containers"], container("b", limits={"cpu": "2"})]},
         ["the pod has a cpu limit of 4, and 3 is the most"]),
        ({"type": "Pod", "max": {"cpu": "2"}}, {**TWO, "overhead": {"cpu": "1"}}, []),
        ({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}, TWO, []),
    ],
)  # fmt: skip
def test_a_limit_range_refuses_what_the_api_server_refuses(item: Spec, pod: Spec, why: list[str]) -> None:
    """Each reason in words that say what to change."""
    assert list(refusals(pod, limit_range(**item))) == why
