"""Defaults and validation of Deployments: what they add to those of a ReplicaSet.

Source: k8s.io/kubernetes pkg/apis/apps/{v1/defaults.go,validation/validation.go} and pkg/registry/apps/deployment/strategy.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from rollouts.objects import Manifest
from rollouts.sim.storage.builtin_rules import (
    more_than_all,
    never_negative,
    share_number,
    share_problems,
    workload_defaults,
    workload_problems,
)
from rollouts.sim.storage.refusals import Cause, value_invalid, value_not_supported

ROLLING_UPDATE, RECREATE = "RollingUpdate", "Recreate"
_NEVER_NEGATIVE = ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")


def with_defaults(deployment: Manifest) -> Manifest:
    """A Deployment with the server's defaults."""
    deployment = workload_defaults(deployment)
    spec = deployment["spec"]
    strategy = {"type": ROLLING_UPDATE, **(spec.get("strategy") or {})}
    if strategy["type"] == ROLLING_UPDATE:
        limits = {"maxSurge": "25%", "maxUnavailable": "25%", **(strategy.get("rollingUpdate") or {})}
        strategy["rollingUpdate"] = limits
    filled = {"progressDeadlineSeconds": 600, "revisionHistoryLimit": 10, **spec}
    if strategy != spec.get("strategy"):
        filled["strategy"] = strategy
    return deployment if filled == spec else {**deployment, "spec": filled}


def problems(new: Manifest, old: Manifest | None) -> Iterator[Cause]:
    """The problems of a Deployment, including a changed selector."""
    yield from workload_problems(new, old)
    spec = new["spec"]
    yield from _strategy_problems(spec["strategy"])
    for name in _NEVER_NEGATIVE:
        yield from never_negative(spec.get(name), f"spec.{name}")
    deadline_s = spec["progressDeadlineSeconds"]
    if deadline_s <= spec.get("minReadySeconds", 0):
        yield value_invalid("spec.progressDeadlineSeconds", f"{deadline_s}", "must be greater than minReadySeconds")


def _strategy_problems(strategy: Manifest) -> Iterator[Cause]:
    path = "spec.strategy.rollingUpdate"
    if strategy["type"] == RECREATE:
        if strategy.get("rollingUpdate") is not None:
            message = "Forbidden: may not be specified when strategy `type` is 'Recreate'"
            yield Cause(path, "FieldValueForbidden", message)
        return
    if strategy["type"] != ROLLING_UPDATE:
        yield value_not_supported("spec.strategy", strategy, (RECREATE, ROLLING_UPDATE))
        return
    limits = strategy["rollingUpdate"]
    unavailable, surge = limits["maxUnavailable"], limits["maxSurge"]
    yield from share_problems(unavailable, f"{path}.maxUnavailable")
    yield from share_problems(surge, f"{path}.maxSurge")
    if share_number(unavailable) == 0 == share_number(surge):
        rule = "may not be 0 when `maxSurge` is 0"
        yield value_invalid(f"{path}.maxUnavailable", json.dumps(unavailable), rule)
    yield from more_than_all(unavailable, f"{path}.maxUnavailable")
