"""What `lint` says of a Rollout and the autoscalers in the same files: two that set one number, pods that count twice. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from rollouts.cli.kubernetes.parts import mapping
from rollouts.core.model.rollout import Canary, Strategy
from rollouts.objects import AUTOSCALER, ROLLOUT, Manifest

KEDA_GROUP, SCALED_OBJECT = "keda.sh", "ScaledObject"
"""Source: https://keda.sh/docs/latest/reference/scaledobject-spec/."""


INSTEAD = "write AverageValue there, or dynamicStableScale: true (docs/autoscaling.md)"


class FileAutoscaler(Struct, frozen=True):
    """An autoscaler in a file whose target is a Rollout.

    Args:
        shown: kind and name: `HorizontalPodAutoscaler web`.
        namespace: None when the file gives none.
        rollout: name of its target.
        by_value: the names of its metrics with a target of type Value.
    """

    shown: str
    namespace: str | None
    rollout: str
    by_value: tuple[str, ...] = ()


FileAutoscalers: TypeAlias = tuple[FileAutoscaler, ...]


def autoscalers_of(documents: Iterable[Any]) -> FileAutoscalers:
    """The autoscalers among the objects of files whose target is a Rollout, in their order."""
    autoscalers = []
    for document in documents:
        if not isinstance(document, dict):
            continue
        kind, group = document.get("kind"), str(document.get("apiVersion")).partition("/")[0]
        spec, metadata = mapping(document.get("spec")), mapping(document.get("metadata"))
        target = mapping(spec.get("scaleTargetRef"))
        target_kind = (target.get("kind"), str(target.get("apiVersion")).partition("/")[0])
        scales = (group, kind) in ((AUTOSCALER.group, AUTOSCALER.kind), (KEDA_GROUP, SCALED_OBJECT))
        if scales and target_kind == (ROLLOUT.kind, ROLLOUT.group):
            shown, rollout = f"{kind} {metadata.get('name')}", str(target.get("name"))
            autoscalers.append(FileAutoscaler(shown, metadata.get("namespace"), rollout, value_metrics(spec)))
    return tuple(autoscalers)


def replicas_remarks(rollout: Manifest, autoscalers: FileAutoscalers) -> Iterator[tuple[str, str]]:
    """What to say when a Rollout's file sets the number of pods that an autoscaler sets too."""
    if "replicas" in mapping(rollout.get("spec")):
        for autoscaler in _autoscalers_of_rollout(rollout, autoscalers):
            twice = f"{autoscaler.shown} sets it too, so each apply of this file takes back what it has scaled"
            fix = "leave it out of the file, or let the tool that applies it ignore the field (docs/autoscaling.md)"
            yield "spec.replicas", f"{twice}; {fix}"


def value_remarks(rollout: Manifest, strategy: Strategy, autoscalers: FileAutoscalers) -> Iterator[tuple[str, str]]:
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


def _autoscalers_of_rollout(rollout: Manifest, autoscalers: FileAutoscalers) -> Iterator[FileAutoscaler]:
    metadata = mapping(rollout.get("metadata"))
    for autoscaler in autoscalers:
        if (autoscaler.namespace, autoscaler.rollout) == (metadata.get("namespace"), metadata.get("name")):
            yield autoscaler


def value_metrics(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the metrics of an HPA, and of the triggers of a ScaledObject, with a target of type Value."""
    sources = [mapping(metric.get("object") or metric.get("external")) for metric in _items(spec.get("metrics"))]
    by_value = [source for source in sources if mapping(source.get("target")).get("type") == "Value"]
    triggers = [trigger for trigger in _items(spec.get("triggers")) if trigger.get("metricType") == "Value"]
    names = [mapping(each.get("metric")).get("name") for each in by_value]
    return tuple(map(str, [*names, *(trigger.get("name") or trigger.get("type") for trigger in triggers)]))


def _items(value: Any) -> list[Mapping[str, Any]]:
    return [mapping(each) for each in value] if isinstance(value, list) else []
