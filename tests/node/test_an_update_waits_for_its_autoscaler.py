"""A real metrics-server measures each revision's container, a real autoscaler scales, and the gate holds what they cannot carry.

No request is lost by what the gate does, nor by what it does not do.
"""

from __future__ import annotations

from tests.node.judged import (
    BURNT_MILLICORES,
    BY_ITS_ANALYSIS,
    LIMIT_PERCENT,
    TARGET_PERCENT,
    Judged,
    ScaledUpdate,
    is_aborted,
    is_held_by,
    is_held_without_metrics,
    is_promoted,
)
from tests.node.lanes import seen_of
from tests.node.workload import REPLICAS, Manifest


@seen_of(ScaledUpdate(name="a healthy version", act=is_promoted))
def test_an_autoscaler_lets_a_healthy_version_pass(seen: Judged) -> None:
    """It has settled, has headroom, and the new pods use little."""
    assert seen.outcome.failed == {}, seen.outcome.failures
    assert seen.rollout["status"]["phase"] == "Healthy"
    assert seen.rollout["status"]["stableRevision"] != seen.first


@seen_of(
    ScaledUpdate(
        name="a version that burns its CPU", act=is_held_by("ContainerOverLimit"), burn_millicores=BURNT_MILLICORES
    )
)
def test_a_canary_that_burns_its_cpu_is_held_while_the_average_looks_idle(seen: Judged) -> None:
    """The autoscaler sees the average of all pods and does nothing; the gate sees the new revision's container."""
    assert seen.outcome.failed == {}, seen.outcome.failures
    assert average_percent(seen.autoscaler) < TARGET_PERCENT
    assert seen.autoscaler["status"]["desiredReplicas"] == REPLICAS
    assert_held(seen, f"(limit {LIMIT_PERCENT} %)")


@seen_of(
    ScaledUpdate(
        name="its analysis", act=is_aborted, steps=BY_ITS_ANALYSIS, gate=None, burn_millicores=BURNT_MILLICORES
    )
)
def test_a_canary_that_burns_its_cpu_is_aborted_by_its_analysis(seen: Judged) -> None:
    """The same figure as a metric, which decides instead of waiting."""
    run = seen.run
    (result,) = run["status"]["metricResults"]

    assert seen.outcome.failed == {}, seen.outcome.failures
    assert (seen.rollout["status"]["phase"], run["status"]["phase"], result["phase"]) == ("Aborted", "Failed", "Failed")
    assert seen.rollout["status"]["stableRevision"] == seen.first


@seen_of(ScaledUpdate(name="an autoscaler at its maximum", act=is_held_by("NoHeadroom"), most=REPLICAS))
def test_an_autoscaler_at_its_maximum_holds_the_next_step(seen: Judged) -> None:
    """It says so, with the numbers and what helps."""
    assert seen.outcome.failed == {}, seen.outcome.failures
    assert_held(seen, f"at {REPLICAS} of {REPLICAS} pods", "maxReplicas")


@seen_of(ScaledUpdate(name="metrics-server ends", act=is_held_without_metrics, alone=True))
def test_nothing_is_promoted_while_metrics_server_is_gone(seen: Judged) -> None:
    """No measurement is no pass."""
    assert seen.outcome.failed == {}, seen.outcome.failures
    assert_held(seen, "metrics")


def assert_held(seen: Judged, *told: str) -> None:
    """At its first step, with the one pod that it had, for a reason that is told; then aborted by a person."""
    assert seen.held is not None
    status = seen.held["status"]
    message = status["waitingFor"]["message"]
    assert [word for word in told if word not in message] == [], message
    assert (status["stableRevision"], status["currentStepIndex"], status["updatedReplicas"]) == (seen.first, 0, 1)
    assert seen.rollout["status"]["stableRevision"] == seen.first


def average_percent(autoscaler: Manifest) -> int:
    (metric,) = autoscaler["status"]["currentMetrics"]
    return int(metric["resource"]["current"]["averageUtilization"])
