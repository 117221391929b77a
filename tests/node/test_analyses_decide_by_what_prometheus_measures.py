"""A real Prometheus measures the pods of a canary, and its verdict decides; no request is lost on the way there or back.

What the bad version answers with 500 is an answer: its clients got it, and the analysis is there for it.
"""

from __future__ import annotations

from tests.node.judged import Judged, Update, is_aborted, is_held_without_prometheus, is_promoted, outlives_absences
from tests.node.lanes import seen_of
from tests.node.measuring import ENOUGH, LATENCY, LONGEST_S, SUCCESS_RATE, result_of, values
from tests.node.workload import NAME

COUNT = 6


@seen_of(Update(name="a good version", act=is_promoted, port=9501))
def test_analyses_promote_a_good_version(seen: Judged) -> None:
    """Both metrics were measured as often as they must be, with numbers."""
    assert seen.outcome.failed == {}, seen.outcome.failures
    assert (seen.rollout["status"]["phase"], seen.run["status"]["phase"]) == ("Healthy", "Successful")
    assert seen.rollout["status"]["stableRevision"] != seen.first
    for name in (SUCCESS_RATE, LATENCY):
        assert result_of(seen.run, name)["successful"] >= COUNT - 2
        assert len(values(result_of(seen.run, name))) >= COUNT


@seen_of(Update(name="5 % errors", act=is_aborted, port=9502, errors_percent=5))
def test_analyses_abort_a_version_with_five_percent_of_errors(seen: Judged) -> None:
    """The metric is told with its number, and only the new version's pods have answered with errors."""
    assert seen.outcome.lost == {}, seen.outcome.failures
    assert_aborted(seen, SUCCESS_RATE)
    assert 0.9 < values(result_of(seen.run, SUCCESS_RATE))[-1] < ENOUGH
    assert {_revision(one["pod"]) for one in seen.outcome.failures or []} == {seen.rollout["status"]["currentRevision"]}


@seen_of(Update(name="a slow version", act=is_aborted, port=9503, work="1s"))
def test_analyses_abort_a_slow_version(seen: Judged) -> None:
    """All of its answers are right, and that metric is a success: each of them takes too long."""
    assert seen.outcome.failed == {}, seen.outcome.failures
    assert_aborted(seen, LATENCY)
    assert values(result_of(seen.run, LATENCY))[-1] > LONGEST_S
    assert result_of(seen.run, SUCCESS_RATE).get("failed", 0) == 0


@seen_of(Update(name="Prometheus comes and goes", act=outlives_absences, port=9504))
def test_analyses_outlive_a_prometheus_that_is_not_always_there(seen: Judged) -> None:
    """It is restarted, and later hangs: measurements are errors then, and what counts is measured before, between and after."""
    success = result_of(seen.run, SUCCESS_RATE)

    assert seen.outcome.failed == {}, seen.outcome.failures
    assert success["error"] >= 2, "both were noticed"
    assert seen.held is None
    assert (seen.rollout["status"]["phase"], seen.run["status"]["phase"]) == ("Healthy", "Successful")
    assert success["successful"] >= COUNT - 2


@seen_of(Update(name="Prometheus ends", act=is_held_without_prometheus, port=9505))
def test_analyses_hold_an_update_when_prometheus_is_gone_for_good(seen: Judged) -> None:
    """What was measured before it went does not suffice: the update waits for a person, with the one pod that it had."""
    assert seen.held is not None
    status = seen.held["status"]

    assert seen.outcome.failed == {}, seen.outcome.failures
    assert status["phase"] == "Paused"
    assert status["waitingFor"]["reason"] == "AnalysisInconclusive"
    assert (status["stableRevision"], status["currentStepIndex"], status["updatedReplicas"]) == (seen.first, 1, 1)
    assert result_of(seen.run, SUCCESS_RATE)["successful"] < COUNT
    assert seen.run["status"]["phase"] == "Error"
    assert seen.rollout["status"]["stableRevision"] == seen.first


def assert_aborted(seen: Judged, metric: str) -> None:
    """By its analysis, for this metric, with all pods of the revision before."""
    assert (seen.rollout["status"]["phase"], seen.run["status"]["phase"]) == ("Aborted", "Failed")
    assert seen.rollout["status"]["stableRevision"] == seen.first
    assert seen.run["metadata"]["name"] in seen.rollout["status"]["message"]
    assert result_of(seen.run, metric)["phase"] == "Failed"


def _revision(pod: str) -> str:
    return pod.removeprefix(f"{NAME}-").rpartition("-")[0]
