"""Defaults and validation of DaemonSets. The annotation with the generation of the template, which is deprecated, is not kept.

Source: k8s.io/kubernetes pkg/apis/apps/{v1/defaults.go,validation/validation.go}.
"""

from __future__ import annotations

from collections.abc import Iterator

from rollouts.objects import Manifest
from rollouts.sim.storage.builtin_rules import (
    more_than_all,
    never_negative,
    pod_defaults,
    share_number,
    share_problems,
    workload_problems,
)
from rollouts.sim.storage.refusals import Cause, compact_json, value_invalid, value_not_supported, value_required
from rollouts.sim.storage.statefulset_rules import ON_DELETE, ROLLING_UPDATE, restart_policy_problems

FIRST_STATUS: Manifest = {
    "currentNumberScheduled": 0,
    "desiredNumberScheduled": 0,
    "numberMisscheduled": 0,
    "numberReady": 0,
}


def with_defaults(daemon_set: Manifest) -> Manifest:
    """A DaemonSet with the server's defaults."""
    spec = daemon_set.get("spec") or {}
    strategy = {"type": ROLLING_UPDATE, **(spec.get("updateStrategy") or {})}
    if strategy["type"] == ROLLING_UPDATE:
        strategy["rollingUpdate"] = {"maxSurge": 0, "maxUnavailable": 1, **(strategy.get("rollingUpdate") or {})}
    filled = {"revisionHistoryLimit": 10, **spec, "updateStrategy": strategy}
    filled["template"] = pod_defaults(spec.get("template") or {})
    return daemon_set if filled == spec else {**daemon_set, "spec": filled}


def problems(new: Manifest, old: Manifest | None) -> Iterator[Cause]:
    """The problems of a DaemonSet, including a changed selector."""
    spec = new["spec"]
    yield from workload_problems(new, old)
    yield from restart_policy_problems(spec)
    yield from never_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    strategy = spec["updateStrategy"]
    if strategy["type"] not in (ROLLING_UPDATE, ON_DELETE):
        yield value_not_supported("spec.updateStrategy", strategy, (ROLLING_UPDATE, ON_DELETE))
    elif strategy["type"] == ROLLING_UPDATE:
        surge, unavailable = (strategy["rollingUpdate"][name] for name in ("maxSurge", "maxUnavailable"))
        path = "spec.updateStrategy.rollingUpdate"
        for name, share in (("maxUnavailable", unavailable), ("maxSurge", surge)):
            yield from share_problems(share, f"{path}.{name}")
            yield from more_than_all(share, f"{path}.{name}")
        if share_number(surge) and share_number(unavailable):
            rule = "may not be set when maxUnavailable is non-zero"
            yield value_invalid(f"{path}.maxSurge", compact_json(surge), rule)
        elif share_number(surge) == 0 == share_number(unavailable):
            yield value_required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")
