"""One bad spec for every rule about `spec.autoscaling`."""

from __future__ import annotations

from typing import Any

from tests.api.specs import CANARY, Bad, Spec, changed, late, spec

_PATH = "spec.autoscaling.containerResource"
LIMIT = {"container": "app", "resource": "cpu", "maxUtilizationPercent": 90}


def _limited(**changes: Any) -> Spec:
    limit = {key: value for key, value in {**LIMIT, **changes}.items() if value is not None}
    return changed(CANARY, autoscaling={"containerResource": limit})


AUTOSCALING_BAD: tuple[Bad, ...] = (
    Bad("autoscaling that asks nothing", spec(autoscaling={}), "spec.autoscaling", "at least one of"),
    Bad("headroom above all of it", spec(autoscaling={"minHeadroomPercent": 101}),
        "spec.autoscaling.minHeadroomPercent", "100 or less"),
    Bad("limit without a container", _limited(container=None), f"{_PATH}.container", "is required"),
    Bad("limit without a resource", _limited(resource=None), f"{_PATH}.resource", "is required"),
    Bad("limit without a number", _limited(maxUtilizationPercent=None), f"{_PATH}.maxUtilizationPercent", "is required"),
    Bad("limit of nothing", _limited(maxUtilizationPercent=0), f"{_PATH}.maxUtilizationPercent", "1 or more"),
    Bad("limit on what nobody measures", _limited(resource="gpu"), f"{_PATH}.resource", "cpu"),
    late("limit on a container that is not there", _limited(container="sidecar"), f"{_PATH}.container",
        "no container 'sidecar': app"),
)  # fmt: skip
