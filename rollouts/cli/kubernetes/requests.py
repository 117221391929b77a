"""What a pod requests and is limited to, as the API server and its quotas count it. Pure.

Sources: https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers ·
https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers · component-helpers,
resource/helpers.go (`PodRequests`, `PodLimits`) · kubernetes, pkg/apis/core/v1/defaults.go (`SetDefaults_Pod`)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from rollouts.cli.kubernetes.parts import entries
from rollouts.cli.kubernetes.schema import quantity
from rollouts.objects import mapping
from rollouts.sim.storage.quantities import binary_text, decimal_text

Amounts: TypeAlias = Mapping[str, Fraction]
"""Cores of `cpu`, bytes of `memory`, by the name of the resource."""

ResourceSide: TypeAlias = Literal["requests", "limits"]

_OF_PODS = ("cpu", "memory", "hugepages-")  # what `spec.resources` of a pod may set
_NOTHING = Fraction(0)


def amounts(value: object) -> dict[str, Fraction]:
    """A list of resources as numbers, without what is no quantity."""
    stated = {name: quantity(amount) for name, amount in mapping(value).items()}
    return {name: amount for name, amount in stated.items() if amount is not None}


def amount_text(resource: str, amount: Fraction) -> str:
    """An amount as Kubernetes writes it: `1500m`, `7Gi`. The resource, or a quota's name for it, decides on the suffixes."""
    in_bytes = any(word in resource for word in ("memory", "ephemeral-storage", "hugepages-"))
    return binary_text(amount) if in_bytes else decimal_text(amount)


def containers_of(pod: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The containers of a pod's spec, those that initialize it first."""
    for field in ("initContainers", "containers"):
        for _, container in entries(pod.get(field)):
            yield container


def resources_of(owner: Mapping[str, Any], side: ResourceSide) -> dict[str, Fraction]:
    """What one container, or the pod as a whole, states."""
    return amounts(mapping(owner.get("resources")).get(side))


def as_created(pod: Mapping[str, Any], defaults: Mapping[ResourceSide, Mapping[str, Any]]) -> dict[str, Any]:
    """A pod's spec as the API server keeps it: a limit is also the request where none is stated, then LimitRanges fill in."""
    filled: dict[str, Any] = dict(pod)
    for field in ("initContainers", "containers"):
        if field in pod:
            filled[field] = [
                _with_resources(container, requests=mapping(mapping(container.get("resources")).get("limits")))
                for _, container in entries(pod[field])
            ]
    filled = _requesting_together(filled)
    for field in ("initContainers", "containers"):
        if field in filled:
            missing = {side: mapping(defaults.get(side)) for side in _SIDES}
            filled[field] = [_with_resources(container, **missing) for container in filled[field]]
    return filled


def pod_total(pod: Mapping[str, Any], side: ResourceSide, *, overhead: bool = True) -> dict[str, Fraction]:
    """What a pod takes: all its containers and sidecars together, or what it takes to initialize, whichever is more.

    A LimitRange leaves out the pod's overhead.
    """
    total = _sum(resources_of(container, side) for _, container in entries(pod.get("containers")))
    sidecars: dict[str, Fraction] = {}
    most: dict[str, Fraction] = {}
    for _, container in entries(pod.get("initContainers")):
        own = resources_of(container, side)
        if container.get("restartPolicy") == "Always":  # a sidecar: it goes on beside the others
            total = _sum((total, own))
            sidecars = _sum((sidecars, own))
            own = sidecars
        else:
            own = _sum((own, sidecars))
        most = _larger(most, own)
    total = _larger(total, most)
    total |= {name: amount for name, amount in resources_of(pod, side).items() if name.startswith(_OF_PODS)}
    if overhead:
        for name, more in amounts(pod.get("overhead")).items():
            if side == "requests" or total.get(name):
                total[name] = total.get(name, _NOTHING) + more
    return total


def is_best_effort(pod: Mapping[str, Any]) -> bool:
    """Whether nothing in the spec requests, or is limited in, CPU or memory.

    Source: https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/
    """
    owners = (pod, *containers_of(pod))
    stated = (resources_of(owner, side) for owner in owners for side in _SIDES)
    return not any(amounts_of_one.get(name) for amounts_of_one in stated for name in ("cpu", "memory"))


def states_resources(pod: Mapping[str, Any]) -> bool:
    """Whether the pod as a whole states what it takes, so that its containers need not."""
    return any(name.startswith(_OF_PODS) for side in _SIDES for name in resources_of(pod, side))


_SIDES: tuple[ResourceSide, ...] = ("requests", "limits")


def _requesting_together(pod: dict[str, Any]) -> dict[str, Any]:
    """A pod with limits of its own requests what its containers do, else its limits."""
    limits = mapping(mapping(pod.get("resources")).get("limits"))
    requested = pod_total({**pod, "resources": {}}, "requests", overhead=False)
    own = {name: amount_text(name, amount) for name, amount in requested.items() if name in ("cpu", "memory")}
    return _with_resources(pod, requests={**limits, **own}) if limits else pod


def _with_resources(owner: Mapping[str, Any], **missing: Mapping[str, Any]) -> dict[str, Any]:
    before = mapping(owner.get("resources"))
    filled = {side: {**more, **mapping(before.get(side))} for side, more in missing.items() if more}
    return {**owner, "resources": {**before, **filled}} if filled else dict(owner)


def _sum(lists: Iterable[Amounts]) -> dict[str, Fraction]:
    total: dict[str, Fraction] = {}
    for amounts_of_one in lists:
        for name, amount in amounts_of_one.items():
            total[name] = total.get(name, _NOTHING) + amount
    return total


def _larger(one: Amounts, other: Amounts) -> dict[str, Fraction]:
    return {**one, **{name: max(amount, one.get(name, amount)) for name, amount in other.items()}}
