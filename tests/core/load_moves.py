"""What happens to the load that `spec.autoscaling` asks about, and to the gate itself."""

from __future__ import annotations

from collections.abc import Callable

from rollouts.core.model.autoscaling import AutoscalingGate, ContainerLimit, ContainerMetric, ScalingCondition
from rollouts.core.model.frozen import replace
from tests.core.autoscalers import Load
from tests.core.model import World
from tests.core.worlds import edited

LIMIT = ContainerLimit(container="app", resource=ContainerMetric.CPU, max_utilization_percent=90)
GATES = (
    AutoscalingGate(settled=True, min_headroom_percent=20, container=LIMIT),
    AutoscalingGate(container=LIMIT),
    AutoscalingGate(settled=True),
    None,
)
LOADS = (
    Load(),
    Load(changes={"desired": 7}),
    Load(changes={"max_replicas": 4}),
    Load(changes={"scaling_active": ScalingCondition()}),
    Load(percent={"b": 200.0, "c": 91.0}),
    Load(percent={"b": -1.0}),
    Load(measured=1),
    Load(requests=0.0),
    Load(lag_s=40.0),
    Load(unmeasured=True),
    Load(unread=True),
    Load(none=True),
)


def _changed(there: World, number: int) -> World:
    return replace(there, load=replace(LOADS[number % len(LOADS)], asked=there.load.asked))


LOAD: dict[str, Callable[[World, int, int], World]] = {
    "the load changes": lambda there, i, j: _changed(there, i * 8 + j),
    "all is well": lambda there, _i, _j: _changed(there, 0),
    "another gate": lambda there, i, _j: edited(there, autoscaling=GATES[i % len(GATES)]),
}
