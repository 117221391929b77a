"""What `lint` says of a Rollout and the autoscalers in the same files: two that set one number. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from rollouts.objects import AUTOSCALER, ROLLOUT, Manifest

KEDA_GROUP, SCALED_OBJECT = "keda.sh", "ScaledObject"
"""Source: https://keda.sh/docs/latest/reference/scaledobject-spec/."""


class FileAutoscaler(Struct, frozen=True):
    """An autoscaler in a file whose target is a Rollout.

    Args:
        shown: kind and name: `HorizontalPodAutoscaler web`.
        namespace: None when the file gives none.
        rollout: name of its target.
    """

    shown: str
    namespace: str | None
    rollout: str


FileAutoscalers: TypeAlias = tuple[FileAutoscaler, ...]


def autoscalers_of(documents: Iterable[Any]) -> FileAutoscalers:
    """The autoscalers among the objects of files whose target is a Rollout, in their order."""
    return tuple(found for each in documents if isinstance(each, dict) and (found := _autoscaler(each)) is not None)


def replicas_remarks(rollout: Manifest, autoscalers: FileAutoscalers) -> Iterator[tuple[str, str]]:
    """What to say when a Rollout's file sets the number of pods that an autoscaler sets too."""
    metadata = _mapping(rollout.get("metadata"))
    if "replicas" not in _mapping(rollout.get("spec")):
        return
    for each in autoscalers:
        if (each.namespace, each.rollout) == (metadata.get("namespace"), metadata.get("name")):
            twice = f"{each.shown} sets it too, so each apply of this file takes back what it has scaled"
            fix = "leave it out of the file, or let the tool that applies it ignore the field (docs/autoscaling.md)"
            yield "spec.replicas", f"{twice}; {fix}"


def _autoscaler(document: Manifest) -> FileAutoscaler | None:
    kind, group = document.get("kind"), str(document.get("apiVersion")).partition("/")[0]
    if (group, kind) not in ((AUTOSCALER.group, AUTOSCALER.kind), (KEDA_GROUP, SCALED_OBJECT)):
        return None
    target = _mapping(_mapping(document.get("spec")).get("scaleTargetRef"))
    metadata = _mapping(document.get("metadata"))
    if (target.get("kind"), str(target.get("apiVersion")).partition("/")[0]) != (ROLLOUT.kind, ROLLOUT.group):
        return None
    return FileAutoscaler(f"{kind} {metadata.get('name')}", metadata.get("namespace"), str(target.get("name")))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
