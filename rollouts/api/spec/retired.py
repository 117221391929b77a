"""Fields of Argo Rollouts that this controller will not have: it refuses them by name, and says what to use.

A field must never be accepted and then ignored, so each of these is a problem of the spec.
"""

from __future__ import annotations

from collections.abc import Iterator

from rollouts.api.problems import Problems
from rollouts.api.v1alpha1.rollout import CanaryStep, RolloutSpecWire
from rollouts.api.v1alpha1.traffic import TrafficRoutingWire
from rollouts.api.v1alpha1.wire import Wire, attributes_of

RETIRED: dict[type[Wire], dict[str, str]] = {
    CanaryStep: {
        "plugin": (
            "nothing is downloaded into the controller; write a step analysis whose template has a Job that runs the same code,"
            " or a web request to a server that does"
        ),
    },
    TrafficRoutingWire: {
        "ambassador": "Emissary's Mappings are not managed; route by the Gateway API and give the route as gatewayAPI",
        "appMesh": "AWS ended App Mesh; its successor, VPC Lattice, takes HTTPRoutes: give them as gatewayAPI",
        "smi": "the CNCF archived SMI; the meshes that had it take HTTPRoutes: give them as gatewayAPI",
    },
}
"""What Argo Rollouts has and this controller will not have, such as routers that nobody maintains; and what to use."""


def refuse_retired(spec: RolloutSpecWire, problems: Problems) -> None:
    """Adds a problem for every such field that `spec` uses; an explicit null is not a use."""
    for path, part in _parts(spec):
        attributes = attributes_of(type(part))
        for name, way_out in RETIRED.get(type(part), {}).items():
            if getattr(part, attributes[name]) is not None:
                problems.add(f"{path}.{name}", f"is not supported: {way_out}")


def _parts(spec: RolloutSpecWire) -> Iterator[tuple[str, Wire]]:
    canary = spec.strategy.canary if spec.strategy is not None else None
    if canary is None:
        return
    if canary.traffic_routing is not None:
        yield "spec.strategy.canary.trafficRouting", canary.traffic_routing
    for index, step in enumerate(canary.steps or ()):
        yield f"spec.strategy.canary.steps[{index}]", step
