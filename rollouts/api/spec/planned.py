"""Fields of the API that the controller does not carry out yet: it refuses them by name, with the version that will have them.

A field must never be accepted and then ignored, so each of these is a problem of the spec.
"""

from __future__ import annotations

from collections.abc import Iterator

from rollouts.api.problems import Problems
from rollouts.api.v1alpha1.analysis import ExperimentTemplate
from rollouts.api.v1alpha1.rollout import CanaryStep, RolloutSpecWire
from rollouts.api.v1alpha1.traffic import TrafficRoutingWire
from rollouts.api.v1alpha1.wire import Wire, attributes_of

PLANNED: dict[type[Wire], dict[str, tuple[str, str]]] = {
    ExperimentTemplate: {
        "weight": (
            "0.6",
            "routes have two destinations so far; leave it out, and send requests to the Service from a Job",
        )
    },
}
"""For each part of the spec: the fields that are refused, the version for which they are planned, and what to do until then."""

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


def refuse_planned(spec: RolloutSpecWire, problems: Problems) -> None:
    """Adds a problem for every planned field that `spec` uses; an explicit null or false is not a use."""
    for path, part in _parts(spec):
        attributes = attributes_of(type(part))
        for name, (version, until) in PLANNED.get(type(part), {}).items():
            if getattr(part, attributes[name]) not in (None, False):
                problems.add(f"{path}.{name}", f"is not supported yet; it is planned for version {version}: {until}")
        for name, way_out in RETIRED.get(type(part), {}).items():
            if getattr(part, attributes[name]) is not None:
                problems.add(f"{path}.{name}", f"is not supported: {way_out}")


def _parts(spec: RolloutSpecWire) -> Iterator[tuple[str, Wire]]:
    yield "spec", spec
    canary = spec.strategy.canary if spec.strategy is not None else None
    if canary is None:
        return
    if canary.traffic_routing is not None:
        yield "spec.strategy.canary.trafficRouting", canary.traffic_routing
    for index, step in enumerate(canary.steps or ()):
        path = f"spec.strategy.canary.steps[{index}]"
        yield path, step
        groups = (step.experiment.templates if step.experiment is not None else None) or ()
        yield from ((f"{path}.experiment.templates[{number}]", group) for number, group in enumerate(groups))
