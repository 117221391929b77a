"""Defaults and validation of HorizontalPodAutoscalers (autoscaling/v2).

Source: k8s.io/kubernetes pkg/apis/autoscaling/{v2/defaults.go,validation/validation.go}, Kubernetes 1.36.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rollouts.objects import Manifest
from rollouts.sim.storage.quantities import amount
from rollouts.sim.storage.refusals import Cause, value_invalid, value_not_supported, value_required

FIRST_STATUS: Manifest = {"desiredReplicas": 0, "currentMetrics": None}
_UTILIZATION_PERCENT = 80
_MOST_WINDOW_S, _MOST_PERIOD_S = 3600, 1800
_SOURCES = ("ContainerResource", "External", "Object", "Pods", "Resource")
_SELECTS = ("Disabled", "Max", "Min")
_POLICIES = ("Percent", "Pods")
_UP = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_DOWN = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}


def with_defaults(autoscaler: Manifest) -> Manifest:
    """A HorizontalPodAutoscaler with the server's defaults."""
    spec = autoscaler.get("spec") or {}
    target = {"type": "Utilization", "averageUtilization": _UTILIZATION_PERCENT}
    filled = {
        "minReplicas": 1,
        **spec,
        "metrics": spec.get("metrics") or [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    }
    if isinstance(spec.get("behavior"), dict):
        behavior = spec["behavior"]
        filled["behavior"] = {
            "scaleUp": {**_UP, **(behavior.get("scaleUp") or {})},
            "scaleDown": {**_DOWN, **(behavior.get("scaleDown") or {})},
        }
    return autoscaler if filled == spec else {**autoscaler, "spec": filled}


def problems(new: Manifest, _old: Manifest | None) -> Iterator[Cause]:
    """The problems of a HorizontalPodAutoscaler."""
    spec = new["spec"]
    least, most = spec["minReplicas"], spec.get("maxReplicas", 0)
    if least < 1:
        yield _wrong("spec.minReplicas", least, "must be greater than or equal to 1")
    if most == 0:
        yield value_required("spec.maxReplicas", "must be set and greater than 0")
    elif most < 0:
        yield _wrong("spec.maxReplicas", most, "must be greater than or equal to 1")
    if most < least:
        yield _wrong("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    for name in ("kind", "name"):
        if not (spec.get("scaleTargetRef") or {}).get(name):
            yield value_required(f"spec.scaleTargetRef.{name}")
    api_version = (spec.get("scaleTargetRef") or {}).get("apiVersion", "")
    if "/" not in api_version:
        yield _wrong("spec.scaleTargetRef.apiVersion", api_version, "apiVersion must specify API group")
    for index, metric in enumerate(spec["metrics"]):
        yield from _metric_problems(metric, f"spec.metrics[{index}]")
    if least == 0 and not any(metric.get("type") in ("Object", "External") for metric in spec["metrics"]):
        message = "Forbidden: must specify at least one Object or External metric to support scaling to zero replicas"
        yield Cause("spec.metrics", "FieldValueForbidden", message)
    for name, rules in (spec.get("behavior") or {}).items():
        yield from _rule_problems(rules, f"spec.behavior.{name}")


def _metric_problems(metric: Manifest, path: str) -> Iterator[Cause]:
    source = metric.get("type", "")
    if source not in _SOURCES:
        yield value_not_supported(f"{path}.type", source, _SOURCES)
        return
    name = source[0].lower() + source[1:]
    given = metric.get(name)
    if given is None:
        yield value_required(f"{path}.{name}", "must populate information for the given metric source")
        return
    here = f"{path}.{name}"
    if source == "ContainerResource" and not given.get("container"):
        yield value_required(f"{here}.container", "must specify a container")
    yield from _target_problems(given.get("target") or {}, f"{here}.target", by_request="Resource" in source)


def _target_problems(target: Manifest, path: str, *, by_request: bool) -> Iterator[Cause]:
    for name in ("value", "averageValue"):
        if name in target and amount(target[name]) <= 0:
            yield _wrong(f"{path}.{name}", target[name], "must be positive")
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        yield _wrong(f"{path}.averageUtilization", utilization, "must be greater than 0")
    if not by_request:
        return
    if utilization is None and "averageValue" not in target:
        message = "must set either a target raw value or a target utilization"
        yield value_required(f"{path}.averageUtilization", message)
    if utilization is not None and "averageValue" in target:
        message = "Forbidden: may not set both a target raw value and a target utilization"
        yield Cause(f"{path}.averageValue", "FieldValueForbidden", message)


def _rule_problems(rules: Mapping[str, Any], path: str) -> Iterator[Cause]:
    window_s = rules.get("stabilizationWindowSeconds", 0)
    if window_s < 0:
        yield _wrong(f"{path}.stabilizationWindowSeconds", window_s, "must be greater than or equal to zero")
    if window_s > _MOST_WINDOW_S:
        yield _wrong(f"{path}.stabilizationWindowSeconds", window_s, f"must be less than or equal to {_MOST_WINDOW_S}")
    if rules["selectPolicy"] not in _SELECTS:
        yield value_not_supported(f"{path}.selectPolicy", rules["selectPolicy"], _SELECTS)
    if not rules["policies"]:
        yield value_required(f"{path}.policies", "must specify at least one Policy")
    for index, policy in enumerate(rules["policies"]):
        here = f"{path}.policies[{index}]"
        if policy.get("type") not in _POLICIES:
            yield value_not_supported(f"{here}.type", policy.get("type", ""), _POLICIES)
        for name in ("value", "periodSeconds"):
            if policy.get(name, 0) <= 0:
                yield _wrong(f"{here}.{name}", policy.get(name, 0), "must be greater than zero")
        if policy.get("periodSeconds", 0) > _MOST_PERIOD_S:
            message = f"must be less than or equal to {_MOST_PERIOD_S}"
            yield _wrong(f"{here}.periodSeconds", policy["periodSeconds"], message)


def _wrong(path: str, value: object, message: str) -> Cause:
    return value_invalid(path, json.dumps(value), message)
