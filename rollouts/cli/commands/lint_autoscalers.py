"""What `lint` says of a Rollout and the autoscalers in the same files: two that set one number, pods that count twice. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from rollouts.cli.kubernetes.parts import entries, namespace_of
from rollouts.cli.kubernetes.schema import Problem
from rollouts.core.model.rollout import Canary, Strategy
from rollouts.core.model.workload_ref import WorkloadKind, WorkloadMode
from rollouts.objects import AUTOSCALER, ROLLOUT, Manifest, mapping

_SCALERS = ((AUTOSCALER.group, AUTOSCALER.kind), ("keda.sh", "ScaledObject"))
"""Source: https://keda.sh/docs/latest/reference/scaledobject-spec/."""
INSTEAD = "write AverageValue there, or dynamicStableScale: true"


class FileAutoscaler(Struct, frozen=True):
    """An autoscaler in a file whose target is a Rollout, with the names of its metrics that have a target of type Value."""

    shown: str
    namespace: str | None
    rollout: str
    by_value: tuple[str, ...] = ()


FileAutoscalers: TypeAlias = tuple[FileAutoscaler, ...]


def autoscalers_of(manifests: Iterable[Manifest]) -> FileAutoscalers:
    """The autoscalers among the objects of files whose target is a Rollout, in their order."""
    autoscalers = []
    for manifest in manifests:
        spec, metadata = mapping(manifest.get("spec")), mapping(manifest.get("metadata"))
        target = mapping(spec.get("scaleTargetRef"))
        group_kinds = [
            (str(thing.get("apiVersion")).partition("/")[0], thing.get("kind")) for thing in (manifest, target)
        ]
        if group_kinds[0] in _SCALERS and group_kinds[1] == (ROLLOUT.group, ROLLOUT.kind):
            shown, rollout = f"{manifest['kind']} {metadata.get('name')}", str(target.get("name"))
            autoscalers.append(FileAutoscaler(shown, namespace_of(manifest), rollout, value_metrics(spec)))
    return tuple(autoscalers)


def autoscaler_problems(autoscaler: Manifest, rollouts: Mapping[str, Manifest]) -> Iterator[Problem]:
    """What keeps an autoscaler from scaling the Rollout of its namespace that it is about."""
    target = mapping(mapping(autoscaler.get("spec")).get("scaleTargetRef"))
    name, wanted = target.get("name"), ROLLOUT.api_version
    if not isinstance(name, str) or name not in rollouts:
        return
    reference = mapping(mapping(rollouts[name].get("spec")).get("workloadRef"))
    in_place = (reference["kind"], reference["name"]) if reference.get("mode") == WorkloadMode.IN_PLACE.value else None
    if in_place is not None:
        workload, fix = " ".join(in_place), f"write kind: {in_place[0]}, name: {in_place[1]}"
        if in_place[0] == WorkloadKind.DAEMON_SET:
            fix = "remove it: nodes decide how many pods that has"
        if target.get("kind") == ROLLOUT.kind:
            yield "spec.scaleTargetRef.kind", f"scales Rollout {name}, whose pods are those of {workload}; {fix}"
    elif target.get("kind") != ROLLOUT.kind:
        fix = f"write kind: Rollout, apiVersion: {wanted}"
        yield "spec.scaleTargetRef.kind", f"scales {target.get('kind')} {name}, not the Rollout of that name; {fix}"
    elif target.get("apiVersion") != wanted:
        yield "spec.scaleTargetRef.apiVersion", f"must be {wanted}, not {target.get('apiVersion')}"


def replicas_remarks(rollout: Manifest, autoscalers: FileAutoscalers) -> Iterator[Problem]:
    """What to say when a Rollout's file sets the number of pods that an autoscaler sets too."""
    if "replicas" in mapping(rollout.get("spec")):
        for autoscaler in _autoscalers_of_rollout(rollout, autoscalers):
            twice = f"{autoscaler.shown} sets it too, so each apply of this file takes back what it has scaled"
            fix = "leave it out of the file, or let the tool that applies it ignore the field (`rollouts gitops` prints how)"
            yield "spec.replicas", f"{twice}; {fix}"


def value_remarks(rollout: Manifest, strategy: Strategy, autoscalers: FileAutoscalers) -> Iterator[Problem]:
    """What to say when an autoscaler multiplies one value by all pods, and the canary's come on top of `replicas`."""
    if adds_pods(strategy):
        for autoscaler in _autoscalers_of_rollout(rollout, autoscalers):
            if autoscaler.by_value:
                yield "spec.strategy.canary.trafficRouting", multiplies_words(autoscaler.shown, autoscaler.by_value)


def adds_pods(strategy: Strategy) -> bool:
    """Whether the pods of a new revision come on top of `replicas` and serve beside them."""
    routing = strategy.traffic_routing if isinstance(strategy, Canary) else None
    return routing is not None and not routing.dynamic_stable_scale


def multiplies_words(autoscaler: str, metrics: tuple[str, ...]) -> str:
    """What an autoscaler with such metrics does during an update, and what to write."""
    named = f"{autoscaler} scales by the Value of {', '.join(metrics)}, which it multiplies by all ready pods"
    return (
        f"{named}; with those of a canary, and of an old revision until they go, it grows without more load; {INSTEAD}"
    )


def _autoscalers_of_rollout(rollout: Manifest, autoscalers: FileAutoscalers) -> list[FileAutoscaler]:
    key = (namespace_of(rollout), mapping(rollout.get("metadata")).get("name"))
    return [autoscaler for autoscaler in autoscalers if (autoscaler.namespace, autoscaler.rollout) == key]


def value_metrics(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the metrics of an HPA, and of the triggers of a ScaledObject, with a target of type Value."""
    sources = [mapping(metric.get("object") or metric.get("external")) for _, metric in entries(spec.get("metrics"))]
    by_value = [source for source in sources if mapping(source.get("target")).get("type") == "Value"]
    triggers = [trigger for _, trigger in entries(spec.get("triggers")) if trigger.get("metricType") == "Value"]
    names = [mapping(source.get("metric")).get("name") for source in by_value]
    return tuple(map(str, [*names, *(trigger.get("name") or trigger.get("type") for trigger in triggers)]))
