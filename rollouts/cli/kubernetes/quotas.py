"""How a ResourceQuota counts pods. Pure.

Sources: https://kubernetes.io/docs/concepts/policy/resource-quotas/ · kubernetes, pkg/quota/v1/evaluator/core/pods.go
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from msgspec import Struct

from rollouts.cli.kubernetes.parts import entries
from rollouts.cli.kubernetes.requests import (
    Amounts,
    amounts,
    containers_of,
    is_best_effort,
    pod_total,
    resources_of,
    states_resources,
)
from rollouts.objects import Manifest, mapping

COUNT = "count/pods"
"""Counts pods that have ended too, as long as they are not deleted."""

_ONE = Fraction(1)
_NATIVE = ("cpu", "memory", "ephemeral-storage")
_REQUIRED = frozenset(f"{prefix}{name}" for prefix in ("", "requests.", "limits.") for name in ("cpu", "memory"))


class Scope(Struct, frozen=True, kw_only=True):
    """One condition on the pods that a quota counts, such as `BestEffort`, or `PriorityClass` with an operator and values."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


class Quota(Struct, frozen=True, kw_only=True):
    """A ResourceQuota as it is enforced: what its status says, which is empty until its controller has looked at it."""

    name: str
    hard: Amounts
    used: Amounts
    scopes: tuple[Scope, ...] = ()

    @property
    def known(self) -> bool:
        """Whether its status tells what is used."""
        return bool(self.hard)


def quota_of(manifest: Manifest) -> Quota:
    """A ResourceQuota as it was read."""
    spec, status = mapping(manifest.get("spec")), mapping(manifest.get("status"))
    plain = tuple(Scope(name=str(scope)) for scope in spec.get("scopes") or ())
    selected = tuple(
        Scope(
            name=str(expression.get("scopeName")),
            operator=str(expression.get("operator")),
            values=tuple(map(str, expression.get("values") or ())),
        )
        for _, expression in entries(mapping(spec.get("scopeSelector")).get("matchExpressions"))
    )
    name, hard, used = mapping(manifest.get("metadata")).get("name"), status.get("hard"), status.get("used")
    return Quota(name=str(name), hard=amounts(hard), used=amounts(used), scopes=plain + selected)


def charge(pod: Mapping[str, Any]) -> Amounts:
    """What one pod with this spec counts in a quota, by the quota's names of resources."""
    counted = {"pods": _ONE, COUNT: _ONE}
    for name, amount in pod_total(pod, "requests").items():
        if name in _NATIVE or name.startswith("hugepages-"):
            counted[name] = amount
        counted[f"requests.{name}"] = amount
    counted |= {f"limits.{name}": amount for name, amount in pod_total(pod, "limits").items() if name in _NATIVE}
    return counted


def counts(quota: Quota, pod: Mapping[str, Any]) -> bool | None:
    """Whether a quota counts pods with this spec; None where that depends on something that the spec does not tell.

    Its `priorityClassName` is missing where it is not known, and "" for none.
    """
    found = [_matches(scope, pod) for scope in quota.scopes]
    if False in found:
        return False
    return None if None in found else True


def missing_amounts(quota: Quota, pod: Mapping[str, Any]) -> Iterator[str]:
    """What each container must state and does not, because the quota counts it: `container app has no requests.cpu`."""
    if states_resources(pod):
        return
    for name in sorted(_REQUIRED & quota.hard.keys()):
        side, _, resource = name.rpartition(".")
        for container in containers_of(pod):
            if resource not in resources_of(container, "limits" if side == "limits" else "requests"):
                yield f"container {container.get('name')} has no {side or 'requests'}.{resource}"


def _matches(scope: Scope, pod: Mapping[str, Any]) -> bool | None:
    match scope.name:
        case "Terminating":
            return pod.get("activeDeadlineSeconds") is not None
        case "NotTerminating":
            return pod.get("activeDeadlineSeconds") is None
        case "BestEffort":
            return is_best_effort(pod)
        case "NotBestEffort":
            return not is_best_effort(pod)
        case "CrossNamespacePodAffinity":
            return any(
                term.get("namespaces") or term.get("namespaceSelector") is not None for term in _affinity_terms(pod)
            )
        case "PriorityClass":
            # Where nothing is said of a name, the cluster may have a class for all pods; "" is known to be none.
            name = pod.get("priorityClassName")
            among = name in scope.values
            known = {"Exists": bool(name), "DoesNotExist": not name, "In": among, "NotIn": not among}
            return None if name is None else known.get(scope.operator)
        case "VolumeAttributesClass":  # not of pods
            return False
        case _:
            return None


def _affinity_terms(pod: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for field in ("podAffinity", "podAntiAffinity"):
        rules = mapping(mapping(pod.get("affinity")).get(field))
        for _, term in entries(rules.get("requiredDuringSchedulingIgnoredDuringExecution")):
            yield term
        for _, weighted in entries(rules.get("preferredDuringSchedulingIgnoredDuringExecution")):
            yield mapping(weighted.get("podAffinityTerm"))
