"""The spec of a HorizontalPodAutoscaler (autoscaling/v2) as values, and what the controller is told by its flags.

Source: k8s.io/api autoscaling/v2 types.go; k8s.io/kubernetes pkg/controller/podautoscaler/config/v1alpha1/defaults.go.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from rollouts.objects import Manifest
from rollouts.sim.storage.quantities import amount, milli


class AutoscalerFlags(Struct, frozen=True, kw_only=True):
    """Flags of kube-controller-manager, with its own defaults; times are seconds.

    Args:
        sync_period_s: from one look at an autoscaler to the next.
        tolerance: distance of the ratio of usage to target from 1 within which nothing is scaled.
        downscale_stabilization_s: window for those whose behavior names none.
        cpu_initialization_s: after the start of a pod, while samples of its CPU may be left out.
        initial_readiness_delay_s: after the start of a pod, while a change of its readiness counts as the first.
    """

    sync_period_s: float = 15.0
    tolerance: float = 0.1
    downscale_stabilization_s: float = 300.0
    cpu_initialization_s: float = 300.0
    initial_readiness_delay_s: float = 30.0


DEFAULT_FLAGS = AutoscalerFlags()


class ResourceTarget(Struct, frozen=True):
    """A metric of type Resource or ContainerResource: of one container, or of all containers of a pod together.

    The target is an average in thousandths of a core or byte, or a utilization in percent of what is requested.
    """

    resource: str
    container: str | None
    average_milli: int | None
    utilization_percent: int | None

    @property
    def source(self) -> str:
        """The type, as `spec.metrics` has it."""
        return "Resource" if self.container is None else "ContainerResource"


class UnservedTarget(Struct, frozen=True):
    """A metric of another type. The simulated cluster has no API that serves it."""

    source: str
    name: str


MetricTarget = ResourceTarget | UnservedTarget


class ScalingPolicy(Struct, frozen=True, rename="camel"):
    """How many pods may be added or removed in a time: `value` pods, or percent of them."""

    type: str
    value: int
    period_seconds: int


class ScalingRules(Struct, frozen=True, rename="camel"):
    """`behavior.scaleUp` or `behavior.scaleDown`; None is for what the flags say."""

    select_policy: str
    policies: tuple[ScalingPolicy, ...]
    stabilization_window_seconds: int | None = None
    tolerance: str | float | None = None

    @property
    def longest_period_s(self) -> int:
        """Scalings that are older do not count."""
        return max((policy.period_seconds for policy in self.policies), default=0)


class Behavior(Struct, frozen=True, rename="camel"):
    """`spec.behavior`."""

    scale_up: ScalingRules
    scale_down: ScalingRules


class AutoscalerSpec(Struct, frozen=True, rename="camel"):
    """`spec`, which the server has filled and checked; without a behavior the rules of before there was this field."""

    min_replicas: int
    max_replicas: int
    metrics: tuple[dict[str, Any], ...]
    behavior: Behavior | None = None

    def tolerates(self, ratio: float, flags: AutoscalerFlags) -> bool:
        """Whether usage is so near to the target that nothing is scaled: as the spec says, else the flags (KEP-4951)."""
        behavior = self.behavior
        up, down = (behavior.scale_up.tolerance, behavior.scale_down.tolerance) if behavior else (None, None)
        above, below = (flags.tolerance if given is None else float(amount(given)) for given in (up, down))
        return 1.0 - below <= ratio <= 1.0 + above


def target_of(metric: Manifest) -> MetricTarget:
    """An entry of `spec.metrics`."""
    source = metric["type"]
    given = metric[source[0].lower() + source[1:]]
    if source not in ("Resource", "ContainerResource"):
        return UnservedTarget(source, given["metric"]["name"])
    average, percent = (given["target"].get(name) for name in ("averageValue", "averageUtilization"))
    return ResourceTarget(
        given["name"], given.get("container"), milli(average) if average is not None else None, percent
    )
