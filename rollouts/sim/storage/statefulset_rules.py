"""Defaults and validation of StatefulSets and of ControllerRevisions.

`spec.updateStrategy.rollingUpdate.maxUnavailable` is dropped: the feature gate MaxUnavailableStatefulSet is off by default.
Source: k8s.io/kubernetes pkg/apis/apps/{v1/defaults.go,validation/validation.go} and
pkg/registry/apps/statefulset/strategy.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from rollouts.objects import Manifest
from rollouts.sim.storage import claim_rules
from rollouts.sim.storage.builtin_rules import never_negative, workload_defaults, workload_problems
from rollouts.sim.storage.refusals import (
    Cause,
    compact_json,
    value_forbidden,
    value_invalid,
    value_not_supported,
    value_required,
)

FIRST_STATUS: Manifest = {"replicas": 0, "availableReplicas": 0}
ROLLING_UPDATE, ON_DELETE = "RollingUpdate", "OnDelete"
ORDERED_READY, PARALLEL = "OrderedReady", "Parallel"
RETAIN, DELETE = "Retain", "Delete"
_MUTABLE = ("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy", "minReadySeconds")  # fmt: skip
_FIXED = (
    "updates to statefulset spec for fields other than "
    + ", ".join(f"'{name}'" for name in _MUTABLE[:-1])
    + f" and '{_MUTABLE[-1]}' are forbidden"
)


def with_defaults(stateful_set: Manifest) -> Manifest:
    """A StatefulSet with the server's defaults. A `RollingUpdate` that is named without `rollingUpdate` gets none."""
    stateful_set = workload_defaults(stateful_set)
    spec = stateful_set["spec"]
    strategy = dict(spec.get("updateStrategy") or {})
    if not strategy.get("type"):
        strategy = {"type": ROLLING_UPDATE, "rollingUpdate": {}, **strategy}
    if strategy["type"] == ROLLING_UPDATE and strategy.get("rollingUpdate") is not None:
        given = {name: value for name, value in strategy["rollingUpdate"].items() if name != "maxUnavailable"}
        strategy["rollingUpdate"] = {"partition": 0, **given}
    retention = {
        "whenDeleted": RETAIN,
        "whenScaled": RETAIN,
        **(spec.get("persistentVolumeClaimRetentionPolicy") or {}),
    }
    filled = {"podManagementPolicy": ORDERED_READY, "revisionHistoryLimit": 10, **spec}
    filled |= {"updateStrategy": strategy, "persistentVolumeClaimRetentionPolicy": retention}
    if spec.get("volumeClaimTemplates"):
        head = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        filled["volumeClaimTemplates"] = [
            claim_rules.with_defaults({**head, "status": claim_rules.FIRST_STATUS, **claim})
            for claim in spec["volumeClaimTemplates"]
        ]
    return stateful_set if filled == spec else {**stateful_set, "spec": filled}


def problems(new: Manifest, old: Manifest | None) -> Iterator[Cause]:
    """The problems of a StatefulSet, including changed fields that are immutable."""
    spec = new["spec"]
    yield from workload_problems(new, None)
    yield from _strategy_problems(spec["updateStrategy"])
    if (policy := spec["podManagementPolicy"]) not in (ORDERED_READY, PARALLEL):
        rule = f"must be '{ORDERED_READY}' or '{PARALLEL}'"
        yield value_invalid("spec.podManagementPolicy", json.dumps(policy), rule)
    for when, what in spec["persistentVolumeClaimRetentionPolicy"].items():
        if what not in (RETAIN, DELETE):
            path = f"spec.persistentVolumeClaimRetentionPolicy.{when}"
            yield value_not_supported(path, what, (RETAIN, DELETE))
    yield from never_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    yield from never_negative((spec.get("ordinals") or {}).get("start"), "spec.ordinals.start")
    yield from restart_policy_problems(spec)
    if old is None:
        for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
            yield from claim_rules.spec_problems(claim["spec"], f"spec.volumeClaimTemplates[{index}].spec")
    elif any(spec.get(name) != old["spec"].get(name) for name in (spec.keys() | old["spec"].keys()) - set(_MUTABLE)):
        yield value_forbidden("spec", _FIXED)


def restart_policy_problems(spec: Manifest) -> Iterator[Cause]:
    """The problem of pods that may end, which neither a StatefulSet nor a DaemonSet has."""
    policy = spec["template"]["spec"]["restartPolicy"]
    if policy != "Always":
        yield value_not_supported("spec.template.spec.restartPolicy", policy, ("Always",))


def _strategy_problems(strategy: Manifest) -> Iterator[Cause]:
    kind, rolling = strategy["type"], strategy.get("rollingUpdate")
    path = "spec.updateStrategy"
    if kind not in (ROLLING_UPDATE, ON_DELETE):
        yield value_invalid(path, compact_json(strategy), f"must be '{ROLLING_UPDATE}' or '{ON_DELETE}'")
    elif kind == ON_DELETE and rolling is not None:
        rule = f"only allowed for updateStrategy '{ROLLING_UPDATE}'"
        yield value_invalid(f"{path}.rollingUpdate", compact_json(rolling), rule)
    elif rolling is not None:
        yield from never_negative(rolling["partition"], f"{path}.rollingUpdate.partition")


def revision_problems(new: Manifest, old: Manifest | None) -> Iterator[Cause]:
    """The problems of a ControllerRevision, including changed data."""
    data = new.get("data")
    if not isinstance(data, dict):
        yield value_required("data", "data is mandatory" if data is None else "data must be a valid JSON object")
    yield from never_negative(new.get("revision"), "revision")
    if old is not None and data != old.get("data"):
        yield value_invalid("data", compact_json(data), "field is immutable")
