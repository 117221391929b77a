"""HorizontalPodAutoscalers (autoscaling/v2) as the policy sees them.

Sources: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/horizontal-pod-autoscaler-v2/ · the controller
(kubernetes, pkg/controller/podautoscaler/horizontal.go)
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from rollouts.core.model.autoscaling import AutoscalerSeen, ScalingCondition
from rollouts.metrics.kubernetes_values import ListedCondition, ListedPage, ListedPart, decoded, time_s
from rollouts.objects import NAME_MAX

KIND_MAX = 63  # characters of a kind. Source: apiextensions, validation of `spec.names`
STABILIZATION_UP_S, STABILIZATION_DOWN_S = 0, 300
"""Without a window in `spec.behavior`. The second is the default of --horizontal-pod-autoscaler-downscale-stabilization."""


class ListedAutoscaler(Struct, frozen=True, kw_only=True):
    """An autoscaler, and what it scales."""

    seen: AutoscalerSeen
    target_group: str
    target_kind: str
    target_name: str


def listed_autoscalers(body: bytes) -> tuple[tuple[ListedAutoscaler, ...], str]:
    """Autoscalers in a page of a list, and the token of the next page, "" for none. Raises: ValueError when it is no list."""
    page = decoded(_LIST, body)
    listed = [
        ListedAutoscaler(
            seen=_seen(wire),
            target_group=wire.spec.scale_target_ref.api_version.rpartition("/")[0],
            target_kind=wire.spec.scale_target_ref.kind,
            target_name=wire.spec.scale_target_ref.name,
        )
        for wire in page.items or ()
    ]
    return tuple(listed), page.metadata.continue_


class _Reference(ListedPart, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    controller: bool = False


class _Metadata(ListedPart, frozen=True):
    name: str = ""
    generation: int = 0
    owner_references: tuple[_Reference, ...] | None = None


class _ScalingRules(ListedPart, frozen=True):
    stabilization_window_seconds: int | None = None


class _Behavior(ListedPart, frozen=True):
    scale_up: _ScalingRules | None = None
    scale_down: _ScalingRules | None = None


class _MetricTarget(ListedPart, frozen=True):
    type: str = ""


class _MetricSource(ListedPart, frozen=True):
    metric: _Reference = _Reference()
    target: _MetricTarget = _MetricTarget()


class _Metric(ListedPart, frozen=True):
    object: _MetricSource | None = None
    external: _MetricSource | None = None


class _Spec(ListedPart, frozen=True):
    scale_target_ref: _Reference = _Reference()
    min_replicas: int | None = None
    max_replicas: int = 0
    metrics: tuple[_Metric, ...] | None = None
    behavior: _Behavior | None = None


class _Status(ListedPart, frozen=True):
    observed_generation: int | None = None
    current_replicas: int = 0
    desired_replicas: int = 0
    last_scale_time: str | None = None
    conditions: tuple[ListedCondition, ...] | None = None


class _Autoscaler(ListedPart, frozen=True):
    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()
    status: _Status = _Status()


_LIST = msgspec.json.Decoder(ListedPage[_Autoscaler])
_TRUTHS = {"True": True, "False": False}


def _seen(wire: _Autoscaler) -> AutoscalerSeen:
    """An API server that keeps no generation of autoscalers has 0: then any status is about the present spec."""
    spec, status, metadata = wire.spec, wire.status, wire.metadata
    # The controller writes a condition with its first look; counts of 0 are there before.
    looked = bool(status.conditions)
    conditions = {
        condition.type: ScalingCondition(_TRUTHS.get(condition.status), condition.reason, condition.message)
        for condition in status.conditions or ()
    }
    behavior = spec.behavior or _Behavior()
    sources = (metric.object or metric.external for metric in spec.metrics or ())
    # The API server bounds neither kind nor name in an ownerReference.
    owners = (
        f"{owner.kind[:KIND_MAX]} {owner.name[:NAME_MAX]}"
        for owner in metadata.owner_references or ()
        if owner.controller
    )
    return AutoscalerSeen(
        name=metadata.name,
        min_replicas=1 if spec.min_replicas is None else spec.min_replicas,
        max_replicas=spec.max_replicas,
        current=status.current_replicas if looked else None,
        desired=status.desired_replicas if looked else None,
        # Kubernetes' own controller never writes it (horizontal.go, setStatus); another one may.
        observed=looked and (status.observed_generation is None or status.observed_generation >= metadata.generation),
        scaling_active=conditions.get("ScalingActive", ScalingCondition()),
        able_to_scale=conditions.get("AbleToScale", ScalingCondition()),
        scaling_limited=conditions.get("ScalingLimited", ScalingCondition()),
        last_scale_at_s=time_s(status.last_scale_time),
        stabilization_up_s=_window_s(behavior.scale_up, STABILIZATION_UP_S),
        stabilization_down_s=_window_s(behavior.scale_down, STABILIZATION_DOWN_S),
        owner=next(owners, ""),
        by_value=tuple(
            source.metric.name for source in sources if source is not None and source.target.type == "Value"
        ),
    )


def _window_s(rules: _ScalingRules | None, default_s: int) -> int:
    seconds = None if rules is None else rules.stabilization_window_seconds
    return default_s if seconds is None else seconds
