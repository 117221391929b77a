"""Promise: a HorizontalPodAutoscaler is read as its controller and the API server mean it; what it has not said is not known."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.core.model.autoscaling import AutoscalerSeen, ScalingCondition
from rollouts.metrics.autoscalers import ListedAutoscaler, listed_autoscalers
from tests.metrics.measured_pods import NOW_S, at, autoscaler, listed


def read(wire: dict[str, Any]) -> ListedAutoscaler:
    (found,), token = listed_autoscalers(listed(wire, token="next"))
    assert token == "next"
    return found


def test_an_autoscaler_shows_what_it_wants() -> None:
    """With the API server's defaults where the spec is silent."""
    found = read(autoscaler(lastScaleTime=at(-120)))

    assert (found.target_group, found.target_kind, found.target_name) == ("rollouts.dev", "Rollout", "web")
    assert found.seen == AutoscalerSeen(
        name="web", min_replicas=2, max_replicas=10, current=3, desired=3, observed=True,
        scaling_active=ScalingCondition(True, "ValidMetricFound"),
        able_to_scale=ScalingCondition(True, "ReadyForNewScale"),
        scaling_limited=ScalingCondition(False, "DesiredWithinRange"), last_scale_at_s=NOW_S - 120,
        stabilization_up_s=0, stabilization_down_s=300,
    )  # fmt: skip


@pytest.mark.parametrize("status", [{}, {"currentReplicas": 0, "desiredReplicas": 0}, {"conditions": None}])
def test_before_its_first_look_nothing_is_known(status: dict[str, Any]) -> None:
    """The API server shows a new one with counts of 0, which nobody has counted."""
    seen = read(autoscaler() | {"status": status}).seen

    assert (seen.current, seen.desired, seen.observed, seen.last_scale_at_s) == (None, None, False, None)
    assert seen.scaling_active.status is None


@pytest.mark.parametrize(
    ("word", "status"), [("True", True), ("False", False), ("Unknown", None), ("true", None), ("", None)]
)
def test_a_condition_that_is_unknown_is_not_false(word: str, status: bool | None) -> None:
    """And not true either."""
    condition = {"type": "ScalingActive", "status": word, "reason": "FailedGetMetric", "message": "no metrics"}
    seen = read(autoscaler(conditions=[condition])).seen

    assert seen.scaling_active == ScalingCondition(status, "FailedGetMetric", "no metrics")


@pytest.mark.parametrize(
    ("observed", "generation", "truth"), [(1, 2, False), (2, 2, True), (0, 0, True), (None, 2, True)]
)
def test_a_status_may_be_about_an_earlier_spec(observed: int | None, generation: int, truth: bool) -> None:
    """Kubernetes' own controller never says which spec it has seen; API servers that count no generations show 0 for both."""
    wire = autoscaler(observedGeneration=observed)
    wire["metadata"]["generation"] = generation

    assert read(wire).seen.observed is truth


def test_windows_and_owner_are_read() -> None:
    """KEDA makes an autoscaler of a ScaledObject and owns it."""
    wire = autoscaler("keda-hpa-web")
    wire["metadata"]["ownerReferences"] = [
        {"kind": "Tenant", "name": "shop"},
        {"kind": "ScaledObject", "name": "web", "controller": True},
    ]
    wire["spec"]["behavior"] = {
        "scaleUp": {"stabilizationWindowSeconds": 30, "policies": []},
        "scaleDown": {"stabilizationWindowSeconds": 0},
    }
    del wire["spec"]["minReplicas"]
    seen = read(wire).seen

    assert (seen.stabilization_up_s, seen.stabilization_down_s) == (30, 0)
    assert (seen.owner, seen.min_replicas) == ("ScaledObject web", 1)


def test_an_owner_with_a_name_of_a_megabyte_is_cut() -> None:
    """The API server bounds no name in an ownerReference; a status that repeats it is refused from then on."""
    wire = autoscaler("web")
    wire["metadata"]["ownerReferences"] = [{"kind": "K" * 1_000_000, "name": "n" * 1_000_000, "controller": True}]

    assert read(wire).seen.owner == f"{'K' * 63} {'n' * 253}"


def test_metrics_of_one_value_are_named() -> None:
    """An HPA multiplies by all ready pods what it scales by such a metric."""
    metrics = [
        {"type": "Object", "object": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "10"}}},
        {"type": "External", "external": {"metric": {"name": "lag"}, "target": {"type": "Value", "value": "10"}}},
        {"type": "External", "external": {"metric": {"name": "jobs"}, "target": {"type": "AverageValue"}}},
        {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
    ]
    wire = autoscaler()
    wire["spec"] = {**wire["spec"], "metrics": metrics}

    assert read(wire).seen.by_value == ("queue", "lag")
