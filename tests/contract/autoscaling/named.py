"""Situations with a name: each shows one rule of the controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rollouts.objects import Manifest
from tests.contract.autoscaling.situations import JUST_NOW_S, LONG_AGO_S, Pod, Situation, Stage, Usage
from tests.contract.conversation import WIDGET

LONG_S = 1800
AT_ONCE: Manifest = {"scaleDown": {"stabilizationWindowSeconds": 0}}
TWO_AN_HOUR = [{"type": "Pods", "value": 2, "periodSeconds": LONG_S}]
READY = Pod()
PENDING = Pod(phase="Pending", ready="False", age_s=None)
STARTING = Pod(age_s=JUST_NOW_S, ready="False", ready_age_s=JUST_NOW_S)
FAILED = Pod(phase="Failed", ready="False")


def by_cpu(percent: int = 50, *, least: int = 1, most: int = 20, **spec: Any) -> Manifest:
    target = {"type": "Utilization", "averageUtilization": percent}
    metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    return {"minReplicas": least, "maxReplicas": most, "metrics": metrics, **spec}


def by_container(name: str, percent: int = 50, *, resource: str = "cpu", **spec: Any) -> Manifest:
    target = {"type": "Utilization", "averageUtilization": percent}
    metric = {"type": "ContainerResource", "containerResource": {"name": resource, "container": name, "target": target}}
    return {"minReplicas": 1, "maxReplicas": 20, "metrics": [metric], **spec}


def by_average(resource: str, average: str, **spec: Any) -> Manifest:
    target = {"type": "AverageValue", "averageValue": average}
    metric = {"type": "Resource", "resource": {"name": resource, "target": target}}
    return {"minReplicas": 1, "maxReplicas": 20, "metrics": [metric], **spec}


def cpu(text: str, **options: Any) -> Usage:
    """What a pod with one container uses."""
    return Usage(containers={"app": {"cpu": text, "memory": "32Mi"}}, **options)


def situation(
    name: str,
    spec: Manifest,
    *usage: tuple[Usage | None, ...] | int,
    pods: tuple[Pod, ...] | None = None,
    replicas: int | None = None,
    **options: Any,
) -> Situation:
    """A situation whose stages differ in what the pods use."""
    first = usage[0]
    given = pods if pods is not None else (READY,) * (len(first) if isinstance(first, tuple) else 2)
    stages = tuple(Stage(usage=each) for each in usage)
    size = len(given) if replicas is None else replicas
    return Situation(name=name, spec=spec, replicas=size, pods=given, stages=stages, **options)


def _wait(direction: str) -> Manifest:
    return {direction: {"stabilizationWindowSeconds": 6}}


def _sizes() -> list[Situation]:
    busy, idle = (cpu("100m"),) * 3, (cpu("10m"),) * 3
    slow_up: Manifest = {"scaleUp": {"policies": TWO_AN_HOUR}}
    slow_down: Manifest = {"scaleDown": {"policies": TWO_AN_HOUR, "stabilizationWindowSeconds": 0}}
    return [
        situation("pair", by_cpu(), busy, only_the_end=True, loose=True),
        situation("pair-too", by_cpu(), busy, pods=(), replicas=2, selector="app=pair", only_the_end=True, loose=True),
        situation("grows", by_cpu(), busy),
        situation("shrinks-at-once", by_cpu(behavior=AT_ONCE), idle),
        situation("shrinks-after-a-while", by_cpu(behavior=_wait("scaleDown")), idle, only_the_end=True),
        situation("keeps-what-was-recommended", by_cpu(), idle),
        situation("within-the-tolerance-above", by_cpu(), (cpu("54m"),) * 3),
        situation("within-the-tolerance-below", by_cpu(behavior=AT_ONCE), (cpu("46m"),) * 3),
        situation("at-the-edge-of-the-tolerance", by_cpu(), (cpu("55m"),) * 4),
        situation("just-above-the-tolerance", by_cpu(), (cpu("56m"),) * 4),
        situation("just-below-the-tolerance", by_cpu(behavior=AT_ONCE), (cpu("44m"),) * 10),
        situation("tolerance-of-its-own", by_cpu(behavior={"scaleUp": {"tolerance": "0.5"}}), (cpu("70m"),) * 3),
        situation("no-tolerance", by_cpu(behavior={"scaleUp": {"tolerance": "0"}}), (cpu("52m"),) * 3),
        situation("tolerance-down", by_cpu(behavior={"scaleDown": {"tolerance": "0.5", "stabilizationWindowSeconds": 0}}),
                  (cpu("30m"),) * 3),
        situation("at-its-maximum", by_cpu(most=3), busy),
        situation("beyond-its-maximum-soon", by_cpu(most=4), busy),
        situation("at-its-minimum", by_cpu(least=3, behavior=AT_ONCE), idle),
        situation("above-its-maximum", by_cpu(most=2), busy),
        situation("below-its-minimum", by_cpu(least=5), busy),
        situation("at-zero", by_cpu(), busy, replicas=0),
        situation("back-from-zero", by_cpu(), busy, replicas=0),
        situation("doubles-at-once-without-behavior", by_cpu(10), (cpu("100m"),) * 2),
        situation("four-at-once-without-behavior", by_cpu(10), (cpu("100m"),)),
        situation("two-an-hour", by_cpu(10, behavior=slow_up), busy),
        situation("two-fewer-an-hour", by_cpu(behavior=slow_down), (cpu("1m"),) * 9),
        situation("two-an-hour-again", by_cpu(10, behavior=slow_up), busy, idle, busy),
        situation("up-and-down-by-policies", by_cpu(10, behavior={**slow_up, **slow_down}), busy, (cpu("1m"),) * 3),
        situation("never-up", by_cpu(behavior={"scaleUp": {"selectPolicy": "Disabled"}}), busy),
        situation("never-down", by_cpu(behavior={"scaleDown": {"selectPolicy": "Disabled"}}), idle),
        situation("waits-before-it-grows", by_cpu(behavior=_wait("scaleUp")), busy, only_the_end=True),
        situation("waits-long-before-it-grows", by_cpu(behavior={"scaleUp": {"stabilizationWindowSeconds": 3600}}), busy),
        situation("waits-long-before-it-shrinks", by_cpu(behavior={"scaleDown": {"stabilizationWindowSeconds": 3600}}), idle),
        situation("grows-and-waits-to-shrink", by_cpu(behavior={"scaleDown": {"stabilizationWindowSeconds": 3600}}), busy, idle),
        situation("every-three-seconds", by_cpu(10, behavior={
            "scaleUp": {"policies": [{"type": "Pods", "value": 3, "periodSeconds": 3}]}}), (cpu("20m"),) * 4, only_the_end=True),
    ]  # fmt: skip


def _policies() -> list[Situation]:
    found = []
    for select in ("Max", "Min", "Disabled"):
        for percent, pods in ((10, 1), (50, 3), (100, 1), (300, 2)):
            policies = [
                {"type": "Percent", "value": percent, "periodSeconds": LONG_S},
                {"type": "Pods", "value": pods, "periodSeconds": LONG_S},
            ]
            rules = {"selectPolicy": select, "policies": policies, "stabilizationWindowSeconds": 0}
            name = f"policies-{select.lower()}-{percent}-{pods}"
            up = by_cpu(10, most=60, behavior={"scaleUp": rules})
            found.append(situation(f"{name}-up", up, (cpu("100m"),) * 5))
            if percent <= 100:
                down = by_cpu(behavior={"scaleDown": rules})
                found.append(situation(f"{name}-down", down, (cpu("1m"),) * 9))
    return found


def _pods() -> list[Situation]:
    now = by_cpu(behavior=AT_ONCE)
    just_ready = Pod(age_s=JUST_NOW_S, ready_age_s=5)
    late = Pod(age_s=LONG_AGO_S, ready="False", ready_age_s=LONG_AGO_S - 10)
    lost = Pod(age_s=LONG_AGO_S, ready="False", ready_age_s=100)
    high, low = cpu("100m"), cpu("5m")
    return [
        situation("one-is-missing-up", now, (high, high, None)),
        situation("one-is-missing-down", now, (low, low, low, None)),
        situation("most-are-missing-up", now, (high, None, None, None)),
        situation("most-are-missing-down", now, (low, None, None, None)),
        situation("missing-turns-the-direction", now, (cpu("60m"), None, None)),
        situation("all-are-missing", now, (None, None)),
        situation("missing-with-a-target-above-100", by_cpu(150, behavior=AT_ONCE), (low, low, None)),
        situation("missing-at-the-target", now, (cpu("50m"), None)),
        situation("pending-up", now, (high, high, None), pods=(READY, READY, PENDING)),
        situation("pending-down", now, (low, low, None), pods=(READY, READY, PENDING)),
        situation("starting-up", now, (high, high, high), pods=(READY, READY, STARTING)),
        situation("starting-down", now, (low, low, high), pods=(READY, READY, STARTING)),
        situation("only-starting", now, (high,), pods=(STARTING,)),
        situation("ready-since-a-moment", now, (high, cpu("100m", age_s=60)), pods=(READY, just_ready)),
        situation("ready-since-a-moment-and-measured", now, (high, cpu("100m", age_s=-60)), pods=(READY, just_ready)),
        situation("never-ready", now, (high, high), pods=(READY, late)),
        situation("no-longer-ready", now, (high, high), pods=(READY, lost)),
        situation("unknown-readiness", now, (high, high), pods=(READY, Pod(ready="Unknown"))),
        situation("no-readiness", now, (high, high), pods=(READY, Pod(ready=None))),
        situation("never-started", now, (high, high), pods=(READY, Pod(age_s=None))),
        situation("one-failed", now, (high, high), pods=(READY, FAILED)),
        situation("one-succeeded", now, (high, high), pods=(READY, Pod(phase="Succeeded", ready="False"))),
        situation("one-is-deleted", now, (high, high, high), pods=(READY, READY, Pod(deleted=True))),
        situation("all-are-deleted", now, (high,), pods=(Pod(deleted=True),)),
        situation("no-pods", now, (), pods=(), replicas=3),
        situation("more-pods-than-asked-for", now, (high,) * 6, replicas=3),
        situation("fewer-pods-than-asked-for", now, (high,) * 2, replicas=6),
        situation("unready-with-memory", by_average("memory", "16Mi"), (high, high), pods=(READY, STARTING)),
    ]  # fmt: skip


def _containers() -> list[Situation]:
    two = Pod(requests={"app": {"cpu": "100m"}, "proxy": {"cpu": "50m"}})
    both = Usage(containers={"app": {"cpu": "150m"}, "proxy": {"cpu": "1m"}})
    only_app = Usage(containers={"app": {"cpu": "150m"}})
    no_cpu = Usage(containers={"app": {"memory": "1Mi"}, "proxy": {"cpu": "1m"}})
    half = Pod(requests={"app": {"cpu": "100m"}, "proxy": {}})
    whole = Pod(requests={"app": {"cpu": "100m"}, "proxy": {}}, pod_requests={"cpu": "400m"})
    return [
        situation("a-container-grows", by_container("app"), (both, both), pods=(two, two)),
        situation("its-sidecar-does-not", by_container("proxy", behavior=AT_ONCE), (both, both), pods=(two, two)),
        situation("both-containers", by_cpu(), (both, both), pods=(two, two)),
        situation("no-such-container", by_container("web"), (both, both), pods=(two, two)),
        situation("container-not-measured", by_container("proxy"), (only_app, both), pods=(two, two)),
        situation("container-never-measured", by_container("proxy"), (only_app,), pods=(two,)),
        situation("pod-with-a-part-of-its-figures", by_cpu(), (no_cpu, both), pods=(two, two)),
        situation("container-without-its-figure", by_container("app"), (no_cpu, both), pods=(two, two)),
        situation("no-request", by_cpu(), (both,), pods=(half,)),
        situation("request-of-the-other-container", by_container("app"), (both,), pods=(half,)),
        situation("request-of-the-pod", by_cpu(), (both,), pods=(whole,)),
        situation("request-of-zero", by_cpu(), (cpu("1"),), pods=(Pod(requests={"app": {"cpu": "0"}}),)),
        situation("no-containers", by_cpu(), (Usage(containers={}), cpu("100m")), pods=(READY, READY)),
        situation("container-memory", by_container("app", 40, resource="memory"), (cpu("1m"),) * 2),
        situation("memory-by-average", by_average("memory", "20Mi"), (cpu("1m"),) * 2),
        situation("memory-that-is-no-whole-number", by_average("memory", "100"), tuple(
            Usage(containers={"app": {"memory": text}}) for text in ("1025", "1536", "999"))),
        situation("cpu-by-average", by_average("cpu", "75m"), (cpu("100m"), cpu("200m"))),
        situation("cpu-by-average-missing-down", by_average("cpu", "1", behavior=AT_ONCE), (cpu("5m"), cpu("5m"), None)),
        situation("cpu-by-average-missing-up", by_average("cpu", "50m"), (cpu("100m"), cpu("100m"), None)),
    ]  # fmt: skip


def _failures() -> list[Situation]:
    busy = (cpu("100m"),) * 2
    two: Manifest = {**by_cpu(), "metrics": [*by_cpu()["metrics"], *by_container("web")["metrics"]]}
    custom: Mapping[str, Manifest] = {
        "pods": {"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "1"}}},
        "external": {"type": "External", "external": {
            "metric": {"name": "queue"}, "target": {"type": "Value", "value": "1"}}},
        "object": {"type": "Object", "object": {
            "metric": {"name": "rps"}, "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "web"},
            "target": {"type": "Value", "value": "1"}}},
    }  # fmt: skip
    unserved = [
        situation(f"unserved-{name}", {"maxReplicas": 5, "metrics": [metric]}, busy, loose=True)
        for name, metric in custom.items()
    ]
    unknown_kind = {"apiVersion": WIDGET.api_version, "kind": "Gadget", "name": "web"}
    return [
        *unserved,
        situation("metrics-not-found", by_cpu(), 404, busy),
        situation("metrics-unavailable", by_cpu(), 503, busy, 503),
        situation("metrics-fail", by_cpu(), 500, busy, loose=True),
        situation("one-of-two-fails-up", two, busy),
        situation("one-of-two-fails-down", {**two, "behavior": AT_ONCE}, (cpu("1m"),) * 2),
        situation("recovers", by_cpu(), (None, None), busy, (None, None)),
        situation("no-such-target", by_cpu(), busy, target={**unknown_kind, "kind": "Widget", "name": "nothing"}),
        situation("no-such-kind", by_cpu(), busy, target=unknown_kind),
        situation("a-kind-without-a-scale", by_cpu(), busy, target={"apiVersion": "batch/v1", "kind": "Job", "name": "a"}),
        situation("no-selector", by_cpu(), busy, selector=""),
        situation("a-selector-that-is-none", by_cpu(), busy, selector="app in", loose=True),
        situation("refused-by-the-target", by_cpu(1, most=300), (cpu("100m"),) * 2),
        situation("refused-when-above", by_cpu(most=150, least=120), busy),
    ]  # fmt: skip


def _changes() -> list[Situation]:
    busy, idle = (cpu("100m"),) * 3, (cpu("10m"),) * 3
    return [
        Situation(name="somebody-scales-to-zero", spec=by_cpu(), replicas=3, pods=(READY,) * 3,
                  stages=(Stage(usage=busy), Stage(usage=busy, replicas=0), Stage(usage=busy, replicas=2))),
        Situation(name="somebody-scales-beyond", spec=by_cpu(), replicas=3, pods=(READY,) * 3,
                  stages=(Stage(usage=busy), Stage(usage=busy, replicas=50))),
        Situation(name="the-maximum-falls", spec=by_cpu(), replicas=3, pods=(READY,) * 3,
                  stages=(Stage(usage=busy), Stage(usage=busy, spec={"maxReplicas": 4}))),
        Situation(name="the-minimum-rises", spec=by_cpu(behavior=AT_ONCE), replicas=3, pods=(READY,) * 3,
                  stages=(Stage(usage=idle), Stage(usage=idle, spec={"minReplicas": 5}))),
        Situation(name="the-target-falls", spec=by_cpu(90), replicas=3, pods=(READY,) * 3,
                  stages=(Stage(usage=busy), Stage(usage=busy, spec=by_cpu(30)))),
        Situation(name="a-behavior-comes", spec=by_cpu(), replicas=3, pods=(READY,) * 3, only_the_end=True,
                  stages=(Stage(usage=busy), Stage(usage=idle, spec={"behavior": AT_ONCE}))),
    ]  # fmt: skip


NAMED: tuple[Situation, ...] = (*_sizes(), *_policies(), *_pods(), *_containers(), *_failures(), *_changes())

WITHOUT_THE_API: tuple[Situation, ...] = (
    situation("api-is-absent", by_cpu(), (cpu("100m"),) * 2),
    situation("api-is-absent-for-a-container", by_container("app"), (cpu("100m"),) * 2),
    situation("api-is-absent-at-the-maximum", by_cpu(most=1), (cpu("100m"),) * 2),
)
"""What autoscalers say in a cluster without a metrics API."""
