"""Promise: what `plan` takes a pod to count, and to be refused for, is what the real API server counts and refuses."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from typing import Any

import pytest

from rollouts.cli.kubernetes.limit_ranges import defaults_of, refusals
from rollouts.cli.kubernetes.quotas import Quota, charge, counts, missing_amounts, quota_of
from rollouts.cli.kubernetes.requests import as_created
from rollouts.objects import Manifest
from tests.cli.test_pods_are_counted_as_quotas_count_them import REQUESTS, container, cpu
from tests.lab.control_plane import ControlPlane
from tests.lab.loopback import wait_for

pytestmark = pytest.mark.controlplane

Spec = dict[str, Any]

HARD = dict.fromkeys(("cpu", "pods", "count/pods"), "1k") | dict.fromkeys(("requests.memory", "limits.memory"), "1Ti")


def by_class(**expression: Any) -> Spec:
    """A selector of a scope."""
    return {"matchExpressions": [{"scopeName": "PriorityClass", **expression}]}


SCOPES: dict[str, Spec] = {
    "all": {"hard": HARD},
    "best-effort": {"hard": {"pods": "1k"}, "scopes": ["BestEffort"]},
    "not-best-effort": {"hard": {"pods": "1k"}, "scopes": ["NotBestEffort"]},
    "not-terminating": {"hard": {"pods": "1k"}, "scopes": ["NotTerminating"]},
    "of-a-class": {"hard": {"pods": "1k"}, "scopeSelector": by_class(operator="In", values=["system-node-critical"])},
    "of-no-class": {"hard": {"pods": "1k"}, "scopeSelector": by_class(operator="DoesNotExist")},
}
FILLED = {"type": "Container", "default": {"memory": "1Gi"}, "defaultRequest": {"cpu": "100m", "memory": "64Mi"}}
"""What the quota `all` counts must be stated, so that pods without it come with this."""


def created(plane: ControlPlane, namespace: str, plural: str, name: str, spec: Spec, **query: str) -> Any:
    """The API server's answer to a new object of the core group."""
    kinds = {"resourcequotas": "ResourceQuota", "limitranges": "LimitRange", "pods": "Pod"}
    body = {"apiVersion": "v1", "kind": kinds[plural], "metadata": {"name": name}, "spec": spec}
    return plane.api.post(f"/api/v1/namespaces/{namespace}/{plural}", json=body, params=query)


def limited(plane: ControlPlane, namespace: str, *items: Spec) -> Manifest:
    """A LimitRange as the API server keeps it, with the defaults that follow from its bounds."""
    answer = created(plane, namespace, "limitranges", "team", {"limits": list(items)})
    answer.raise_for_status()
    return dict(answer.json())


def with_images(pod: Spec, *, pause: str = "pause") -> Spec:
    """The spec as the API server takes it: images, and no overhead, which needs a RuntimeClass."""
    filled = {name: each for name, each in pod.items() if name != "overhead"}
    for field in ("containers", "initContainers"):
        if field in filled:
            filled[field] = [{**each, "image": pause} for each in filled[field]]
    return filled


def taken(plane: ControlPlane, namespace: str, pods: Mapping[str, Spec]) -> dict[str, bool]:
    """Whether the API server takes each pod, in a dry run; it refuses with 403 and with nothing else."""
    answers = {
        name: created(plane, namespace, "pods", "pod", with_images(pod), dryRun="All").status_code
        for name, pod in pods.items()
    }
    assert set(answers.values()) <= {201, 403}
    return {name: status == 201 for name, status in answers.items()}


def enforced(plane: ControlPlane, namespace: str) -> None:
    """Makes the quotas, and waits until the status of each says what is enforced."""
    for name, spec in SCOPES.items():
        created(plane, namespace, "resourcequotas", name, spec).raise_for_status()
    missing = set(SCOPES)
    with plane.watch(f"/api/v1/namespaces/{namespace}/resourcequotas", timeout_s=50) as events:
        for event in events:
            if quota_of(event["object"]).known:
                missing.discard(event["object"]["metadata"]["name"])
            if not missing:
                return
    raise AssertionError(f"after 50 s quotas without a status: {missing}")


def used(plane: ControlPlane, namespace: str) -> dict[str, Quota]:
    """The quotas of the namespace by name."""
    answer = plane.api.get(f"/api/v1/namespaces/{namespace}/resourcequotas")
    answer.raise_for_status()
    return {each.name: each for each in map(quota_of, answer.json()["items"])}


def _is_used(
    plane: ControlPlane, namespace: str, before: Mapping[str, Quota], more: Mapping[str, Mapping[str, Fraction | int]]
) -> bool:
    """Whether so much more is used of each quota than before. Their controller may write what it has seen a moment ago."""
    after = used(plane, namespace)
    return all(
        after[quota].used[each] - before[quota].used[each] == amount
        for quota, amounts in more.items()
        for each, amount in amounts.items()
    )


def test_a_pod_counts_what_the_api_server_counts(control_plane: ControlPlane, namespace: str) -> None:
    """Sums over containers, initialization, sidecars, pod-level resources and defaults; each scope has it or not."""
    defaults = defaults_of([limited(control_plane, namespace, FILLED)])
    enforced(control_plane, namespace)
    pods: dict[str, Spec] = {name: with_images(pod) for name, (pod, _) in REQUESTS.items()}

    for number, (name, pod) in enumerate(pods.items()):
        before = used(control_plane, namespace)
        answer = created(control_plane, namespace, "pods", f"pod-{number}", pod)
        assert answer.status_code == 201, answer.text
        taken = as_created(pod | {"priorityClassName": ""}, defaults)
        wanted = {
            quota: {each: charge(taken).get(each, Fraction(0)) if counts(found, taken) else 0 for each in found.hard}
            for quota, found in before.items()
        }
        wait_for(partial(_is_used, control_plane, namespace, before, wanted), f"what is used with {name}: {wanted}")


def test_a_quota_refuses_pods_that_do_not_state_what_it_counts(control_plane: ControlPlane, namespace: str) -> None:
    """Without a LimitRange that fills it in."""
    enforced(control_plane, namespace)
    both = {"cpu": "1", "memory": "1Gi"}
    pods: dict[str, Spec] = {
        "whole": {"containers": [container(requests=both, limits=both)]},
        "limits are requests": {"containers": [container(limits=both)]},
        "of the pod": {"containers": [container()], "resources": {"requests": both, "limits": both}},
        "an init container": {
            "containers": [container(requests=both, limits=both)],
            "initContainers": [container("init")],
        },
        "no memory": {"containers": [container(requests=cpu("1"))]},
    }
    quota = used(control_plane, namespace)["all"]
    said = {name: not list(missing_amounts(quota, as_created(pod, {}))) for name, pod in pods.items()}
    real = taken(control_plane, namespace, pods)

    assert said == real == {name: name not in ("an init container", "no memory") for name in pods}


BOUNDS = (
    {"type": "Container", "min": {"cpu": "100m"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "4"}},
    {"type": "Pod", "max": {"cpu": "3"}, "min": {"cpu": "200m"}},
)
BOUND: dict[str, Spec] = {
    "nothing stated": {"containers": [container()]},
    "inside": {"containers": [container(requests={"cpu": "500m"}, limits={"cpu": "2"})]},
    "a limit above": {"containers": [container(requests={"cpu": "1"}, limits={"cpu": "3"})]},
    "a request below": {"containers": [container(requests={"cpu": "50m"}, limits={"cpu": "200m"})]},
    "the ratio above": {"containers": [container(requests={"cpu": "250m"}, limits={"cpu": "1100m"})]},
    "the pod above": {"containers": [container(limits={"cpu": "2"}), container("b", limits={"cpu": "2"})]},
    "the pod below": {"containers": [container(limits={"cpu": "150m"})]},
    "together inside": {"containers": [container(limits={"cpu": "1"}), container("b", limits={"cpu": "2"})]},
    "a sidecar above": {
        "containers": [container(limits={"cpu": "2"})],
        "initContainers": [container("mesh", sidecar=True, limits={"cpu": "2"})],
    },
    "an init container inside": {
        "containers": [container(limits={"cpu": "2"})],
        "initContainers": [container("init", limits={"cpu": "2"})],
    },
}


def test_a_limit_range_refuses_what_is_said(control_plane: ControlPlane, namespace: str) -> None:
    """The API server is asked with a dry run; its words for each refusal are others."""
    limit_range = limited(control_plane, namespace, *BOUNDS)
    defaults = defaults_of([limit_range])

    said = {name: not list(refusals(as_created(pod, defaults), limit_range)) for name, pod in BOUND.items()}
    real = taken(control_plane, namespace, BOUND)
    assert set(real.values()) == {True, False}
    assert said == real
