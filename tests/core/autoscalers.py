"""The autoscalers and the containers of the model world of `model.py`: what there is, and what was last read of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from rollouts.core.model.autoscaling import (
    AutoscalerSeen,
    AutoscalingGate,
    AutoscalingSeen,
    ContainerUse,
    ScalingCondition,
)

YES = ScalingCondition(status=True)
LIMITED = ScalingCondition(status=True, reason="TooManyReplicas")
FORBIDDEN = "horizontalpodautoscalers cannot be read: the controller may not list them"
NO_METRICS = "metrics.k8s.io cannot be read: the cluster does not have it; install metrics-server"


def autoscaler(name: str = "cart", *, pods: int = 4, **changes: Any) -> AutoscalerSeen:
    """An autoscaler that wants what there is and has room."""
    given: dict[str, Any] = {
        "min_replicas": 1, "max_replicas": 1000, "current": pods, "desired": pods, "observed": True,
        "scaling_active": YES, "able_to_scale": YES,
    }  # fmt: skip
    return AutoscalerSeen(name=name, **{**given, **changes})


class Load(Struct, frozen=True, kw_only=True):
    """What the cluster measures now.

    Args:
        changes: in what the Rollout's autoscaler differs from one that is content.
        none: nobody made an autoscaler.
        unread: autoscalers cannot be read.
        percent: how much of their requests the containers of a revision use; 50 unless told.
        unmeasured: the metrics API does not answer.
        lag_s: how old the newest samples are.
        measured: of how many pods of each revision there are samples; None for all.
        requests: what each container requests, in cores.
        asked: how often that was read.
    """

    changes: Mapping[str, Any] = field(default_factory=dict)
    none: bool = False
    unread: bool = False
    percent: Mapping[str, float] = field(default_factory=dict)
    unmeasured: bool = False
    lag_s: float = 0.0
    measured: int | None = None
    requests: float = 1.0
    asked: int = 0

    def seen(self, gate: AutoscalingGate, *, at_s: float, pods: int, ready: Mapping[str, int]) -> AutoscalingSeen:
        """The answer to the gate's question.

        Args:
            pods: the Rollout's `spec.replicas`.
            ready: ready pods by revision.
        """
        found = () if self.none else (autoscaler(pods=pods, **self.changes),)
        asks = gate.settled or gate.min_headroom_percent is not None
        use = {revision: self._use(revision, count, at_s=at_s) for revision, count in ready.items()}
        problems = [FORBIDDEN] * (asks and self.unread) + [NO_METRICS] * (
            gate.container is not None and self.unmeasured
        )
        return AutoscalingSeen(
            at_s=at_s,
            autoscalers=found if asks and not self.unread else None,
            use=use if gate.container is not None and not self.unmeasured else None,
            message="; ".join(problems),
        )

    def _use(self, revision: str, pods: int, *, at_s: float) -> ContainerUse:
        measured = pods if self.measured is None else min(pods, self.measured)
        return ContainerUse(
            used=0.01 * self.percent.get(revision, 50.0) * measured if measured else None,
            requested=self.requests * measured if measured else None,
            pods=pods,
            measured=measured,
            oldest_at_s=at_s - self.lag_s if measured else None,
            message="" if measured == pods else "pods without a sample",
        )
